"""What the participants of a job say of themselves, for the pages that watch it: read once for all of this process,
and written as frames that a websocket takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from diagnostics.live import Held, held_of_job
from jobs.selectors.status import participant_ids
from peers.socket_rules import in_cache, in_database
from weei_core import protocol as wire


@dataclass(frozen=True)
class Said:
    peer_id: UUID
    held: Held
    connected: bool

    def member(self, now: float) -> str:
        """As it stands among the `peers` of a live message."""
        facts = f'"heldMs":{self.held.held_ms(now)},"connected":{"true" if self.connected else "false"}'
        return f'"{self.peer_id}":{{"snapshot":{self.held.text},{facts}}}'


@dataclass(frozen=True)
class _Reading:
    begun: float
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[list[Said]]


_readings: dict[UUID, _Reading] = {}


async def said_of_job(job_id: UUID, *, fresh_seconds: float) -> list[Said]:
    """The participants with a snapshot. A reading that another page began within `fresh_seconds` is shared."""
    now, loop = time.monotonic(), asyncio.get_running_loop()
    for other, reading in list(_readings.items()):
        if now - reading.begun > fresh_seconds or reading.loop is not loop:
            del _readings[other]
    if job_id not in _readings:
        _readings[job_id] = _Reading(now, loop, loop.create_task(_read(job_id)))
    # A page that goes away does not end what others wait for.
    return await asyncio.shield(_readings[job_id].task)


async def _read(job_id: UUID) -> list[Said]:
    connected = await in_database(participant_ids, job_id, timezone.now())
    held = await in_cache(held_of_job, job_id, connected)
    return [Said(peer_id, kept, connected[peer_id]) for peer_id, kept in held.items()]


def live_frames(job_id: UUID, said: Iterable[Said]) -> Iterator[str]:
    """As few `live` messages as the size of a frame allows."""
    head, tail, now = f'{{"type":"live","jobId":"{job_id}","peers":{{', "}}", time.time()
    room = wire.MAX_MESSAGE_BYTES - len(head) - len(tail)
    members: list[str] = []
    taken = 0
    for member in (one.member(now) for one in said):
        size = len(member) + 1
        if members and taken + size > room:
            yield head + ",".join(members) + tail
            members, taken = [], 0
        members.append(member)
        taken += size
    if members:
        yield head + ",".join(members) + tail
