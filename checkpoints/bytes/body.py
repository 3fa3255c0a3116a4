"""Reading a request body: counted, in blocks, never longer than announced, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from starlette.types import Receive

from checkpoints.bytes.http import ClientGone, RequestTimeout
from checkpoints.bytes.threads import on_disk
from checkpoints.services.uploads import BLOCK_BYTES, Digest
from weei_core.errors import TooLarge, Unavailable

SLOW_SECONDS = 30.0
SLOW_BYTES_PER_SECOND = 50_000


class TakenOver(Unavailable):
    default_code = "taken_over"


CUT = (ClientGone, RequestTimeout, TakenOver)
"""What ends a body before its end; what has come of it may be kept."""


class Body:
    """`received` counts what has come so far, also when reading it fails."""

    def __init__(self, receive: Receive, length: int) -> None:
        self._receive = receive
        self._length = length
        self._window_ends = 0.0
        self._window_starts_at = 0
        self._waiting: asyncio.Timeout | None = None
        self._stopped = False
        self.received = 0

    def stop(self) -> None:
        """Let the reader raise `TakenOver`, unless it has everything already."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.reschedule(0)

    async def blocks(self) -> AsyncIterator[bytearray]:
        """Blocks of about 1 MiB. Raises one of CUT, or `TooLarge`; what came before was yielded."""
        block = bytearray()
        self._open_window()
        try:
            while self.received < self._length:
                piece = await self._piece()
                self.received += len(piece)
                if self.received > self._length:
                    raise TooLarge(f"The body goes on after the {self._length} bytes that it announced.")
                block += piece
                if len(block) >= BLOCK_BYTES:
                    yield block
                    block = bytearray()
        except CUT:
            if block:
                yield block
            raise
        if block:
            yield block

    async def _piece(self) -> bytes:
        while True:
            if self._stopped:
                raise TakenOver("A newer request goes on with this upload.")
            try:
                async with asyncio.timeout_at(self._window_ends) as self._waiting:
                    message = await self._receive()
            except TimeoutError:
                if not self._stopped:
                    self._next_window()
                continue
            finally:
                self._waiting = None
            if message["type"] == "http.disconnect" or not (message.get("body") or message.get("more_body")):
                raise ClientGone
            piece: bytes = message.get("body", b"")
            return piece

    def _open_window(self) -> None:
        self._window_ends = asyncio.get_running_loop().time() + SLOW_SECONDS
        self._window_starts_at = self.received

    def _next_window(self) -> None:
        if self.received - self._window_starts_at < SLOW_SECONDS * SLOW_BYTES_PER_SECOND:
            raise RequestTimeout(
                f"The body came more slowly than {SLOW_BYTES_PER_SECOND} bytes a second for {SLOW_SECONDS:.0f} s."
            )
        self._open_window()

    async def all(self) -> bytes:
        """For bodies that are small by their announced length."""
        return b"".join([bytes(block) async for block in self.blocks()])

    async def into(self, path: Path, digest: Digest | None = None) -> None:
        """Write to a file (and hash) in threads, one block behind the network."""
        file = await on_disk(path.open, "wb")
        try:
            async for block in self.blocks():
                await on_disk(_write, file, block, digest)
        finally:
            await on_disk(file.close)


def _write(file: BinaryIO, block: bytearray, digest: Digest | None) -> None:
    file.write(block)
    if digest is not None:
        digest.update(block)
