"""Updates that come in one request, and what their headers must say."""

from __future__ import annotations

import json
import uuid

import pytest
from django.contrib.auth import get_user_model

from checkpoints.bytes.app import BytesApp
from checkpoints.models import Artifact, JobArtifact, Upload
from checkpoints.services.artifacts import artifact_bytes
from jobs.models import Attempt, Round
from peers.services.tokens import peer_create
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import TUS, bearer, make_world, sha
from tests.checkpoints.tus import SMALL, UPLOADS, post, refused
from weei_core.protocol import SLICE_BYTES


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
        ("POST", f"{UPLOADS}/{uuid.UUID(int=7)}", 405),
        ("POST", f"/bytes/jobs/{uuid.UUID(int=7)}/{'a' * 64}", 405),
        ("GET", "/bytes/", 404),
        ("GET", "/bytes/uploads/../jobs", 404),
        ("GET", f"/bytes/jobs/{uuid.UUID(int=7)}/{'A' * 64}", 404),
        ("GET", f"/bytes/jobs/{uuid.UUID(int=7)}/checkpoints/-1", 404),
    ],
)
def test_other_methods_and_addresses_are_refused_with_the_same_headers(method, path, status):
    answer = call(BytesApp(), method, path, TUS)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
