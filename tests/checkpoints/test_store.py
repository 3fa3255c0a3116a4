"""The contract of `ArtifactStore`, run against files and against S3 (moto's server)."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import uuid
from contextlib import suppress

import boto3
import pytest
from moto.server import ThreadedMotoServer

from checkpoints.store import files
from checkpoints.store.factory import _open
from checkpoints.store.files import FileStore
from checkpoints.store.s3 import CACHE_GRACE_SECONDS, S3Store
from checkpoints.store.verified import ALWAYS_BYTES
from weei_core.errors import Conflict, StorageFull, Unavailable

BIG = os.urandom(ALWAYS_BYTES + 5)
SMALL = b"some bytes"


@pytest.fixture(scope="module")
def s3_endpoint():
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bucket = f"b{uuid.uuid4().hex}"
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    return S3Store(tmp_path / "s3", bucket, "weei/", endpoint=s3_endpoint, region="us-east-1")


@pytest.fixture(params=["files", "s3"])
def any_store(request, tmp_path):
    return FileStore(tmp_path / "files") if request.param == "files" else request.getfixturevalue("s3")


def put(store, data: bytes, *, durable: bool = True) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    with store.temporary() as path:
        path.write_bytes(data)
        store.put(path, sha256, durable=durable)
    return sha256


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "big"])
def test_what_was_put_is_there_whole(any_store, data, durable):
    sha256 = put(any_store, data, durable=durable)
    assert any_store.exists(sha256)
    assert any_store.local(sha256).read_bytes() == data
    assert [name for name, _ in any_store.names(sha256[:2])] == [sha256]


def test_the_same_bytes_twice_are_stored_once(any_store):
    first, second = put(any_store, SMALL), put(any_store, SMALL, durable=False)
    assert first == second
    assert [name for name, _ in any_store.names(first[:2])] == [first]


def test_nothing_is_left_of_a_temporary_file(any_store):
    put(any_store, SMALL)
    with suppress(ZeroDivisionError), any_store.temporary() as path:
        path.write_bytes(b"half")
        raise ZeroDivisionError
    assert os.listdir(any_store.folder / "temporary") == []


def test_deleting_is_idempotent(any_store):
    sha256 = put(any_store, SMALL)
    any_store.delete(sha256)
    any_store.delete(sha256)
    assert not any_store.exists(sha256)
    with pytest.raises(Conflict) as refused:
        any_store.local(sha256)
    assert refused.value.code == "corrupt_artifact"
    assert sha256 in refused.value.message


def test_slices_are_kept_by_upload_and_offset(any_store):
    upload = uuid.uuid4()
    for offset, data in ((0, b"first"), (5, b"second"), (5, b"again")):
        with any_store.temporary() as path:
            path.write_bytes(data)
            any_store.put_slice(upload, offset, path)
    assert list(any_store.uploads()) == [upload]
    with any_store.open_slice(upload, 0) as file:
        assert file.read(100) == b"first"
    with any_store.open_slice(upload, 5) as file:
        assert file.read(100) == b"again"
    with pytest.raises(FileNotFoundError):
        any_store.open_slice(upload, 7)
    any_store.delete_slices(upload)
    any_store.delete_slices(upload)
    assert list(any_store.uploads()) == []


def test_a_body_becomes_a_verified_file_that_is_swept_when_old(any_store):
    sha256 = hashlib.sha256(SMALL).hexdigest()
    path = any_store.body_file(sha256, SMALL)
    assert path.read_bytes() == SMALL
    path.write_bytes(b"damaged")
    assert any_store.body_file(sha256, SMALL).read_bytes() == SMALL
    assert any_store.sweep(60, 60) == 0
    os.utime(path, (time.time() - 100,) * 2)
    assert any_store.sweep(60, 60) == 1
    assert not path.exists()


def test_refuses_bytes_that_would_leave_too_little_room(any_store):
    """S9: below the floor, new uploads are refused."""
    any_store.check_space(1, 0.0)
    with pytest.raises(StorageFull):
        any_store.check_space(1, 1.0)


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "big"])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_file_is_not_given_out_until_it_is_put_again(tmp_path, data, damage):
    """S11. The file was read, and so was remembered as whole, before it was damaged."""
    store = FileStore(tmp_path)
    sha256 = put(store, data)
    path = store.local(sha256)
    damaged = data[:-1] + bytes([data[-1] ^ 1]) if damage == "flip" else data[:-1]
    path.write_bytes(damaged)
    with pytest.raises(Conflict, match="does not have the bytes"):
        store.local(sha256)
    put(store, data, durable=False)
    assert store.local(sha256).read_bytes() == data


def test_a_large_file_is_hashed_once_while_it_stays_as_it_is(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    sha256 = put(store, BIG)
    long_ago = time.time() - 60
    os.utime(store._path(sha256), (long_ago, long_ago))
    store.local(sha256)
    monkeypatch.setattr("checkpoints.store.verified.sha256_of", lambda source: pytest.fail("hashed again"))
    store.local(sha256)


def test_another_process_does_not_hash_what_was_hashed_while_it_was_written(tmp_path, monkeypatch):
    """A worker merges what the web process has just received."""
    sha256 = put(FileStore(tmp_path), BIG, durable=False)
    with monkeypatch.context() as patched:
        patched.setattr("checkpoints.store.verified.sha256_of", lambda source: pytest.fail("hashed again"))
        FileStore(tmp_path).local(sha256)


@pytest.mark.parametrize("why", ["written", "restarted", "old", "moved", "no attributes"])
def test_a_note_counts_only_for_the_bytes_the_day_and_the_boot_that_it_was_made_in(tmp_path, monkeypatch, why):
    store = FileStore(tmp_path)
    sha256 = put(store, BIG)
    path = store._path(sha256)
    if why == "written":
        path.write_bytes(BIG)
    elif why == "restarted":
        monkeypatch.setattr("checkpoints.store.verified._boot_id", lambda: "another")
    elif why == "old":
        monkeypatch.setattr("checkpoints.store.verified.VOUCHED_SECONDS", 0)
    elif why == "moved":
        copy = path.with_name("copy")
        shutil.copy2(path, copy)  # With its attributes, as a restored backup has them.
        copy.replace(path)
    else:
        monkeypatch.setattr(os, "getxattr", raises_no_data)
    hashed = []
    monkeypatch.setattr("checkpoints.store.verified.sha256_of", lambda source: hashed.append(source.size) or sha256)
    FileStore(tmp_path).local(sha256)
    assert hashed == [len(BIG)]


def test_a_file_from_a_clock_that_is_ahead_is_not_waited_for(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(BIG)
    os.utime(path, (time.time() + 3600,) * 2)
    FileStore(tmp_path / "store").verified.vouch(path, hashlib.sha256(BIG).hexdigest())
    assert os.listxattr(path) == []


def raises_no_data(*args):
    raise OSError(errno.ENODATA, "no such attribute")


def test_durable_bytes_are_synced_before_and_after_they_get_their_name(tmp_path, monkeypatch):
    """S10: temporary file, fsync, name, fsync of the folder. Updates are not synced."""
    store = FileStore(tmp_path)
    put(store, SMALL)
    steps = []
    monkeypatch.setattr(files, "fsync_path", lambda path: steps.append(path))
    monkeypatch.setattr(os, "link", lambda old, new: steps.append(new))
    sha256 = hashlib.sha256(BIG).hexdigest()
    (tmp_path / "sha256" / sha256[:2]).mkdir(exist_ok=True)
    with store.temporary() as path:
        store.put(path, sha256)
        assert steps == [path, store._path(sha256), store._path(sha256).parent]
        steps.clear()
        store.put(path, sha256, durable=False)
        assert steps == [store._path(sha256)]


def test_a_full_disk_leaves_no_name(tmp_path, monkeypatch):
    """C44, S9: the error comes before the name."""
    store = FileStore(tmp_path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        put(store, SMALL)
    assert not store.exists(hashlib.sha256(SMALL).hexdigest())
    assert os.listdir(tmp_path / "temporary") == []


def test_s3_reads_through_a_cache_that_it_verifies(s3):
    sha256 = put(s3, BIG)
    path = s3.local(sha256)
    path.write_bytes(b"damaged here")
    assert s3.local(sha256).read_bytes() == BIG
    s3._client.put_object(Bucket=s3._bucket, Key=f"weei/sha256/{sha256}", Body=b"damaged there")
    assert s3.local(sha256).read_bytes() == BIG
    s3.local(sha256).unlink()
    with pytest.raises(Conflict, match="does not have the bytes"):
        s3.local(sha256)


def test_s3_evicts_what_was_not_used_for_longest(s3):
    s3._cache_bytes = 25
    names = [put(s3, bytes([n]) * 10) for n in range(3)]
    for age, name in zip((30, 20, 10), names, strict=True):
        used = time.time() - CACHE_GRACE_SECONDS - age
        os.utime(s3._cache / name, (used, used))
    s3.local(names[0])
    put(s3, b"z" * 10)
    assert {path.name for path in s3._cache.iterdir()} == {names[0], hashlib.sha256(b"z" * 10).hexdigest()}
    assert s3.local(names[1]).read_bytes() == b"\1" * 10


def test_s3_that_does_not_answer_may_be_asked_again(s3, tmp_path):
    away = S3Store(tmp_path / "away", "nowhere", endpoint="http://127.0.0.1:9", region="us-east-1")
    with pytest.raises(Unavailable):
        away.exists("0" * 64)
    with pytest.raises(Unavailable, match="NoSuchBucket"):
        put(S3Store(tmp_path / "none", "none", endpoint=s3._client.meta.endpoint_url, region="us-east-1"), SMALL)


def test_s3_gives_an_address_that_serves_the_bytes_for_a_while(s3):
    sha256 = put(s3, SMALL)
    address = s3.redirect(sha256, "attachment", 60)
    assert address is not None
    assert sha256 in address
    assert "Expires" in address


def test_the_setting_names_the_store(tmp_path):
    assert isinstance(_open(f"file://{tmp_path}/a%20b", tmp_path), FileStore)
    assert (tmp_path / "a b").is_dir()
    opened = _open("s3://bucket/some/prefix?endpoint=http://localhost:1&region=eu-north-1&cache_bytes=5", tmp_path)
    assert isinstance(opened, S3Store)
    assert opened._key("ab") == "some/prefix/sha256/ab"
    assert opened._cache_bytes == 5
    with pytest.raises(Exception, match="STORAGE_URL must start with"):
        _open("ftp://x", tmp_path)
