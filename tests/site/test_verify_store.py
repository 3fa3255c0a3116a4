"""`manage.py verify_store` and `create_bucket`, with files and with S3."""

import json

import pytest
from django.core.management import call_command
from django.utils import timezone

from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_put_bytes
from checkpoints.store import store
from tests.stack.shared import KEYS, storage_url

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def bucket():
    with storage_url() as url:
        yield url


@pytest.fixture(params=["files", "s3"])
def place(request, settings, tmp_path, monkeypatch):
    settings.VAR_DIR = tmp_path
    settings.STORAGE_URL = f"file://{tmp_path}/artifacts"
    if request.param == "s3":
        for name, value in KEYS.items():
            monkeypatch.setenv(name, value)
        settings.STORAGE_URL = request.getfixturevalue("bucket")
    return request.param


def verified(capsys):
    try:
        call_command("verify_store", "--json")
        code = 0
    except SystemExit as ended:
        code = ended.code
    *rows, total = map(json.loads, capsys.readouterr().out.splitlines())
    return code, {row["sha256"]: row["problem"] for row in rows}, total


def test_every_artifact_is_read_and_compared(place, capsys):
    small, large = (artifact_put_bytes(b"x" * size, timezone.now()) for size in (10, 300_000))
    code, found, total = verified(capsys)
    assert code == 0 and found == {small.sha256: None, large.sha256: None}
    assert total == {"artifacts": 2, "bytes": 300_010, "damaged": 0}


def test_a_missing_and_a_damaged_one_are_named(place, capsys):
    """Also where a cache still has them whole."""
    gone, body = artifact_put_bytes(b"a" * 300_000, timezone.now()), artifact_put_bytes(b"b", timezone.now())
    store().local(gone.sha256)
    if place == "s3":
        store()._client.delete_object(Bucket=store()._bucket, Key=store()._key(gone.sha256))
    else:
        store().delete(gone.sha256)
    Artifact.objects.filter(pk=body.sha256).update(body=b"c")
    code, found, total = verified(capsys)
    assert code == 1 and total["damaged"] == 2
    assert "is missing" in found[gone.sha256] and "does not have the bytes" in found[body.sha256]
    with pytest.raises(SystemExit):
        call_command("verify_store")
    assert capsys.readouterr().out.splitlines()[-1] == "2 artifacts, 300001 bytes: 2 DAMAGED"


def test_a_bucket_is_created_once(place, capsys, settings):
    if place == "s3":
        name = settings.STORAGE_URL.split("/")[2]
        settings.STORAGE_URL = settings.STORAGE_URL.replace(name, f"{name}-new")
    for _ in range(2):
        call_command("create_bucket")
    said = capsys.readouterr().out.splitlines()
    if place == "s3":
        assert said == ["The bucket was created.", "The bucket is there."]
        store().check_writable()
    else:
        assert said == ["STORAGE_URL names a folder, so there is no bucket to create."] * 2
