"""A coordinator's files: rights, names and quota."""

from __future__ import annotations

import hashlib
import os

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.bytes.app import BytesApp
from checkpoints.models import JobArtifact
from checkpoints.selectors.storage import held_hashes, storage_inventory, storage_used
from checkpoints.services.artifacts import artifact_bytes
from checkpoints.services.uploads import Declared, Digest
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import bearer, sha
from tests.checkpoints.tus import UPLOADS, create, head, patch, refused


@pytest.mark.parametrize("data", [b"x", b"y" * 20_000], ids=["small", "big"])
def test_a_file_is_kept_as_the_coordinators_own(world, data):
    answer = call(BytesApp(), "POST", UPLOADS, world.file_headers(data), [data])
    assert answer.status == 201, answer.body
    assert answer.json == {"sha256": sha(data), "bytes": len(data), "duplicate": False}
    assert artifact_bytes(sha(data), len(data)) == data
    assert held_hashes(world.owner.pk, [sha(data), sha(b"other")]) == {sha(data)}
    stranger = get_user_model().objects.create_user("stranger")
    assert held_hashes(stranger.pk, [sha(data)]) == set()
    assert head(answer.headers["location"], world.session()).headers["upload-offset"] == str(len(data))


@pytest.mark.db
def test_a_file_comes_in_slices(world):
    data = os.urandom(100_000)
    location, headers = create(world, data, world.file_headers(data))
    assert patch(location, headers, 0, data[:70_000]).status == 204
    assert held_hashes(world.owner.pk, [sha(data)]) == set()
    assert patch(location, headers, 70_000, data[70_000:]).status == 204
    assert held_hashes(world.owner.pk, [sha(data)]) == {sha(data)}


@pytest.mark.parametrize("origin", [None, "null", "http://testserver:81", "https://testserver", "http://evil.example"])
def test_a_foreign_page_uploads_nothing(world, origin):
    """C82: the cookie comes along from anywhere, the exact Origin does not."""
    headers = world.file_headers(b"x")
    headers.pop("Origin")
    answer = call(BytesApp(), "POST", UPLOADS, headers | ({"Origin": origin} if origin else {}), [b"x"])
    refused(answer, 403, "forbidden")
    assert answer.read == 0


@pytest.mark.parametrize("cookie", ["", "weei_session_8000=nothing", "weei_session_8000=; x=\x01", "a\x00=b"])
def test_nobody_uploads_a_file_without_a_session(world, cookie):
    headers = world.file_headers(b"x") | {"Cookie": cookie} | bearer(world.token)
    refused(call(BytesApp(), "POST", UPLOADS, headers, [b"x"]), 401, "unauthorized")


@pytest.mark.parametrize(
    "name", ["../a.bin", "/etc/hostname", "a/../../b", "..\\b", "C:\\x", ".", "", "a\0b", "x" * 300, "a\nb"]
)
def test_names_that_leave_the_folder_are_refused(world, name):
    """C48."""
    answer = call(BytesApp(), "POST", UPLOADS, world.file_headers(b"x", name), [b"x"])
    assert answer.status == 422
    assert answer.json["field"] == "Upload-Metadata.filename"
    assert answer.read == 0


@given(name=st.text(min_size=1, max_size=300), data=st.binary(min_size=1, max_size=50))
def test_a_name_never_decides_where_bytes_go(name, data):
    """F2: the store is asked by hash only, so that a name has no way into a path."""
    declared = Declared("file", len(data), hashlib.sha256(data).hexdigest(), name)
    digest = Digest(floats=False)
    digest.update(data)
    digest.check(declared)
    assert set(declared.sha256) <= set("0123456789abcdef")


@pytest.mark.db
def test_the_quota_counts_each_stored_file_once_and_what_is_announced(world, settings):
    used = storage_used(world.owner.pk)
    world.add(world.module, JobArtifact.Kind.ARCHIVE)
    assert storage_used(world.owner.pk) == used
    settings.UPLOAD_QUOTA_BYTES = used + 100
    create(world, b"y" * 60, world.file_headers(b"y" * 60))
    answer = call(BytesApp(), "POST", UPLOADS, world.file_headers(b"z" * 41), [b"z" * 41])
    refused(answer, 413, "too_large")
    assert answer.read == 0
    assert call(BytesApp(), "POST", UPLOADS, world.file_headers(b"z" * 40), [b"z" * 40]).status == 201
    inventory = storage_inventory(world.owner.pk)
    assert (inventory.bytes, inventory.uploads, inventory.upload_bytes) == (used + 100, 2, 100)
    assert {(row.kind, row.files) for row in inventory.jobs} >= {("chunk", 2), ("module", 1)}


def test_a_file_of_2_gib_is_taken(world):
    """What auxiliary weights may have; modules and checkpoints are looked at again when a job is made."""
    headers = world.file_headers(b"x") | {"Upload-Length": str(2**31)}
    headers.pop("Content-Type")
    assert call(BytesApp(), "POST", UPLOADS, headers).status == 201


def test_more_than_2_gib_or_nothing_is_no_file(world):
    for length, status in ((2**31 + 1, 413), (0, 422)):
        headers = world.file_headers(b"") | {"Upload-Length": str(length)}
        headers.pop("Content-Type")
        assert call(BytesApp(), "POST", UPLOADS, headers).status == status
