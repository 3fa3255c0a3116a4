"""Uploads in slices: they go on where they were cut, and count only when they are whole."""

from __future__ import annotations

import asyncio
import os
import struct

import pytest
from django.contrib.auth import get_user_model

from checkpoints.bytes import accepting
from checkpoints.bytes.app import BytesApp
from checkpoints.models import Upload
from checkpoints.services.artifacts import artifact_bytes
from checkpoints.store import store
from jobs.models import Attempt
from tests.checkpoints.asgi import GONE, HANG, call, request
from tests.checkpoints.conftest import OCTETS, TUS, bearer, make_world, sha
from tests.checkpoints.tus import BIG, SMALL, UPLOADS, create, head, patch, refused
from weei_core.protocol import SLICE_BYTES


@pytest.mark.db
def test_an_update_comes_in_slices(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    for start, end in ((0, 30_001), (30_001, 60_000)):
        answer = patch(location, headers, start, [BIG[start : start + 10], BIG[start + 10 : end]])
        assert (answer.status, answer.headers["upload-offset"]) == (204, str(end))
    assert head(location, headers).headers["upload-offset"] == "60000"
    assert Attempt.objects.get().state == Attempt.State.LIVE
    answer = patch(location, headers, 60_000, BIG[60_000:])
    assert (answer.status, answer.headers["upload-offset"]) == (204, str(len(BIG)))
    assert artifact_bytes(sha(BIG), len(BIG)) == BIG
    assert list(store().uploads()) == []
    again = head(location, headers)
    assert (again.status, again.headers["upload-offset"], again.headers["upload-length"]) == (200, "80000", "80000")
    assert again.headers["cache-control"] == "no-store"


def test_an_upload_of_one_slice_is_written_once(transactional_db, monkeypatch):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    monkeypatch.setattr(type(store()), "put_slice", lambda *_: pytest.fail("written as a slice"))
    assert patch(location, headers, 0, BIG).status == 204
    assert Attempt.objects.get().sha256 == sha(BIG)


def test_the_first_slice_may_come_with_the_creation(transactional_db):
    world = make_world(bytes(len(BIG)))
    headers = world.update_headers(BIG)
    answer = call(BytesApp(), "POST", UPLOADS, headers, [BIG[:50_000]])
    assert (answer.status, answer.headers["upload-offset"], answer.body) == (201, "50000", b"")
    assert patch(answer.headers["location"], {**TUS, **bearer(world.token)}, 50_000, BIG[50_000:]).status == 204
    assert Attempt.objects.get().sha256 == sha(BIG)


@pytest.mark.parametrize(("cut", "kept"), [(70_000, 70_000), (1_000, 0)])
def test_a_slice_that_is_cut_goes_on_where_it_was_cut(transactional_db, cut, kept):
    """P3: small beginnings are not worth an object of the store."""
    data = struct.pack("<f", 0.25) * 50_000
    world = make_world(bytes(len(data)))
    location, headers = create(world, data)
    answer = patch(location, headers | {"Content-Length": "150000"}, 0, [data[:cut], GONE])
    assert answer.status == 0
    assert head(location, headers).headers["upload-offset"] == str(kept)
    assert patch(location, headers, kept, data[kept : kept + 100_000]).status == 204
    assert patch(location, headers, kept + 100_000, data[kept + 100_000 :]).status == 204
    assert artifact_bytes(sha(data), len(data)) == data


def test_a_body_that_is_cut_leaves_nothing(sized):
    """S5, C44."""
    world, data = sized
    answer = call(BytesApp(), "POST", UPLOADS, world.update_headers(data) | {"Content-Length": str(len(data))}, [GONE])
    assert answer.status == 0
    assert Upload.objects.count() == 0
    assert os.listdir(store().folder / "temporary") == []
    assert Attempt.objects.get().state == Attempt.State.LIVE


def test_another_offset_is_answered_without_a_final_problem(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    answer = patch(location, headers, 5, BIG[5:10])
    assert (answer.status, answer.body, answer.headers["upload-offset"]) == (409, b"", "0")
    assert answer.read == 0


def test_a_slice_past_the_end_or_of_more_than_8_mib_is_refused(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    for announced in (len(BIG) + 1, SLICE_BYTES + 1):
        refused(patch(location, headers | {"Content-Length": str(announced)}, 0, BIG), 413, "too_large")


def test_somebody_elses_upload_is_not_there(world):
    location, _ = create(world, SMALL)
    stranger = world.session(get_user_model().objects.create_user("stranger"))
    for headers in (stranger, world.session()):
        refused(head(location, headers), 404, "not_found")
    assert head(location, bearer(world.token)).status == 200
    # A browser may send both.
    assert head(location, bearer(world.token) | stranger).status == 200


def test_slices_whose_hash_is_wrong_are_thrown_away(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    assert patch(location, headers, 0, bytes(40_000)).status == 204
    refused(patch(location, headers, 40_000, BIG[40_000:]), 422, "hash_mismatch")
    assert Upload.objects.count() == 0
    assert list(store().uploads()) == []
    assert Attempt.objects.get().state == Attempt.State.LIVE


@pytest.mark.db
def test_slices_with_a_value_that_is_not_finite_fail_the_attempt(transactional_db):
    data = BIG[:-4] + b"\0\0\xc0\x7f"
    world = make_world(bytes(len(data)))
    location, headers = create(world, data)
    patch(location, headers, 0, data[:40_001])
    refused(patch(location, headers, 40_001, data[40_001:]), 422, "non_finite")
    assert Attempt.objects.get().state == Attempt.State.FAILED
    assert Upload.objects.count() == 0


def test_slices_for_an_attempt_that_is_over_are_thrown_away(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    patch(location, headers, 0, BIG[:40_000])
    Attempt.objects.update(state=Attempt.State.EXPIRED)
    answer = refused(patch(location, headers, 40_000, BIG[40_000:]), 409, "stale_attempt")
    assert answer.read == 0
    assert Upload.objects.count() == 0
    assert list(store().uploads()) == []


def test_an_upload_begun_anew_replaces_the_one_before(transactional_db):
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    patch(location, headers, 0, BIG[:40_000])
    second, _ = create(world, BIG)
    assert head(location, headers).status == 404
    assert head(second, headers).headers["upload-offset"] == "0"
    assert list(store().uploads()) == []


def test_a_crash_before_the_end_of_the_last_slice_lets_it_be_sent_again(transactional_db, monkeypatch):
    """C44: the slices are there, the row still says that the last is missing."""
    world = make_world(bytes(len(BIG)))
    location, headers = create(world, BIG)
    patch(location, headers, 0, BIG[:40_000])
    with monkeypatch.context() as patched:
        patched.setattr(accepting, "accept_file", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            patch(location, headers, 40_000, BIG[40_000:])
    assert head(location, headers).headers["upload-offset"] == "40000"
    assert patch(location, headers, 40_000, BIG[40_000:]).status == 204
    assert Attempt.objects.get().sha256 == sha(BIG)


@pytest.mark.db
def test_a_newer_request_takes_over_from_a_connection_that_died_unnoticed(transactional_db):
    data = struct.pack("<f", 0.25) * 50_000
    world = make_world(bytes(len(data)))
    location, headers = create(world, data)
    headers |= OCTETS

    async def both():
        app = BytesApp()
        first = {**headers, "Upload-Offset": "0", "Content-Length": "150000"}
        older = asyncio.ensure_future(request(app, "PATCH", location, first, [data[:100_000], HANG]))
        while not app._uploads._turns._running:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        asked = await request(app, "HEAD", location, headers)
        offset = int(asked.headers["upload-offset"])
        newer = await request(app, "PATCH", location, {**headers, "Upload-Offset": str(offset)}, [data[offset:]])
        return offset, await older, newer

    offset, older, newer = asyncio.run(both())
    assert offset == 100_000
    assert (older.status, older.json["code"], older.headers["retry-after"]) == (503, "taken_over", "1")
    assert newer.status == 204
    assert artifact_bytes(sha(data), len(data)) == data
