"""C81: bad frames get an error, nobody else notices, and only floods and giants are cut off. H7, H13."""

import json

import pytest
from channels.layers import get_channel_layer

from peers.outbox import peer_group
from peers.services.tokens import peer_create
from peers.socket_rules import Pace
from tests.peers.socket import Socket, in_loop
from weei_core import protocol as wire

pytestmark = pytest.mark.django_db(transaction=True)

BAD_TEXTS = {
    "cut": "{",
    "empty": "",
    "list": "[]",
    "text": '"x"',
    "number": "17",
    "null": "null",
    "no type": "{}",
    "type is a number": '{"type":1}',
    "type is null": '{"type":null}',
    "unknown type": '{"type":"heartbaet"}',
    "a server's type": '{"type":"welcome"}',
    "an HTTP command": '{"type":"start","jobId":"5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"}',
    "unknown field": '{"type":"heartbeat","owner":1}',
    "NaN": '{"type":"diagnostics","snapshot":{"sequence":NaN,"stage":"waiting"}}',
    "huge number": '{"type":"diagnostics","snapshot":{"sequence":1e400,"stage":"waiting"}}',
    "lone surrogate": '{"type":"heart\\ud800beat"}',
    "NUL": '{"type":"heart\\u0000beat"}',
    "key twice": '{"type":"heartbeat","type":"heartbeat"}',
    "deep": '{"type":' + "[" * 5000 + "]" * 5000 + "}",
    "long number": '{"type":' + "9" * 5000 + "}",
    "byte order mark": '\ufeff{"type":"heartbeat"}',
    "no snapshot": '{"type":"diagnostics"}',
    "snapshot is a list": '{"type":"diagnostics","snapshot":[]}',
    "no sequence": '{"type":"diagnostics","snapshot":{"stage":"waiting"}}',
    "sequence is true": '{"type":"diagnostics","snapshot":{"sequence":true,"stage":"waiting"}}',
    "unknown stage": '{"type":"diagnostics","snapshot":{"sequence":1,"stage":"resting"}}',
    "stage is a list": '{"type":"diagnostics","snapshot":{"sequence":1,"stage":["waiting"]}}',
    "watch nothing": '{"type":"watch"}',
    "watch a word": '{"type":"watch","jobId":"all"}',
    "watch a number": '{"type":"watch","jobId":7}',
}


@pytest.fixture
def peer():
    peer, token = peer_create()
    peer.token = token
    return peer


@pytest.fixture
def clock(monkeypatch):
    """The pace's clock: a second passes only when the test says so."""
    now = [100.0]
    monkeypatch.setattr("peers.sockets.Pace", lambda limit: Pace(limit, lambda: now[0]))
    return now


def checked_error(frame, name):
    error = wire.parse_server_message(json.dumps(frame))
    assert error.type == "error" and error.message.endswith(".") and len(error.message) < 500, name


@in_loop
async def test_a_bad_text_gets_an_error_and_the_socket_goes_on(peer, clock):
    async with Socket() as socket:
        await socket.hello(peer.token)
        for name, text in BAD_TEXTS.items():
            clock[0] += 1
            await socket.text(text)
            checked_error(await socket.next(), name)
            await get_channel_layer().group_send(peer_group(peer.pk), {"type": "peer.changed"})
            assert (await socket.next())["type"] == "state", name


@in_loop
async def test_a_bad_first_text_gets_an_error_and_hello_may_follow(peer, clock):
    async with Socket() as socket:
        for name, text in BAD_TEXTS.items():
            clock[0] += 1
            await socket.text(text)
            checked_error(await socket.next(), name)
        await socket.hello(peer.token)


BAD_HELLOS = [
    {"protocol": "1"},
    {"protocol": None},
    {"token": 7},
    {"token": "x" * 201},
    {"train": 1},
    {"train": "true"},
    {"session": "1"},
    {"session": 1.5},
    {"session": True},
    {"attemptId": "no"},
    {"watch": []},
    {"role": "coordinator"},
]


@in_loop
async def test_a_hello_of_wrong_types_is_refused_by_its_field(peer, clock):
    async with Socket() as socket:
        for fields in BAD_HELLOS:
            clock[0] += 1
            await socket.say("hello", **{"protocol": 1, "token": peer.token, "train": True, **fields})
            error = await socket.next()
            assert (error["code"], error["re"]) == ("invalid_message", "hello"), fields
            assert next(iter(fields)) in error["message"]
        await socket.hello(peer.token)


@in_loop
async def test_an_error_names_the_message_that_it_is_about(peer):
    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.say("x" * 5_000)
        assert (await socket.next())["re"] == "x" * 40
        await socket.text("{")
        assert "re" not in await socket.next()


@in_loop
async def test_a_command_over_the_socket_is_refused_and_logged_once(peer, caplog):
    """H13."""
    caplog.set_level("INFO", "weei.denied")
    async with Socket() as socket:
        await socket.hello(peer.token)
        for _ in range(3):
            await socket.say("updateSettings\n2026 forged line")
            assert (await socket.next())["code"] == "invalid_message"
    lines = [record.getMessage() for record in caplog.records if record.name == "weei.denied"]
    assert len(lines) == 1 and str(peer.pk) in lines[0] and "\n" not in lines[0] and peer.token not in lines[0]


@in_loop
async def test_a_binary_frame_closes(peer):
    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.binary(b"\x00\xff")
        assert await socket.closed() == 1003


@pytest.mark.parametrize(
    "text", [" " * (wire.MAX_MESSAGE_BYTES + 1), "\u00e4" * 40_000, "x" * 2_000_000], ids=["ascii", "two bytes", "2 MB"]
)
@in_loop
async def test_a_message_over_64_kib_closes(peer, text):
    async with Socket() as socket:
        await socket.hello(peer.token)
        await socket.text(text)
        assert await socket.closed() == 1009


@in_loop
async def test_more_than_twenty_messages_a_second_close_and_nothing_more_is_read(peer, clock):
    async with Socket() as socket:
        await socket.hello(peer.token)
        for _ in range(wire.MAX_MESSAGES_PER_SECOND):
            await socket.say("heartbeat")
        assert await socket.closed() == 1008
        await socket.text("{")
    assert socket.silent()


@in_loop
async def test_twenty_messages_a_second_are_fine(peer, clock):
    async with Socket() as socket:
        await socket.hello(peer.token)
        for _ in range(3):
            clock[0] += 1
            for _ in range(wire.MAX_MESSAGES_PER_SECOND - 1):
                await socket.say("heartbeat")
            await socket.text("{")
            assert (await socket.next())["type"] == "error"


def test_the_pace_counts_any_second_not_each():
    now = [0.0]
    pace = Pace(3, lambda: now[0])
    allowed = []
    for moment in (0.0, 0.9, 0.95, 0.99, 1.0, 1.05, 1.95):
        now[0] = moment
        allowed.append(pace.allows())
    assert allowed == [True, True, True, False, True, False, True]
