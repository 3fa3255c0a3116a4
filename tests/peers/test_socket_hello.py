"""Saying hello: who is asking, which tab trains, and which attempt it still holds."""

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from jobs.models import Attempt
from peers import consumers
from peers.models import Peer
from peers.outbox import peer_group
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, make_job, start
from tests.peers.socket import Socket, in_loop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def peer():
    peer, token = peer_create()
    peer.token = token
    return peer


@pytest.fixture
def worker():
    """A participant with an assignment."""
    job = make_job(chunks=4)
    participant = Participant(job)
    start(job)
    return participant


async def hint(group, **message):
    await get_channel_layer().group_send(group, message)


@in_loop
async def test_hello_is_answered_with_welcome_and_then_the_state(peer):
    async with Socket() as socket:
        before = time.time_ns() // 1_000_000
        welcome = await socket.hello(peer.token)
        # Above whatever this peer may have sent before the server forgot it.
        assert before <= welcome.pop("sequence") <= time.time_ns() // 1_000_000
        assert welcome == {
            "type": "welcome",
            "protocol": 1,
            "peerId": str(peer.pk),
            "session": 1,
            "heartbeatSeconds": 5,
            "pollSeconds": 10,
        }
        assert socket.state == {
            "type": "state",
            "peerId": str(peer.pk),
            "session": 1,
            "invitations": [],
            "job": None,
            "assignment": None,
        }


@in_loop
async def test_a_socket_that_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr("weei_core.protocol.HELLO_SECONDS", 0.05)
    async with Socket() as socket:
        assert await socket.closed() == 4000


@in_loop
async def test_other_messages_before_hello_are_refused_and_do_not_count_as_one(monkeypatch):
    monkeypatch.setattr("weei_core.protocol.HELLO_SECONDS", 0.2)
    async with Socket() as socket:
        await socket.say("heartbeat")
        assert await socket.next() == {
            "type": "error",
            "code": "hello_first",
            "message": "The first message must be hello.",
            "re": "heartbeat",
        }
        assert await socket.closed() == 4000


@in_loop
async def test_another_protocol_version_must_reload(peer):
    """S16: a page of before an update."""
    async with Socket() as socket:
        await socket.say("hello", protocol=2, token=peer.token, train=True)
        assert await socket.closed() == 4009
    assert (await sync_to_async(Peer.objects.get)(pk=peer.pk)).session == 0


@pytest.mark.parametrize("token", ["", "x" * 43, "\u00e4" * 200])
@in_loop
async def test_an_unknown_token_is_told_so_and_closed(token):
    async with Socket() as socket:
        await socket.say("hello", protocol=1, token=token, train=True)
        error = await socket.next()
        assert (error["code"], error["re"]) == ("unauthorized", "hello")
        assert await socket.closed() == 4003


@in_loop
async def test_hello_twice_is_refused_and_the_socket_stays_open(peer):
    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.say("hello", protocol=1, token=peer.token, train=True)
        assert (await socket.next())["code"] == "hello_first"
        await socket.say("watch", jobId=None)
        await hint(peer_group(peer.pk), type="peer.changed")
        assert (await socket.next())["session"] == 1


@in_loop
async def test_a_new_tab_takes_over_and_the_old_one_is_replaced(peer, sent):
    """P8: the newest tab wins."""
    async with Socket() as old, Socket() as new:
        assert (await old.hello(peer.token))["session"] == 1
        assert (await new.hello(peer.token))["session"] == 2
        assert (peer_group(peer.pk), {"type": "peer.replaced", "session": 2}) in sent.hints
        await hint(peer_group(peer.pk), type="peer.replaced", session=2)
        assert await old.closed() == 4001
        await hint(peer_group(peer.pk), type="peer.changed")
        assert (await new.next("state"))["session"] == 2


@in_loop
async def test_an_old_tab_that_missed_the_word_finds_out_at_the_next_state(peer):
    async with Socket() as old, Socket() as new:
        await old.hello(peer.token)
        await new.hello(peer.token)
        await hint(peer_group(peer.pk), type="peer.changed")
        assert await old.closed() == 4001


@in_loop
async def test_a_reconnection_keeps_its_session_and_an_outdated_one_is_replaced(peer):
    async with Socket() as first:
        await first.hello(peer.token)
    async with Socket() as again:
        assert (await again.hello(peer.token, session=1))["session"] == 1
    async with Socket() as other:
        await other.hello(peer.token)
    async with Socket() as late:
        await late.say("hello", protocol=1, token=peer.token, train=True, session=1)
        assert await late.closed() == 4001


