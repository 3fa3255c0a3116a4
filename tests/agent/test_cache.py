"""The cache of downloads (its network side is in test_faults)."""

import base64
import hashlib
import os

import pytest

from weei_agent.state import File
from weei_agent.transfer import Cache, WrongBytes


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", limit=250)


def put(cache, data, age=0.0):
    path = cache.put(file_of(data), base64.b64encode(data).decode(), "The start weights")
    os.utime(path, (10_000 - age, 10_000 - age))
    return path


def file_of(data):
    return File(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def test_the_least_recently_used_go_first(cache):
    old, older, new = put(cache, b"a" * 100, age=5), put(cache, b"b" * 100, age=9), put(cache, b"c" * 100)
    cache.trim(keep=[])
    assert [path.exists() for path in (old, older, new)] == [True, False, True]


def test_what_is_in_use_stays(cache):
    old, older, new = put(cache, b"a" * 100, age=5), put(cache, b"b" * 100, age=9), put(cache, b"c" * 100)
    cache.trim(keep=[older])
    assert [path.exists() for path in (old, older, new)] == [False, True, True]


def test_a_file_that_another_agent_writes_stays_and_an_abandoned_one_goes(cache, tmp_path):
    fresh, abandoned = tmp_path / "cache" / "fresh.part", tmp_path / "cache" / "abandoned.part"
    for path in (fresh, abandoned):
        path.write_bytes(b"x" * 200)
    os.utime(abandoned, (0, 0))
    cache.trim(keep=[])
    assert [fresh.exists(), abandoned.exists()] == [True, False]


@pytest.mark.parametrize("content", ["AAAA", "!", "YWJj\n"])
def test_inline_bytes_are_verified(cache, content, tmp_path):
    with pytest.raises(WrongBytes, match="The start weights"):
        cache.put(file_of(b"abc"), content, "The start weights")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_stored_file_that_was_changed_is_fetched_again(server, run, tmp_path):
    run("--once")
    stored = tmp_path / "cache" / server.module_sha
    stored.write_bytes(b"x" * len(server.module))
    run("--once")
    assert server.log.count(("download", server.module_sha)) == 2
    assert stored.read_bytes() == server.module
