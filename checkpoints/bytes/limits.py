"""How many bodies this process reads at once, and which request has the say over an upload."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from checkpoints.bytes.body import Body
from weei_core.errors import TooManyRequests, Unavailable

UPLOADS_PER_SENDER = 3
UPLOADS_AT_ONCE = 64
"""Each holds a block of 1 MiB at most, so all together stay below 64 MiB."""


class UploadSlots:
    """Belongs to one event loop. Nobody waits for a slot: a queue of bodies is memory that an attacker chooses."""

    def __init__(self) -> None:
        self._by_sender: Counter[object] = Counter()

    @contextmanager
    def take(self, sender: object) -> Iterator[None]:
        if self._by_sender[sender] >= UPLOADS_PER_SENDER:
            raise TooManyRequests(f"At most {UPLOADS_PER_SENDER} uploads at once; wait for one of yours to end.")
        if self._by_sender.total() >= UPLOADS_AT_ONCE:
            raise Unavailable("The server takes as many uploads as it can; try again in a moment.", code="busy")
        self._by_sender[sender] += 1
        try:
            yield
        finally:
            self._by_sender[sender] -= 1
            if not self._by_sender[sender]:
                del self._by_sender[sender]


class Turns:
    """One body at a time per upload. The newest request wins, because the older one is most often a connection that
    died without anybody noticing yet."""

    def __init__(self) -> None:
        self._running: dict[UUID, tuple[Body, asyncio.Event]] = {}

    async def take_over(self, upload: UUID) -> bool:
        """Let nobody read on for this upload, and wait until what has come is put away. False: nobody was reading."""
        running = self._running.get(upload)
        if running is None:
            return False
        body, ended = running
        body.stop()
        await ended.wait()
        return True

    @contextmanager
    def take(self, upload: UUID, body: Body) -> Iterator[None]:
        mine = body, asyncio.Event()
        self._running[upload] = mine
        try:
            yield
        finally:
            mine[1].set()
            if self._running.get(upload) is mine:
                del self._running[upload]
