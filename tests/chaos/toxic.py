"""A TCP proxy that makes a good link bad, as Toxiproxy does: slow, narrow, cut, reset, or silent without an end.

links = Links()
link = links.add("database", port_of_the_server)
link.set(Toxic(latency=0.1)); …; link.calm(); links.close()
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

BLOCK_BYTES = 64 * 1024
START_SECONDS = 10


@dataclass(frozen=True)
class Toxic:
    """What is wrong with a link, in both directions; several at once may be. Nothing by default."""

    latency: float = 0.0
    """Seconds before each block goes on."""
    bandwidth: float = 0.0
    """Bytes a second; 0: no limit."""
    cut_at: int | None = None
    """The connection ends (FIN) after so many bytes in one direction, counted from when this was set."""
    reset_at: int | None = None
    """As `cut_at`, but torn down (RST)."""
    half_open: bool = False
    """Bytes are taken and never arrive, and no end is passed on: the other side seems alive."""

    @property
    def limit(self) -> int | None:
        limits = [limit for limit in (self.cut_at, self.reset_at) if limit is not None]
        return min(limits, default=None)


@dataclass(eq=False)
class _Connection:
    """Both ends. `lossy`: bytes were swallowed, so that it can never be used again."""

    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    passed: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    lossy: bool = False

    def abort(self) -> None:
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()

    def close(self) -> None:
        for end in self.ends:
            end.close()


class Link:
    """One listening port in front of one server. The methods may be called from any thread."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, to_port: int) -> None:
        self.name = name
        self.port = 0
        self._loop = loop
        self._to_port = to_port
        self._toxic = Toxic()
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def set(self, toxic: Toxic) -> None:
        """From now on, for connections that are open too."""
        _run(self._set(toxic), self._loop)

    def calm(self) -> None:
        """A good link again. Connections that lost bytes are torn down."""
        self.set(Toxic())

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, port: int) -> None:
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _set(self, toxic: Toxic) -> None:
        self._toxic = toxic
        for connection in list(self._connections):
            connection.passed = {0: 0, 1: 0}
            if connection.lossy and not toxic.half_open:
                connection.abort()
            elif toxic.limit == 0:
                self._end(connection)

    def _end(self, connection: _Connection) -> None:
        if self._toxic.reset_at is not None:
            connection.abort()
        else:
            connection.close()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection((writer, far_writer))
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pass(connection, 0, reader, far_writer))
                ways.create_task(self._pass(connection, 1, far_reader, writer))
        except* OSError:
            connection.abort()
        except* asyncio.CancelledError:
            connection.abort()
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _pass(
        self, connection: _Connection, way: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while block := await reader.read(BLOCK_BYTES):
            toxic = self._toxic
            if toxic.half_open:
                connection.lossy = True
                continue
            await asyncio.sleep(toxic.latency + (len(block) / toxic.bandwidth if toxic.bandwidth else 0))
            if toxic.limit is not None:
                block = block[: max(0, toxic.limit - connection.passed[way])]
            connection.passed[way] += len(block)
            writer.write(block)
            await writer.drain()
            if toxic.limit is not None and connection.passed[way] >= toxic.limit:
                self._end(connection)
                return
        if self._toxic.half_open:
            connection.lossy = True
        elif writer.can_write_eof():
            writer.write_eof()


class Links:
    """All links of an installation, in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._links: dict[str, Link] = {}

    def __getitem__(self, name: str) -> Link:
        return self._links[name]

    def add(self, name: str, to_port: int, port: int = 0) -> Link:
        """A link to a server of this machine. `port` is where it listens, 0 for any."""
        link = Link(name, self._loop, to_port)
        _run(link.start(port), self._loop)
        self._links[name] = link
        return link

    def calm(self) -> None:
        for link in self._links.values():
            link.calm()

    def close(self) -> None:
        for link in self._links.values():
            _run(link.stop(), self._loop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)


def _run(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(START_SECONDS)
