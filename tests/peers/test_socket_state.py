"""State is read anew and sent whole, once for any number of hints. C80, P11, P12, P13, P15, H8."""

import asyncio
import uuid

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from diagnostics.live import held_snapshots
from jobs.services import participants
from peers import consumers, gathering, sockets
from peers.models import Peer
from peers.outbox import peer_group
from peers.services.presence import Heartbeats, heartbeats
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, make_job, merge_due, start
from tests.peers.socket import Socket, in_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def peer():
    peer, token = peer_create()
    peer.token = token
    return peer


async def changed(peer):
    await get_channel_layer().group_send(peer_group(peer.pk), {"type": "peer.changed"})


def snapshot(sequence, **fields):
    return {"schemaVersion": 1, "sequence": sequence, "stage": "waiting", **fields}


async def settled():
    """Let everything that can run without time passing run."""
    for _ in range(50):
        await asyncio.sleep(0.001)


@in_loop
async def test_each_hint_brings_the_state_as_it_is_now():
    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)
    async with Socket() as socket:
        await socket.hello(member.token, session=1)
        assert socket.state["assignment"] is None
        await sync_to_async(start)(job)
        await changed(member.peer)
        state = await socket.next("state")
        assert state["assignment"]["round"] == 1 and state["job"]["status"] == "running"


@in_loop
async def test_a_hundred_and_fifty_hints_while_the_socket_is_blocked_are_one_state():
    """C80: what was missed is not replayed; the one state that comes is of round 2."""
    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)
    await sync_to_async(start)(job)
    async with Socket() as socket:
        await socket.hello(member.token)
        socket.drains.clear()
        await changed(member.peer)  # This one is stuck on the way out.
        await settled()
        for _ in range(150):
            await changed(member.peer)
        await sync_to_async(member.train)()
        await sync_to_async(merge_due)(job)
        await changed(member.peer)
        await settled()
        socket.drains.set()
        assert (await socket.next("state"))["assignment"]["round"] == 1
        assert (await socket.next("state"))["assignment"]["round"] == 2
        await settled()
        assert socket.silent()


@in_loop
async def test_a_removed_participant_loses_job_and_assignment_at_once(sent):
    """P13."""
    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)
    await sync_to_async(start)(job)
    async with Socket() as socket:
        await socket.hello(member.token)
        assert socket.state["assignment"] is not None
        sent.hints.clear()
        await sync_to_async(participants.participant_remove)(job, member.peer.pk)
        assert (peer_group(member.peer.pk), {"type": "peer.changed"}) in sent.hints
        await changed(member.peer)
        state = await socket.next("state")
        assert (state["job"], state["assignment"], state["invitations"]) == (None, None, [])


@in_loop
async def test_a_slow_reader_is_cut_off_and_others_do_not_notice(peer, monkeypatch):
    """P15: nothing piles up for it."""
    monkeypatch.setattr(sockets, "SEND_SECONDS", 0.1)
    async with Socket() as slow, Socket() as other:
        await slow.hello(peer.token, train=False)
        await other.hello(peer.token, train=False)
        slow.drains.clear()
        for _ in range(20):
            await changed(peer)
        assert (await other.next("state"))["peerId"] == str(peer.pk)
        while len(consumers._open[peer.pk]) > 1:
            await asyncio.sleep(0.01)
        slow.drains.set()
    assert slow.frames.qsize() <= 1


@in_loop
async def test_sending_to_a_peer_that_hung_up_is_no_error(peer, caplog):
    async with Socket() as socket:
        await socket.hello(peer.token)

        async def gone(message):
            raise OSError("client disconnected")

        (consumer,) = consumers._open[peer.pk]
        consumer._base_send = gone
        await changed(peer)
        await settled()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@in_loop
async def test_every_message_counts_as_a_heartbeat(peer):
    await sync_to_async(heartbeats.flush)(timezone.now())
    async with Socket() as socket:
        await socket.hello(peer.token)
        for message in ({"type_": "heartbeat"}, {"type_": "watch", "jobId": None}):
            await socket.say(**message)
            while not heartbeats._seen:
                await asyncio.sleep(0.001)
            assert heartbeats._seen == {peer.pk}
            await sync_to_async(heartbeats.flush)(timezone.now())


def test_heartbeats_of_many_sockets_are_one_update():
    peers = [peer_create()[0] for _ in range(30)]
    gathered = Heartbeats()
    for peer in peers * 5:
        gathered.note(peer.pk)
    now = timezone.now()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        gathered.flush(now)
    assert len([query for query in queries if query["sql"].startswith("UPDATE")]) == 1
    assert len(queries) <= 2
    assert Peer.objects.filter(seen_at=now, lease_until__gt=now).count() == 30


@in_loop
async def test_only_the_latest_snapshot_is_kept_twice_a_second_at_most(peer, monkeypatch):
    """H8: a flood of diagnostics costs two writes to the cache a second, and none to the database."""
    kept = []
    monkeypatch.setattr(gathering, "snapshots_put", lambda said: kept.extend(one.snapshot["sequence"] for one in said))
    monkeypatch.setattr(gathering, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(consumers, "SNAPSHOT_GAP_SECONDS", 0.05)
    async with Socket() as socket:
        await socket.hello(peer.token)
        for sequence in range(1, 15):
            await socket.say("diagnostics", snapshot=snapshot(sequence))
        while not kept or kept[-1] != 14:
            await asyncio.sleep(0.01)
    assert len(kept) <= 3


@in_loop
async def test_what_many_sockets_say_at_once_is_one_exchange_with_the_cache(monkeypatch):
    written = []
    monkeypatch.setattr(gathering, "snapshots_put", lambda said: written.append({one.peer_id for one in said}))
    together = gathering.Snapshots()
    peers = {uuid.uuid4() for _ in range(300)}
    await asyncio.gather(*(together.put(peer, snapshot(1), "a job") for peer in peers))
    assert written == [peers]
    await together.put(first := next(iter(peers)), snapshot(2), "a job")
    assert written == [peers, {first}], "what comes while others are written waits for the next exchange"


@in_loop
async def test_an_older_snapshot_is_dropped_also_after_a_reconnection(peer):
    """P11, D2: the sequence goes on above the one that welcome tells."""

    def held():
        return held_snapshots([peer.pk])[peer.pk].sequence

    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.say("diagnostics", snapshot=snapshot(7))
        while not held_snapshots([peer.pk]):
            await asyncio.sleep(0.01)
    async with Socket() as again:
        assert (await again.hello(peer.token, session=1))["sequence"] == 7
        await again.say("diagnostics", snapshot=snapshot(6))
        await again.say("diagnostics", snapshot=snapshot(7, error="again"))
        await settled()
        assert held() == 7
        await again.say("diagnostics", snapshot=snapshot(8))
        while held() != 8:
            await asyncio.sleep(0.01)


@in_loop
async def test_a_snapshot_over_32_kib_is_refused_and_the_last_one_stays(peer):
    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.say("diagnostics", snapshot=snapshot(1))
        while not held_snapshots([peer.pk]):
            await asyncio.sleep(0.01)
        await socket.say("diagnostics", snapshot=snapshot(2, error="x" * 33_000))
        error = await socket.next()
        assert error["re"] == "diagnostics" and "32768" in error["message"]
        assert held_snapshots([peer.pk])[peer.pk].sequence == 1
