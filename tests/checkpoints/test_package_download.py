"""A model package as a zip: made while it is sent, with ranges, for whom it belongs to."""

from __future__ import annotations

import io
import os
import zipfile
import zlib

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from checkpoints.bytes.app import BytesApp
from checkpoints.bytes.ranges import OPEN_AT_ONCE
from checkpoints.services.artifacts import INLINE_BYTES, artifact_put_bytes
from checkpoints.store import store
from jobs.models import Package, PackageFile
from tests.checkpoints.asgi import call

FILES = {
    "model.wasm": os.urandom(INLINE_BYTES + 5),
    "manifest.json": b"{}",
    **{f"chunk-{at:03}.bin": os.urandom(INLINE_BYTES + at) for at in range(OPEN_AT_ONCE + 20)},
}


def cookie(name):
    client = Client()
    client.force_login(User.objects.get_or_create(username=name)[0])
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"}


@pytest.fixture
def package(transactional_db):
    now = timezone.now()
    owner = User.objects.create(username="alice")
    source = artifact_put_bytes(b"a,b", now)
    made = Package.objects.create(owner=owner, source=source, source_name='my "data".csv', touched=now)
    for name, data in FILES.items():
        artifact = artifact_put_bytes(data, now)
        PackageFile.objects.create(
            package=made, artifact=artifact, kind="chunk", file_name=name, crc32=zlib.crc32(data)
        )
    return made


def get(package, headers, method="GET"):
    return call(BytesApp(), method, f"/bytes/packages/{package.pk}", headers)


def test_the_archive_holds_every_file(package):
    answer = get(package, cookie("alice"))
    assert (answer.status, answer.complete) == (200, True)
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.headers["content-disposition"].startswith('attachment; filename="my _data_-package.zip"')
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.namelist() == list(FILES)
        assert all(archive.read(name) == data for name, data in FILES.items())


def test_a_download_that_broke_goes_on_where_it_ended(package):
    whole = get(package, cookie("alice"))
    for first in (0, 17, 300_000, len(whole.body) - 30):
        rest = get(package, {**cookie("alice"), "Range": f"bytes={first}-", "If-Range": whole.headers["etag"]})
        assert (rest.status, rest.body) == (206, whole.body[first:])
    assert get(package, {**cookie("alice"), "If-None-Match": whole.headers["etag"]}).status == 304
    assert get(package, cookie("alice"), "HEAD").headers["content-length"] == str(len(whole.body))


def test_a_damaged_file_is_never_sent(package):
    path = store().local(package.files.get(file_name="chunk-080.bin").artifact_id)
    path.write_bytes(b"x" * path.stat().st_size)
    answer = get(package, cookie("alice"))
    assert (answer.status, answer.json["code"]) == (409, "corrupt_artifact")


def test_nobody_else_learns_that_it_is_there(package):
    assert get(package, {}).status == 401
    assert get(package, cookie("mallory")).status == 404
    PackageFile.objects.all().delete()
    assert get(package, cookie("alice")).status == 404
