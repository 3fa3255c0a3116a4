import asyncio

import pytest
from websockets.asyncio.server import serve

from tests.load.frames import Refused, connected
from tests.stack.ports import free_port

SIZES = (0, 125, 126, 65_535, 65_536)
ORIGIN = "http://example.test"


async def against(handler, client, **options):
    """`handler` is that of a server by a library, which checks every frame."""
    port = free_port()
    async with serve(handler, "127.0.0.1", port, max_size=None, compression=None, **options), asyncio.timeout(20):
        return await client(f"http://127.0.0.1:{port}")


def test_texts_of_every_length_go_both_ways_and_a_fragmented_one_comes_whole():
    async def echo(socket):
        async for text in socket:
            await socket.send(text)
        # Not reached while the client is there.

    async def parts(socket):
        await socket.send(["first, ", "second, ", "last"])
        await echo(socket)

    async def client(url):
        heard, came = [], asyncio.Event()

        def hear(text):
            heard.append(text)
            if len(heard) == len(SIZES) + 1:
                came.set()

        socket = await connected(url, ORIGIN, hear)
        for size in SIZES:
            socket.send(b"x" * size)
        await came.wait()
        socket.close()
        return heard

    heard = asyncio.run(against(parts, client))
    assert heard == [b"first, second, last", *(b"x" * size for size in SIZES)]


def test_a_ping_is_answered_and_a_close_code_is_told():
    async def pinging(socket):
        await (await socket.ping())
        await socket.close(4003)

    async def client(url):
        socket = await connected(url, ORIGIN, lambda text: None)
        return await socket.closed

    assert asyncio.run(against(pinging, client)) == 4003


def test_a_refused_handshake_says_its_status():
    async def client(url):
        with pytest.raises(Refused) as refused:
            await connected(url, "http://other.test", lambda text: None)
        return refused.value.status

    async def nobody(socket):
        raise AssertionError("let in")

    assert asyncio.run(against(nobody, client, origins=[ORIGIN])) == 403
