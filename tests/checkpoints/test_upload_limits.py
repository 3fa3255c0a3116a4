"""What the machine bears: room, time, and how much at once."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.bytes import body, limits
from checkpoints.bytes.app import BytesApp
from checkpoints.services.uploads import Declared, Digest
from checkpoints.store import store
from jobs.models import Attempt
from tests.checkpoints.asgi import HANG, call, request
from tests.checkpoints.conftest import make_world
from tests.checkpoints.tus import BIG, UPLOADS, length_of, post, refused
from weei_core.errors import Invalid


def test_a_disk_near_its_end_takes_no_uploads(sized, settings):
    """S9: below the floor. The participant keeps its update and comes back; to it, 507 would be final."""
    world, data = sized
    settings.MIN_FREE_FRACTION = 1.0
    answer = refused(post(world, data), 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert answer.read == 0
    assert Attempt.objects.get().state == Attempt.State.LIVE


def test_a_person_is_told_that_the_disk_is_full(transactional_db, settings):
    """S9: somebody looks at the answer, so it is final."""
    world = make_world(bytes(len(BIG)))
    settings.MIN_FREE_FRACTION = 1.0
    refused(post(world, BIG, world.file_headers(BIG)), 507, "storage_full")


def test_a_disk_that_fills_up_meanwhile_is_said_so(transactional_db, monkeypatch):
    """S9: and the same update counts when there is room again."""
    world = make_world(bytes(len(BIG)))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(body, "_write", full)
        refused(post(world, BIG), 503, "unavailable")
    assert os.listdir(store().folder / "temporary") == []
    assert post(world, BIG).status == 201


def test_a_body_that_comes_too_slowly_is_cut_off(transactional_db, monkeypatch):
    """P3: below the rate for the time of a window."""
    monkeypatch.setattr(body, "SLOW_SECONDS", 0.05)
    world = make_world(bytes(len(BIG)))
    answer = post(world, BIG, pieces=[BIG[:1000], HANG], headers=world.update_headers(BIG) | length_of(BIG))
    refused(answer, 408, "too_slow")
    assert answer.headers["connection"] == "close"
    assert Attempt.objects.get().state == Attempt.State.LIVE


def test_a_body_that_goes_on_after_its_end_is_refused(transactional_db):
    world = make_world(bytes(len(BIG)))
    answer = post(world, BIG, world.update_headers(BIG) | length_of(BIG), [BIG[:-1], b"xx"])
    refused(answer, 413, "too_large")


def test_three_uploads_at_once_per_sender_and_so_many_in_all(world, monkeypatch):
    app = BytesApp()
    headers = world.file_headers(b"x" * 100) | {"Content-Length": "100"}

    async def fill(count):
        held = [asyncio.ensure_future(request(app, "POST", UPLOADS, headers, [b"x", HANG])) for _ in range(count)]
        while app._uploads._slots._by_sender.total() < count:
            await asyncio.sleep(0.005)
        over = await request(app, "POST", UPLOADS, headers, [b"x" * 100])
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        return over

    over = asyncio.run(fill(3))
    refused(over, 429, "rate_limited")
    assert (over.headers["retry-after"], over.read) == ("1", 0)
    assert not app._uploads._slots._by_sender
    monkeypatch.setattr(limits, "UPLOADS_AT_ONCE", 2)
    over = asyncio.run(fill(2))
    refused(over, 503, "busy")
    assert (over.headers["retry-after"], over.read) == ("1", 0)


def test_a_large_body_is_never_held_in_memory(transactional_db, monkeypatch):
    """Written block by block: at no time more than two blocks wait."""
    pieces = [os.urandom(65_536)] * 64
    data = b"".join(pieces)
    world = make_world(b"1234")
    sizes = []
    real = body._write

    def watched(file, block, digest):
        sizes.append(len(block))
        real(file, block, digest)

    monkeypatch.setattr(body, "_write", watched)
    answer = call(BytesApp(), "POST", UPLOADS, world.file_headers(data), list(pieces))
    assert answer.status == 201
    assert sum(sizes) == len(data)
    assert max(sizes) <= 1024 * 1024 + 65_536


@given(data=st.binary(max_size=64), cuts=st.lists(st.integers(0, 64), max_size=4))
def test_a_digest_finds_the_same_whatever_the_blocks(data, cuts):
    digest = Digest(floats=True)
    places = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    for start, end in zip(places, places[1:], strict=False):
        digest.update(data[start:end])
    whole = len(data) % 4 == 0
    finite = all(abs(value) < float("inf") for (value,) in struct.iter_unpack("<f", data[: len(data) // 4 * 4]))
    declared = Declared("update", len(data), hashlib.sha256(data).hexdigest())
    if whole and finite:
        digest.check(declared)
    else:
        with pytest.raises(Invalid, match="finite") as refused_:
            digest.check(declared)
        assert refused_.value.code == "non_finite"
