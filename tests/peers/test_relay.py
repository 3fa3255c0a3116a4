"""What participants say, as it goes to the pages that watch: read once for all, in frames that fit, each peer once."""

import asyncio
import json
import time
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from diagnostics.live import Held, last_sequence
from jobs.services.dealing import active_members
from jobs.services.participants import invitation_decide, job_open, participant_ready
from peers import relay, watching
from peers.relay import Said, live_frames, said_of_job
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, hello, make_job, open_link, owner
from tests.peers.socket import Socket, in_loop
from tests.peers.test_socket_watch import Page
from weei_core.protocol import MAX_MESSAGE_BYTES, parse_server_message

JOB = uuid.uuid4()


def said(text, *, connected=True):
    return Said(uuid.uuid4(), Held(1, text, time.time(), ()), connected)


@pytest.mark.parametrize("text", ['{"error":"%s"}' % ("x" * 1_900), '{"error":"%s"}' % (r"\u20ac" * 5_000), "{}"])
def test_everybody_is_told_in_frames_that_a_websocket_takes(text):
    everybody = [said(text, connected=n % 2 == 0) for n in range(200)]
    frames = list(live_frames(JOB, everybody))
    assert all(len(frame.encode()) <= MAX_MESSAGE_BYTES for frame in frames)
    # As few as there can be: two neighbours would not fit into one.
    assert all(len(a.encode()) + len(b.encode()) > MAX_MESSAGE_BYTES for a, b in zip(frames, frames[1:], strict=False))
    told = {}
    for frame in frames:
        message = parse_server_message(frame)
        assert (message.type, message.jobId) == ("live", str(JOB))
        assert not told.keys() & message.peers.keys()
        told |= message.peers
    assert {peer: (value["snapshot"], value["connected"]) for peer, value in told.items()} == {
        str(one.peer_id): (json.loads(text), one.connected) for one in everybody
    }
    assert all(0 <= value["heldMs"] < 60_000 for value in told.values())


def test_nothing_new_is_no_frame():
    assert list(live_frames(JOB, [])) == []


@pytest.fixture
def readings(monkeypatch):
    """Each reading waits for its turn; the list of those that were begun."""
    begun = []

    async def read(job_id):
        answer = asyncio.get_running_loop().create_future()
        begun.append(answer)
        return await answer

    monkeypatch.setattr(relay, "_read", read)
    monkeypatch.setattr(relay, "_readings", {})
    return begun


async def asking(count, fresh_seconds=60.0):
    tasks = [asyncio.create_task(said_of_job(JOB, fresh_seconds=fresh_seconds)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


@in_loop
async def test_pages_of_one_job_share_a_reading(readings):
    pages = await asking(5)
    assert len(readings) == 1
    readings[0].set_result(["a"])
    assert await asyncio.gather(*pages) == [["a"]] * 5
    (late,) = await asking(1)
    assert await late == ["a"] and len(readings) == 1
    (next_,) = await asking(1, fresh_seconds=-1)
    readings[1].set_result(["b"])
    assert await next_ == ["b"]


@in_loop
async def test_a_page_that_goes_away_does_not_take_the_reading_from_the_others(readings):
    first, second = await asking(2)
    first.cancel()
    await asyncio.wait([first])
    readings[0].set_result(["a"])
    assert await second == ["a"]


@in_loop
async def test_a_database_that_is_away_is_told_to_all_and_asked_again(readings):
    pages = await asking(2)
    readings[0].set_exception(OperationalError("away"))
    for page in pages:
        with pytest.raises(OperationalError):
            await page
    (again,) = await asking(1, fresh_seconds=-1)
    readings[1].set_result([])
    assert await again == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("participates", [False, True])
@in_loop
async def test_each_participant_is_one_however_often_it_reloads(participates, monkeypatch):
    """C79: a coordinator, two participants, and one who declines; one reloads three times and opens a second tab."""
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.02)
    job = await sync_to_async(lambda: make_job(user=owner("alice"), coordinatorParticipates=participates))()
    page = await sync_to_async(Page)("alice")
    await sync_to_async(opens_job)(job, page.peer)
    one, two = [await sync_to_async(Participant)(job) for _ in range(2)]
    await sync_to_async(decline)(job)
    sockets = []

    async def opens(member):
        """A tab; those before it are not told of: a reload closes them late, a second tab never."""
        socket = await Socket().__aenter__()
        sockets.append(socket)
        welcome = await socket.hello(member.token)
        snapshot = {"sequence": welcome["sequence"] + 1, "stage": "waiting"}
        await socket.say("diagnostics", snapshot=snapshot)
        while last_sequence(member.peer.pk) != snapshot["sequence"]:
            await asyncio.sleep(0.01)
        return snapshot["sequence"]

    try:
        sequences = [await opens(one) for _ in range(4)]
        other = await opens(two)
        assert sequences == sorted(set(sequences))
        async with page.socket() as watcher:
            await page.watch(watcher, job)
            shown = {}
            while {peer: value["snapshot"]["sequence"] for peer, value in shown.items()} != {
                str(one.peer.pk): sequences[-1],
                str(two.peer.pk): other,
            }:
                shown |= (await watcher.next("live"))["peers"]
            assert all(value["connected"] for value in shown.values())
    finally:
        for socket in sockets:
            await socket.__aexit__()
    active = await sync_to_async(lambda: active_members(job, timezone.now()).count())()
    assert active == 2 + participates


def opens_job(job, peer):
    """A coordinator's device that gets ready, whether it is to train or not."""
    job_open(job, peer)
    hello(peer)
    if job.memberships.get(peer=peer).trains:
        participant_ready(peer, job.pk, job.module_id, {})


def decline(job):
    peer, _ = peer_create()
    open_link(peer, job)
    invitation_decide(peer, job.pk, False, timezone.now())
