"""A websocket of small JSON texts: its limits, its tasks, and its end. What is said over it is a subclass's matter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from channels.consumer import AsyncConsumer, get_handler_name
from channels.exceptions import StopConsumer
from channels.layers import get_channel_layer
from channels.utils import await_many_dispatch

from peers.socket_rules import Pace
from weei_core import js_json
from weei_core import protocol as wire

logger = logging.getLogger(__name__)
SEND_SECONDS = 30
LAYER_SECONDS = 2


class JsonSocket(AsyncConsumer):
    """However the socket ends, its tasks end with it. Without a channel layer it works all the same, but hears no
    hints."""

    def __init__(self) -> None:
        self.channel_layer: Any = None
        self.closed = False
        self._base_send: Any = None
        self._pace = Pace(wire.MAX_MESSAGES_PER_SECOND)
        self._tasks: set[asyncio.Task[None]] = set()

    async def opened(self) -> None:
        """The socket was accepted."""

    async def received(self, text: str) -> None:
        """A text frame within the limits. The next one is not read before this returns."""

    async def ended(self) -> None:
        """The socket is closed, by either side; called once or twice."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope, self._base_send = scope, send
        sources = [receive]
        layer: Any = get_channel_layer()
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                self.channel_name = await layer.new_channel()
            self.channel_layer = layer
            sources.append(partial(layer.receive, self.channel_name))
        except Exception as error:
            logger.warning("a socket without hints: %s", error)
        try:
            await await_many_dispatch(sources, self.dispatch)
        except StopConsumer:
            pass
        finally:
            self.closed = True
            for task in self._tasks:
                task.cancel()
            await self.ended()

    async def dispatch(self, message: Any) -> None:
        await getattr(self, get_handler_name(message))(message)

    async def websocket_connect(self, message: Any) -> None:
        await self._base_send({"type": "websocket.accept"})
        await self.opened()

    async def websocket_disconnect(self, message: Any) -> None:
        raise StopConsumer

    async def websocket_receive(self, message: Any) -> None:
        text = message.get("text")
        if self.closed:
            return
        if not self._pace.allows():
            await self.close(1008)
        elif text is None:
            await self.close(1003)
        elif len(text.encode("utf-8", "surrogatepass")) > wire.MAX_MESSAGE_BYTES:
            await self.close(1009)
        else:
            await self.received(text)

    async def send_json(self, message: dict[str, Any]) -> None:
        await self.send_text(js_json.dumps(message))

    async def send_text(self, text: str) -> None:
        """A peer that does not drain its socket is cut off; it will fetch everything when it returns."""
        if self.closed:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._base_send({"type": "websocket.send", "text": text})
        except TimeoutError:
            await self.close(1008)
        except OSError:  # It hung up; the disconnect is on its way.
            self.closed = True

    async def close(self, code: int) -> None:
        if self.closed:
            return
        self.closed = True
        await self.ended()
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._base_send({"type": "websocket.close", "code": code})
        except OSError as error:  # A timeout is one too.
            logger.info("a socket was gone before it was closed: %s", error)

    async def join(self, group: str) -> None:
        await self._group("group_add", group)

    async def part(self, group: str) -> None:
        await self._group("group_discard", group)

    async def _group(self, method: str, group: str) -> None:
        if self.channel_layer is None:
            return
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await getattr(self.channel_layer, method)(group, self.channel_name)
        except Exception as error:
            logger.warning("%s %s: %s", method, group, error)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run beside the messages, at most as long as the socket."""
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A socket whose task died would be silent for ever: its peer had better come back."""
        try:
            await work
        except Exception:
            logger.exception("a socket's task failed")
            await self.close(1011)
