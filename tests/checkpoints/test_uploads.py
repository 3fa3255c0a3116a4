"""Uploads by tus, asked of the app itself."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import struct
import uuid

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.bytes import accepting, body, limits
from checkpoints.bytes.app import BytesApp
from checkpoints.models import Artifact, JobArtifact, Upload
from checkpoints.selectors.storage import held_hashes, storage_inventory, storage_used
from checkpoints.services.artifacts import artifact_bytes
from checkpoints.services.uploads import Declared, Digest
from checkpoints.store import store
from jobs.models import Attempt, Round
from peers.services.tokens import peer_create
from tests.checkpoints.asgi import GONE, HANG, call, request
from tests.checkpoints.conftest import OCTETS, TUS, bearer, make_world, sha
from weei_core.errors import Invalid
from weei_core.protocol import SLICE_BYTES

UPLOADS = "/bytes/uploads"
SMALL = b"\0\0\x80?" * 64
BIG = struct.pack("<f", 0.5) * 20_000


def post(world, data: bytes, headers=None, pieces=None, app=None):
    return call(app or BytesApp(), "POST", UPLOADS, headers or world.update_headers(data), pieces or [data])


def patch(location, headers, offset, data, app=None):
    slice_headers = {**headers, **OCTETS, "Upload-Offset": str(offset)}
    return call(app or BytesApp(), "PATCH", location, slice_headers, data if isinstance(data, list) else [data])


def head(location, headers):
    return call(BytesApp(), "HEAD", location, {**TUS, **headers})


def refused(answer, status: int, code: str):
    assert answer.headers["content-type"] == "application/problem+json", answer
    assert (answer.status, answer.json["code"]) == (status, code), answer.json
    assert answer.json["title"]
    return answer


@pytest.fixture(params=[SMALL, BIG], ids=["small", "big"])
def sized(request, transactional_db):
    """The same for updates that lie in the row and for updates that are files (C83)."""
    world = make_world(bytes(len(request.param)))
    return world, request.param


# --- Updates in one request ---


@pytest.mark.db
def test_an_update_is_accepted_in_one_request(sized):
    world, data = sized
    answer = post(world, data, pieces=[data[:100], data[100:]])
    assert answer.status == 201, answer.body
    assert answer.json == {"sha256": sha(data), "bytes": len(data), "duplicate": False}
    assert answer.headers["upload-offset"] == str(len(data))
    assert "weei-duplicate" not in answer.headers
    world.attempt.refresh_from_db()
    assert (world.attempt.state, world.attempt.sha256) == (Attempt.State.RECEIVED, sha(data))
    assert artifact_bytes(sha(data), len(data)) == data
    assert JobArtifact.objects.filter(job=world.job, artifact=sha(data), kind="update").exists()
    assert Upload.objects.count() == 0


@pytest.mark.db
def test_the_same_again_is_a_success_marked_duplicate_and_is_not_read(sized):
    """C24, U1: counted once."""
    world, data = sized
    post(world, data)
    answer = post(world, data)
    assert answer.status == 201
    assert answer.json["duplicate"] is True
    assert answer.headers["weei-duplicate"] == "true"
    assert answer.read == 0
    assert Round.objects.get().received == 1


def test_other_bytes_for_an_accepted_attempt_are_refused_and_the_first_kept(sized):
    """C24, U2."""
    world, data = sized
    post(world, data)
    answer = refused(post(world, bytes(len(data))), 409, "already_received")
    assert answer.read == 0
    world.attempt.refresh_from_db()
    assert world.attempt.sha256 == sha(data)


def test_an_attempt_that_is_over_is_told_what_to_work_for(sized):
    world, data = sized
    Attempt.objects.update(state=Attempt.State.EXPIRED)
    answer = refused(post(world, data), 409, "stale_attempt")
    assert (answer.json["round"], answer.json["checkpoint"]) == (1, sha(world.weights))
    assert answer.read == 0


@pytest.mark.parametrize("change", [-len(SMALL), -4, 1, len(SMALL)])
def test_another_length_than_the_weights_fails_the_attempt_unread(world, change):
    """U6, C18: 0, four bytes less, one more, double."""
    data = bytes(len(SMALL) + change)
    answer = post(world, data)
    refused(answer, 422, "wrong_size")
    assert str(len(data)) in answer.json["title"]
    assert str(len(SMALL)) in answer.json["title"]
    assert answer.read == 0
    world.attempt.refresh_from_db()
    assert world.attempt.state == Attempt.State.FAILED


@pytest.mark.parametrize("value", ["0000c07f", "0000807f", "000080ff", "0100807f"])
def test_a_value_that_is_not_finite_fails_the_attempt(sized, value):
    """U5: quiet NaN, both infinities, a signalling NaN; in the last place."""
    world, data = sized
    bad = data[:-4] + bytes.fromhex(value)
    refused(post(world, bad), 422, "non_finite")
    world.attempt.refresh_from_db()
    assert world.attempt.state == Attempt.State.FAILED
    assert not Artifact.objects.filter(sha256=sha(bad)).exists()


def test_bytes_that_changed_on_the_way_may_be_sent_again(sized):
    world, data = sized
    headers = world.update_headers(data)
    # Even when the change makes a NaN: what came is not what was sent.
    refused(post(world, data, headers, [data[:-4] + b"\0\0\xc0\x7f"]), 422, "hash_mismatch")
    world.attempt.refresh_from_db()
    assert world.attempt.state == Attempt.State.LIVE
    assert post(world, data, headers).status == 201


def test_another_peers_attempt_is_not_there(world):
    """U4, H3."""
    _, token = peer_create()
    answer = post(world, SMALL, world.update_headers(SMALL) | bearer(token))
    refused(answer, 404, "not_found")
    assert answer.read == 0


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer ", "Basic eDp5", "Bearer " + "x" * 5000])
def test_an_unknown_peer_is_refused_unread(world, authorization):
    headers = world.update_headers(SMALL)
    headers.pop("Authorization")
    answer = post(world, SMALL, headers | ({"Authorization": authorization} if authorization else {}))
    refused(answer, 401, "unauthorized")
    assert answer.read == 0


def test_a_report_that_claims_too_much_fails_the_attempt(world):
    """U8."""
    report = json.dumps({"round": 1, "examplesProcessed": 4, "uniqueExamples": 10**9, "metrics": {}})
    answer = post(world, SMALL, world.update_headers(SMALL, report=report))
    assert answer.status == 422
    assert Attempt.objects.get().state == Attempt.State.FAILED


def test_updates_around_djangos_own_limit_are_accepted(transactional_db):
    """C83: 2,621,440 bytes and four more."""
    for length in (2_621_440, 2_621_444):
        Round.objects.all().delete()
        get_user_model().objects.all().delete()
        world = make_world(bytes(length))
        assert post(world, b"\0\0\x80?" * (length // 4)).status == 201


# --- What the headers must say ---


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"Tus-Resumable": "0.2.1"}, 412, "wrong_tus_version"),
        ({"Tus-Resumable": None}, 412, "wrong_tus_version"),
        ({"Content-Encoding": "gzip"}, 415, "unsupported_media_type"),  # U14
        ({"Content-Type": "application/octet-stream"}, 415, "unsupported_media_type"),
        ({"Transfer-Encoding": "chunked"}, 411, "length_required"),
        ({"Content-Length": "many"}, 411, "length_required"),
        ({"Content-Length": "-1"}, 411, "length_required"),
        ({"Content-Length": str(2**31)}, 413, "too_large"),  # U13
        ({"Content-Length": str(len(SMALL) + 1)}, 413, "too_large"),
        ({"Upload-Length": None}, 422, "invalid"),
        ({"Upload-Length": "1e3"}, 422, "invalid"),
        ({"Upload-Length": "9" * 16}, 422, "invalid"),
        ({"Upload-Metadata": None}, 422, "invalid"),
        ({"Upload-Metadata": "kind !!!"}, 422, "invalid"),
        ({"Upload-Metadata": "kind dXBkYXRl,kind dXBkYXRl"}, 422, "invalid"),
        ({"Upload-Metadata": "kind dXBkYXRl"}, 422, "invalid"),
        ({"Upload-Metadata": "a " + "A" * 40_000}, 413, "too_large"),
    ],
)
def test_refuses_headers_that_are_not_so_unread(world, change, status, code):
    headers = world.update_headers(SMALL) | change
    answer = post(world, SMALL, {name: value for name, value in headers.items() if value is not None})
    refused(answer, status, code)
    assert answer.read == 0
    assert Attempt.objects.get().state == Attempt.State.LIVE


@pytest.mark.parametrize(
    "pairs", [{"kind": "other"}, {"attempt": "x"}, {"sha256": "ab"}, {"extra": "1"}, {"report": "x" * 20_000}]
)
def test_refuses_metadata_that_is_not_so(world, pairs):
    answer = post(world, SMALL, world.update_headers(SMALL, **pairs))
    refused(answer, 422, "invalid")
    assert answer.json["field"].startswith("Upload-Metadata")


def test_a_refused_body_of_a_slice_is_let_run_out_and_a_longer_one_cut_off(world):
    headers = world.update_headers(SMALL) | {"Tus-Resumable": "2"}
    assert "connection" not in post(world, SMALL, headers | {"Content-Length": str(SLICE_BYTES)}).headers
    longer = post(world, SMALL, headers | {"Content-Length": str(SLICE_BYTES + 1)})
    assert longer.headers["connection"] == "close"


def test_says_what_it_speaks():
    answer = call(BytesApp(), "OPTIONS", UPLOADS)
    assert answer.status == 204
    assert answer.headers["tus-version"] == "1.0.0"
    assert answer.headers["tus-extension"] == "creation,creation-with-upload"
    assert answer.headers["tus-max-size"] == str(2**31)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", UPLOADS, 405),
        ("DELETE", UPLOADS, 405),
        ("POST", f"{UPLOADS}/{uuid.uuid4()}", 405),
        ("POST", f"/bytes/jobs/{uuid.uuid4()}/{'a' * 64}", 405),
        ("GET", "/bytes/", 404),
        ("GET", "/bytes/uploads/../jobs", 404),
        ("GET", f"/bytes/jobs/{uuid.uuid4()}/{'A' * 64}", 404),
        ("GET", f"/bytes/jobs/{uuid.uuid4()}/checkpoints/-1", 404),
    ],
)
def test_other_methods_and_addresses_are_refused_with_the_same_headers(method, path, status):
    answer = call(BytesApp(), method, path, TUS)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


# --- In slices ---


def create(world, data, headers=None):
    described = dict(headers or world.update_headers(data))
    described.pop("Content-Type")
    answer = call(BytesApp(), "POST", UPLOADS, described)
    assert (answer.status, answer.headers["upload-offset"]) == (201, "0")
    return answer.headers["location"], {name: described[name] for name in described if not name.startswith("Upload")}


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


# --- Files of a coordinator ---


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


def test_more_than_2_gib_or_nothing_is_no_file(world):
    for length, status in ((2**31 + 1, 413), (0, 422)):
        headers = world.file_headers(b"") | {"Upload-Length": str(length)}
        headers.pop("Content-Type")
        assert call(BytesApp(), "POST", UPLOADS, headers).status == status


# --- The machine's limits ---


def test_a_disk_near_its_end_takes_no_uploads(sized, settings):
    """S9: below the floor."""
    world, data = sized
    settings.MIN_FREE_FRACTION = 1.0
    answer = refused(post(world, data), 507, "storage_full")
    assert answer.read == 0
    assert Attempt.objects.get().state == Attempt.State.LIVE


def test_a_disk_that_fills_up_meanwhile_is_said_so(transactional_db, monkeypatch):
    """S9: and the same upload works when there is room again."""
    world = make_world(bytes(len(BIG)))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(body, "_write", full)
        refused(post(world, BIG), 507, "storage_full")
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


def length_of(data):
    return {"Content-Length": str(len(data))}


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
