"""The same socket through uvicorn, as it is started in production: handshake, limits and close codes on the wire."""

import asyncio
import json
import socket
import threading

import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from peers.services.tokens import peer_create
from weei_site.http_guard import GuardedHttp
from weei_site.routing import build

pytestmark = pytest.mark.django_db(transaction=True)
OWN = "http://testserver"


@pytest.fixture
def address(sent):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            build(get_asgi_application()),
            http=GuardedHttp,
            ws_max_size=65_536,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}/ws/peer"
        server.should_exit = server.force_exit = True
        thread.join(20)
        assert not thread.is_alive()


def run(test):
    asyncio.run(asyncio.wait_for(test(), 30))


async def hello(ws, token, **fields):
    await ws.send(json.dumps({"type": "hello", "protocol": 1, "token": token, "train": True, **fields}))
    welcome, state = json.loads(await ws.recv()), json.loads(await ws.recv())
    assert (welcome["type"], state["type"]) == ("welcome", "state")
    return welcome


async def closed(ws):
    with pytest.raises(ConnectionClosed):
        while True:
            await ws.recv()
    return ws.close_code


def test_only_own_pages_connect(address):
    async def test():
        for origin in (None, "null", "https://testserver", "http://testserver:81", "http://evil.example"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(address, origin=origin)
            assert refused.value.response.status_code == 403
        with pytest.raises(InvalidStatus):
            await connect(address.replace("/ws/peer", "/ws/other"), origin=OWN)

    run(test)


def test_messages_limits_and_close_codes(address):
    _, token = peer_create()

    async def test():
        async with connect(address, origin=OWN) as ws:
            await hello(ws, token)
            await ws.send("{")
            assert json.loads(await ws.recv())["code"] == "invalid_json"
            assert ws.response.headers.get("Sec-WebSocket-Extensions") is None
            await ws.send(b"\x00\xff")
            assert await closed(ws) == 1003
        async with connect(address, origin=OWN) as ws:
            await hello(ws, token, session=1)
            await ws.send(" " * 65_537)
            assert await closed(ws) == 1009
        async with connect(address, origin=OWN) as ws:
            await hello(ws, token, session=1)
            for _ in range(1_000):
                try:
                    await ws.send('{"type":"heartbeat"}')
                except ConnectionClosed:
                    break
            assert await closed(ws) == 1008
        async with connect(address, origin=OWN) as ws:
            await ws.send(json.dumps({"type": "hello", "protocol": 1, "token": "unknown", "train": True}))
            assert await closed(ws) == 4003

    run(test)


def test_a_client_that_vanishes_leaves_nothing_behind(address, caplog):
    """C27: no close frame, while states are on their way."""
    from peers import consumers

    _, token = peer_create()

    async def test():
        ws = await connect(address, origin=OWN)
        await hello(ws, token)
        for _ in range(10):
            await ws.send("{")
        ws.transport.abort()
        while consumers._open:
            await asyncio.sleep(0.01)

    run(test)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
