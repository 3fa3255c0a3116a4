"""A TCP proxy in front of several servers that takes turns, and leaves out who does not answer, as the proxy of
docker-compose.yml does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

BLOCK = 64 * 1024


class RoundRobin:
    def __init__(self, port: int, upstreams: Sequence[int]) -> None:
        self._port, self._upstreams = port, list(upstreams)
        self._next = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="round-robin", daemon=True)
        self._server: asyncio.Server | None = None

    def start(self) -> None:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)

    def stop(self) -> None:
        if self._server is None:
            return

        async def close() -> None:
            assert self._server is not None
            self._server.close()
            own = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not own]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connect()
        if upstream is None:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(len(self._upstreams)):
            self._next = (self._next + 1) % len(self._upstreams)
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self._upstreams[self._next])
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends; the other hears of it."""
    try:
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