@in_loop
async def test_pages_that_only_watch_replace_nobody(peer):
    async with Socket() as trains, Socket() as watches:
        await trains.hello(peer.token)
        assert (await watches.hello(peer.token, train=False))["session"] == 1
        await hint(peer_group(peer.pk), type="peer.replaced", session=1)
        await hint(peer_group(peer.pk), type="peer.changed")
        assert (await watches.next("state"))["session"] == 1
        assert (await trains.next("state"))["session"] == 1


@in_loop
async def test_the_attempt_that_the_tab_still_holds_is_kept(worker):
    held = await sync_to_async(lambda: worker.assignment)()
    async with Socket() as socket:
        await socket.hello(worker.token, session=1, attemptId=held["attemptId"])
        assert socket.state["assignment"]["attemptId"] == held["attemptId"]


@pytest.mark.parametrize("fields", [{}, {"session": 1}, {"attemptId": "0b7f1b1e-3d0d-4a53-9a3c-6c1f3f7c2a10"}])
@in_loop
async def test_without_it_the_same_assignment_comes_as_a_new_attempt(worker, fields):
    held = await sync_to_async(lambda: worker.assignment)()
    async with Socket() as socket:
        await socket.hello(worker.token, **fields)
        now = socket.state["assignment"]
    assert now["attemptId"] != held["attemptId"]
    same = ("assignmentId", "chunkId", "seed", "round", "weights", "data")
    assert {name: now[name] for name in same} == {name: held[name] for name in same}
    states = await sync_to_async(lambda: sorted(Attempt.objects.values_list("state", flat=True)))()
    assert states == ["live", "replaced"]


@in_loop
async def test_a_page_that_watches_leaves_the_attempt_alone(worker):
    held = await sync_to_async(lambda: worker.assignment)()
    async with Socket() as socket:
        await socket.hello(worker.token, train=False)
        assert socket.state["assignment"]["attemptId"] == held["attemptId"]


@in_loop
async def test_a_sixth_socket_of_one_peer_is_refused_until_one_is_closed(peer):
    sockets = [Socket() for _ in range(consumers.SOCKETS_PER_PEER)]
    for socket in sockets:
        await socket.__aenter__()
        await socket.hello(peer.token, train=False)
    async with Socket() as sixth:
        await sixth.say("hello", protocol=1, token=peer.token, train=True)
        assert await sixth.closed() == 1008
    assert (await sync_to_async(Peer.objects.get)(pk=peer.pk)).session == 0, "a refused socket took the training over"
    await sockets.pop().__aexit__()
    async with Socket() as again:
        await again.hello(peer.token)
    for socket in sockets:
        await socket.__aexit__()
    assert consumers._open == {}


@in_loop
async def test_a_socket_whose_handler_breaks_gives_its_place_back(peer, monkeypatch):
    """C27: an exception instead of a close frame."""

    async def broken(self, event):
        raise RuntimeError("a bug")

    monkeypatch.setattr(consumers.PeerConsumer, "peer_changed", broken)
    socket = Socket()
    await socket.__aenter__()
    await socket.hello(peer.token)
    before = asyncio.all_tasks()
    await hint(peer_group(peer.pk), type="peer.changed")
    with pytest.raises(RuntimeError, match="a bug"):
        await socket.task
    assert consumers._open == {}
    await asyncio.sleep(0)
    assert not [task for task in before if not task.done() and "_guarded" in repr(task)]


@in_loop
async def test_a_task_that_breaks_closes_its_socket(peer, monkeypatch):
    async with Socket() as socket:
        await socket.hello(peer.token)

        def broken(*_):
            raise RuntimeError("a bug")

        monkeypatch.setattr(consumers, "peer_state", broken)
        await hint(peer_group(peer.pk), type="peer.changed")
        assert await socket.closed() == 1011


@in_loop
async def test_a_database_that_is_away_at_hello_is_said_and_the_socket_closed(peer, monkeypatch):
    """S7."""
    from django.db import OperationalError

    def away(*_, **__):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(consumers, "peer_hello", away)
    async with Socket() as socket:
        await socket.say("hello", protocol=1, token=peer.token, train=True)
        assert (await socket.next())["code"] == "unavailable"
        assert await socket.closed() == 1013
    assert consumers._open == {}


@in_loop
async def test_a_state_that_could_not_be_read_is_read_again(peer, monkeypatch):
    from django.db import OperationalError

    monkeypatch.setattr(consumers, "RETRY_SECONDS", 0.01)
    failures = iter([OperationalError("away"), OperationalError("away")])
    real = consumers.peer_state

    def flaky(*args):
        for failure in failures:
            raise failure
        return real(*args)

    async with Socket() as socket:
        await socket.hello(peer.token)
        monkeypatch.setattr(consumers, "peer_state", flaky)
        await hint(peer_group(peer.pk), type="peer.changed")
        assert (await socket.next())["type"] == "state"
