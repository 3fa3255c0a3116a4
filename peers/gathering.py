"""What the sockets of this process heard, written together: a thread and an exchange with the cache for each message
would keep all other sockets waiting for the interpreter."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

from diagnostics.live import Said, snapshots_put
from peers.socket_rules import in_cache

GATHER_SECONDS = 0.1


class Snapshots:
    """Used by one event loop at a time."""

    def __init__(self) -> None:
        self._said: list[Said] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, peer_id: UUID, snapshot: dict[str, Any], job_id: str) -> None:
        """Returns when it is kept, or given up because the cache is away."""
        self._said.append(Said(peer_id, snapshot, time.time(), job_id))
        if self._writing is None or self._writing.get_loop() is not asyncio.get_running_loop():
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(self._writing)

    async def _write(self) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        said, self._said = self._said, []
        self._writing = None
        await in_cache(snapshots_put, said)


snapshots = Snapshots()
