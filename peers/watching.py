"""What a coordinator's page hears about one job: which parts of it changed, and what its participants say of
themselves. Both are gathered: a page is told a few times a second at most, however much happens."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from jobs.selectors.access import job_for_owner
from peers.relay import live_frames, said_of_job
from peers.socket_person import person_of
from peers.socket_rules import in_database
from weei_core import js_json

TICK_SECONDS = 0.25
TICKS_PER_LIVE = 4
TICKS_PER_CHECK = 12
"""A page that signed out hears nothing more after this many ticks (and one look at the database)."""

PARTS = frozenset({"status", "round", "participants", "checkpoints", "invitations", "settings", "events"})

Send = Callable[[str], Awaitable[None]]


def authorized(scope: Any, job_id: UUID) -> None:
    """Raises `Unauthorized`, `Forbidden` or `NotFound` unless the socket's person, signed in now, has the job."""
    job_for_owner(person_of(scope), job_id)


class JobWatch:
    """Runs until it is cancelled, or raises a WeeiError when the right to watch has ended."""

    def __init__(self, job_id: UUID, scope: Any, send: Send) -> None:
        self.job_id = job_id
        self.what: set[str] = set(PARTS)
        """Parts of the job that changed since the last word about them: at first all, because nobody was listening
        between the page's last look and now."""
        self._scope = scope
        self._send = send
        self._sent: dict[UUID, tuple[int, bool]] = {}

    async def run(self) -> None:
        for tick in itertools.count(1):
            await asyncio.sleep(TICK_SECONDS)
            await self._tell_what()
            try:
                if tick % TICKS_PER_CHECK == 0:
                    await in_database(authorized, self._scope, self.job_id)
                if tick % TICKS_PER_LIVE == 0:
                    await self._tell_live()
            except (OperationalError, InterfaceError):
                continue  # Nothing is told while the database is away; the page's own requests say why.

    async def _tell_what(self) -> None:
        if self.what:
            what, self.what = sorted(self.what), set()
            await self._send(js_json.dumps({"type": "job", "jobId": str(self.job_id), "what": what}))

    async def _tell_live(self) -> None:
        """Snapshots that this page has not got yet, and those whose peer came or went."""
        everyone = await said_of_job(self.job_id, fresh_seconds=TICK_SECONDS * (TICKS_PER_LIVE - 1))
        fresh = [said for said in everyone if self._sent.get(said.peer_id) != (said.held.sequence, said.connected)]
        for frame in live_frames(self.job_id, fresh):
            await self._send(frame)
        self._sent.update({said.peer_id: (said.held.sequence, said.connected) for said in fresh})
