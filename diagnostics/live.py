"""What peers say of themselves right now: the latest snapshot of each, in the cache only. Losing it loses nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.core.cache import cache

logger = logging.getLogger(__name__)
KEEP_SECONDS = 3600


def _key(peer_id: UUID | str) -> str:
    return f"snapshot:{peer_id}"


def snapshot_put(peer_id: UUID, snapshot: dict[str, Any], received_at: float | None = None) -> None:
    """Keep the snapshot with the server's own time (seconds since the epoch)."""
    try:
        cache.set(_key(peer_id), {"snapshot": snapshot, "at": received_at or time.time()}, KEEP_SECONDS)
    except Exception as error:  # Redis away: pages show that nothing is known.
        logger.warning("snapshot not kept: %s", error)


def snapshots(peer_ids: Iterable[UUID]) -> dict[str, dict[str, Any]]:
    """By peer id: {"snapshot": …, "heldMs": …}."""
    keys = {_key(peer_id): str(peer_id) for peer_id in peer_ids}
    try:
        found = cache.get_many(list(keys))
    except Exception as error:
        logger.warning("snapshots not read: %s", error)
        return {}
    now = time.time()
    return {
        keys[key]: {"snapshot": value["snapshot"], "heldMs": max(0, round((now - value["at"]) * 1000))}
        for key, value in found.items()
    }


def job_snapshots(job_id: UUID, peer_ids: Iterable[UUID]) -> dict[str, dict[str, Any]]:
    """The same, without what a peer said while it worked for another job."""
    found = snapshots(peer_ids)
    return {peer_id: held for peer_id, held in found.items() if _job_of(held["snapshot"]) in (None, str(job_id))}


def _job_of(snapshot: dict[str, Any]) -> object:
    assignment = snapshot.get("assignment")
    return assignment.get("jobId") if isinstance(assignment, dict) else None


def last_sequence(peer_id: UUID) -> int:
    held = snapshots([peer_id]).get(str(peer_id))
    return int(held["snapshot"].get("sequence", 0)) if held else 0
