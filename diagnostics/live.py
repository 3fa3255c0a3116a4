"""What peers say of themselves right now: the latest snapshot of each, in the cache only. Losing it loses nothing."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.cache import cache

logger = logging.getLogger(__name__)
KEEP_SECONDS = 3600


@dataclass(frozen=True)
class Held:
    """A snapshot as it is relayed: its text, in ASCII, is written once, however many pages it goes to."""

    sequence: int
    text: str
    at: float
    jobs: tuple[str, ...]
    """What it is about: the job that the peer had when it came, and that of its assignment."""

    def held_ms(self, now: float) -> int:
        return max(0, round((now - self.at) * 1000))


def _key(peer_id: UUID | str) -> str:
    return f"snapshot:{peer_id}"


@dataclass(frozen=True)
class Said:
    """A clean snapshot, when it came by the server's own time (seconds since the epoch), and the job the peer had."""

    peer_id: UUID
    snapshot: dict[str, Any]
    at: float
    job_id: str | None


def snapshot_put(
    peer_id: UUID, snapshot: dict[str, Any], received_at: float | None = None, *, job_id: str | None = None
) -> None:
    snapshots_put([Said(peer_id, snapshot, received_at or time.time(), job_id)])


def snapshots_put(said: Iterable[Said]) -> None:
    """Keep them, in one exchange with the cache. Of several of one peer the last counts."""
    kept = {}
    for one in said:
        jobs = tuple({job for job in (one.job_id, _job_of(one.snapshot)) if job is not None})
        text = json.dumps(one.snapshot, allow_nan=False, separators=(",", ":"))
        kept[_key(one.peer_id)] = (one.snapshot["sequence"], text, one.at, jobs)
    try:
        cache.set_many(kept, KEEP_SECONDS)
    except Exception as error:  # Redis away: pages show that nothing is known.
        logger.warning("snapshots not kept: %s", error)


def _job_of(snapshot: dict[str, Any]) -> str | None:
    assignment = snapshot.get("assignment")
    return str(assignment.get("jobId")) if isinstance(assignment, dict) else None


def held_snapshots(peer_ids: Iterable[UUID]) -> dict[UUID, Held]:
    keys = {_key(peer_id): peer_id for peer_id in peer_ids}
    try:
        found = cache.get_many(list(keys))
    except Exception as error:
        logger.warning("snapshots not read: %s", error)
        return {}
    return {keys[key]: Held(*kept) for key, kept in found.items()}


def held_of_job(job_id: UUID, peer_ids: Iterable[UUID]) -> dict[UUID, Held]:
    """Without what a peer said while it had another job, or none."""
    return {peer: held for peer, held in held_snapshots(peer_ids).items() if set(held.jobs) <= {str(job_id)}}


def job_snapshots(job_id: UUID, peer_ids: Iterable[UUID]) -> dict[str, dict[str, Any]]:
    """The same for readers of this process, by peer id: {"snapshot": …, "heldMs": …}."""
    now = time.time()
    found = held_of_job(job_id, peer_ids)
    return {str(peer): {"snapshot": json.loads(held.text), "heldMs": held.held_ms(now)} for peer, held in found.items()}


def last_sequence(peer_id: UUID) -> int:
    """0 when nothing is kept."""
    held = held_snapshots([peer_id]).get(peer_id)
    return held.sequence if held else 0


def go_on_above(last: int) -> int:
    """Where nothing is kept any more, pages may still show an old snapshot: no peer counts faster than this clock."""
    return last or round(time.time() * 1000)
