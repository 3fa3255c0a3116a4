"""A client of the peer's websocket without a network: frames in, frames out, and a switch that stops draining."""

from __future__ import annotations

import asyncio
import json
from functools import wraps

from peers.consumers import PeerConsumer

PATIENCE = 10


def in_loop(test):
    """Run an async test; one that hangs fails."""

    @wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 3 * PATIENCE))

    return run


class Closed(AssertionError):
    """The server closed the socket where a frame was expected."""

    def __init__(self, code):
        super().__init__(f"closed with {code}")
        self.code = code


class Socket:
    """`async with Socket() as socket`; ends with a disconnect, as when a tab is closed."""

    def __init__(self, app=None, *, path="/ws/peer", headers=(), session=None):
        self.app = app or PeerConsumer.as_asgi()
        self.scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "subprotocols": [],
            **({"session": session} if session is not None else {}),
        }
        self.inbox = asyncio.Queue()
        self.frames = asyncio.Queue()
        self.drains = asyncio.Event()
        self.drains.set()

    async def __aenter__(self):
        self.task = asyncio.create_task(self.app(self.scope, self.inbox.get, self._send))
        await self.inbox.put({"type": "websocket.connect"})
        self.accepted = (await self._frame())["type"] == "websocket.accept"
        return self

    async def __aexit__(self, *_):
        self.drains.set()
        await self.inbox.put({"type": "websocket.disconnect", "code": 1006})
        await asyncio.wait_for(self.task, PATIENCE)

    async def _send(self, message):
        await self.drains.wait()
        await self.frames.put(message)

    async def _frame(self):
        return await asyncio.wait_for(self.frames.get(), PATIENCE)

    async def text(self, text):
        await self.inbox.put({"type": "websocket.receive", "text": text})

    async def binary(self, data):
        await self.inbox.put({"type": "websocket.receive", "bytes": data})

    async def say(self, type_, **fields):
        await self.text(json.dumps({"type": type_, **fields}))

    async def next(self, type_=None):
        """The next frame, or the next of one type."""
        while True:
            message = await self._frame()
            if message["type"] == "websocket.close":
                raise Closed(message["code"])
            value = json.loads(message["text"])
            if type_ in (None, value["type"]):
                return value

    async def closed(self):
        """The code that the server closes with; what it says before does not matter."""
        try:
            while True:
                await self.next()
        except Closed as closed:
            return closed.code

    async def hello(self, token, *, train=True, **fields):
        """Say hello; returns the welcome, after the first state was read into `self.state`."""
        await self.say("hello", protocol=1, token=token, train=train, **fields)
        welcome = await self.next()
        assert welcome["type"] == "welcome", welcome
        self.state = await self.next("state")
        return welcome

    def silent(self):
        """Whether nothing waits to be read."""
        return self.frames.empty()
