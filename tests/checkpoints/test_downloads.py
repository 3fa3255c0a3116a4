"""How stored bytes come to those who may read them."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.bytes import ranges
from checkpoints.bytes.app import BytesApp
from checkpoints.bytes.http import ClientGone, Request
from checkpoints.bytes.ranges import BLOCK_BYTES, Piece, attachment, send_pieces
from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.artifacts import artifact_put_bytes
from checkpoints.store import store
from jobs.selectors import downloads
from peers.models import Membership
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import World, bearer, make_checkpoint, sha

State = Membership.State
BIG = os.urandom(BLOCK_BYTES * 2 + 100)


def get(world: World, data: bytes, headers=None, method="GET"):
    return call(BytesApp(), method, world.path(data), bearer(world.token) if headers is None else headers)


@pytest.fixture(params=[b"small bytes of a row", BIG], ids=["row", "file"])
def stored(request, world):
    world.add(request.param, JobArtifact.Kind.MODULE, "big.wasm")
    return world, request.param


def test_bytes_are_served_as_a_download_that_may_be_kept(stored):
    """F13: never as a page or a script of this origin."""
    world, data = stored
    answer = get(world, data)
    assert (answer.status, answer.body, answer.complete) == (200, data, True)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["etag"] == f'"{sha(data)}"'
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment; filename=\"big.wasm\"; filename*=UTF-8''big.wasm"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("0-0", 0, 0),
        ("3-9", 3, 9),
        ("5-", 5, None),
        ("-4", -4, None),
        ("0-99999999999", 0, None),
        ("-999999999", 0, None),
    ],
)
def test_a_range_is_served(stored, asked, first, last):
    world, data = stored
    answer = get(world, data, bearer(world.token) | {"Range": f"bytes={asked}"})
    wanted = data[first : None if last is None else last + 1]
    assert (answer.status, answer.body) == (206, wanted)
    start = first % len(data)
    assert answer.headers["content-range"] == f"bytes {start}-{start + len(wanted) - 1}/{len(data)}"
    assert answer.headers["content-length"] == str(len(wanted))


@pytest.mark.parametrize("asked", ["bytes=9-3", "bytes=-", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b", "bytes=--1"])
def test_a_range_that_says_nothing_is_ignored(stored, asked):
    world, data = stored
    answer = get(world, data, bearer(world.token) | {"Range": asked})
    assert (answer.status, answer.body) == (200, data)


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0", "bytes=99999999-99999999999"])
def test_a_range_past_the_end_is_refused(stored, asked):
    world, data = stored
    answer = get(world, data, bearer(world.token) | {"Range": asked})
    assert (answer.status, answer.body) == (416, b"")
    assert answer.headers["content-range"] == f"bytes */{len(data)}"


def test_a_range_of_something_else_is_answered_with_the_whole(stored):
    world, data = stored
    headers = bearer(world.token) | {"Range": "bytes=0-1"}
    assert get(world, data, headers | {"If-Range": '"other"'}).status == 200
    assert get(world, data, headers | {"If-Range": f'"{sha(data)}"'}).status == 206


def test_what_the_reader_has_is_not_sent_again_but_rights_are_asked(stored):
    world, data = stored
    headers = {"If-None-Match": f'"{sha(data)}"'}
    answer = get(world, data, bearer(world.token) | headers)
    assert (answer.status, answer.body) == (304, b"")
    Membership.objects.update(state=State.LEFT)
    assert get(world, data, bearer(world.token) | headers).status == 403


def test_head_says_the_length_only(stored):
    world, data = stored
    answer = get(world, data, method="HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", str(len(data)))


def test_damaged_bytes_are_not_served(stored):
    """S11: one flipped bit, after the file had been served before."""
    world, data = stored
    assert get(world, data).status == 200
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    if len(data) < 100:
        Artifact.objects.filter(pk=sha(data)).update(body=damaged)
    else:
        store().local(sha(data)).write_bytes(damaged)
    answer = get(world, data)
    assert (answer.status, answer.json["code"]) == (409, "corrupt_artifact")
    assert sha(data) in answer.json["title"]


def test_nothing_more_is_read_for_a_reader_that_is_gone(world, monkeypatch):
    world.add(BIG, JobArtifact.Kind.MODULE)
    read = []
    real = ranges._read

    def watched(*asked):
        read.append(asked)
        return real(*asked)

    monkeypatch.setattr(ranges, "_read", watched)
    with pytest.raises(ClientGone):
        call(BytesApp(), "GET", world.path(BIG), bearer(world.token), hang_up_after=1)
    assert len(read) <= 2


def test_a_reader_that_takes_nothing_is_cut_off(world, monkeypatch):
    """P15."""
    monkeypatch.setattr("checkpoints.bytes.ranges.STALLED_SECONDS", 0.02)
    world.add(BIG, JobArtifact.Kind.MODULE)

    async def stalled():
        async def send(message):
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        scope = {"type": "http", "method": "GET", "path": world.path(BIG)}
        scope["headers"] = [(b"authorization", f"Bearer {world.token}".encode())]

        async def receive():
            await asyncio.Event().wait()
            return {}

        await BytesApp()(scope, receive, send)

    with pytest.raises(ClientGone):
        asyncio.run(stalled())


@given(sizes=st.lists(st.integers(0, 20), min_size=1, max_size=4), first=st.integers(0, 90), count=st.integers(1, 90))
def test_a_range_over_several_pieces_is_the_range_of_the_whole(sizes, first, count):
    whole = bytes(range(sum(sizes)))
    cut = [whole[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(len(sizes))]
    pieces = [Piece(data, len(data)) for data in cut]

    async def app(scope, receive, send):
        await send_pieces(Request(scope, receive), send, pieces, "tag", ())

    answer = call(app, "GET", "/", {"Range": f"bytes={first}-{first + count - 1}"})
    assert answer.body == whole[first : first + count]
    assert answer.status == (206 if first < len(whole) else 416)


def test_a_store_with_addresses_of_its_own_may_serve_itself(world, settings, monkeypatch):
    """Only when asked for, and only after the rights were checked."""
    world.add(BIG, JobArtifact.Kind.MODULE, "big.wasm")
    seen = []

    def redirect(self, sha256, disposition, seconds):
        seen.append((sha256, seconds))
        return "https://bucket.example/x"

    monkeypatch.setattr(type(store()), "redirect", redirect)
    assert get(world, BIG).status == 200
    settings.ARTIFACT_REDIRECT_S = 60
    answer = get(world, BIG)
    assert (answer.status, answer.headers["location"]) == (302, "https://bucket.example/x")
    assert seen == [(sha(BIG), 60)]
    # A page of another site could not follow to a third one.
    assert get(world, BIG, {**bearer(world.token), "Origin": "https://school.example"}).status == 200
    Membership.objects.update(state=State.LEFT)
    assert get(world, BIG).status == 403


# --- Names ---


@given(st.text(max_size=300))
def test_every_name_makes_a_header_that_is_one(name):
    """C48, F2, RFC 6266: no path, no control character, nothing that ends the quoted string."""
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()
    quoted, encoded = header.removeprefix('attachment; filename="').split("\"; filename*=UTF-8''")
    for shown in (quoted, unquote(encoded)):
        assert shown
        assert shown not in (".", "..")
        assert not set(shown) & set('/\\"\0\r\n') - (set('"') if shown != quoted else set())


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        ("C:\\x", "C:_x"),
        ("..", "file"),
        ("", "file"),
        ("ü\u202egnp.exe", "ü_gnp.exe"),
    ],
)
def test_a_name_is_cleaned(name, kept):
    assert unquote(attachment(name).rpartition("''")[2]) == kept


# --- Checkpoints ---


@pytest.fixture
def checkpoint(world, monkeypatch):
    """Round 1 with a state; the metadata itself is tested where it is made."""
    state = os.urandom(20_000)
    world.add(state, JobArtifact.Kind.STATE)
    make_checkpoint(world.job, 1, sha(world.weights), sha(state))
    monkeypatch.setattr(downloads, "checkpoint_metadata", lambda found: b'{"version":2}')
    return b"\x0d\0\0\0" + b'{"version":2}' + world.weights + state


def export(world, headers=None, round_number=1):
    path = f"/bytes/jobs/{world.job.pk}/checkpoints/{round_number}"
    return call(BytesApp(), "GET", path, world.session() if headers is None else headers)


@pytest.mark.db
def test_a_checkpoint_is_one_file(world, checkpoint):
    answer = export(world)
    assert (answer.status, answer.body) == (200, checkpoint)
    assert answer.headers["content-length"] == str(len(checkpoint))
    name = unquote(answer.headers["content-disposition"].rpartition("''")[2])
    assert name == "Ziffern_„Eins“-round-1.weei-checkpoint"
    assert answer.headers["cache-control"] == "private, no-cache"
    part = export(world, world.session() | {"Range": "bytes=10-20010", "If-Range": answer.headers["etag"]})
    assert (part.status, part.body) == (206, checkpoint[10:20_011])


def test_only_its_coordinator_exports_a_checkpoint(world, checkpoint):
    """C82, H3."""
    assert export(world, bearer(world.token)).status == 401
    assert export(world, world.session(User.objects.create_user("other"))).status == 404
    assert export(world, round_number=2).status == 404


def test_a_checkpoint_with_a_damaged_part_is_not_exported(world, checkpoint):
    """S11."""
    (state,) = JobArtifact.objects.filter(kind=JobArtifact.Kind.STATE)
    path = store().local(state.artifact_id)
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    answer = export(world)
    assert (answer.status, answer.json["code"]) == (409, "corrupt_artifact")


def test_a_database_that_is_away_is_said_to_be(world, monkeypatch):
    """S7: 503 and when to come back, not 500."""

    def away(*_, **__):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr("checkpoints.bytes.auth.peer_for_token", away)
    answer = get(world, world.module)
    assert (answer.status, answer.headers["retry-after"], answer.json["code"]) == (503, "1", "unavailable")


def test_an_artifact_that_is_being_deleted_is_not_there(world):
    artifact_put_bytes(BIG, timezone.now())
    world.add(BIG, JobArtifact.Kind.MODULE)
    Artifact.objects.filter(pk=sha(BIG)).update(state=Artifact.State.DELETING)
    assert get(world, BIG).status == 404
