"""Hints: the only place that sends to the channel layer.

A hint says "look again" and may be lost, so it goes out after the commit, from one background loop of the process
(connections of a layer belong to a loop), and its failure is a log line.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from channels.layers import get_channel_layer
from django.db import transaction

logger = logging.getLogger(__name__)
MAX_PENDING = 1000


def peer_group(peer_id: UUID | str) -> str:
    return f"peer.{peer_id}"


def job_group(job_id: UUID | str) -> str:
    return f"job.{job_id}"


def hint_peers(peer_ids: Sequence[UUID], *, soon: bool = False) -> None:
    """These peers' state changed. `soon`: they know the most of it already, and what comes next is likely to follow at
    once; one state then tells both."""
    for peer_id in peer_ids:
        _after_commit(peer_group(peer_id), {"type": "peer.changed", **({"soon": True} if soon else {})})


def hint_job(job_id: UUID, *what: str) -> None:
    """Something of this job changed: `what` names the parts of a coordinator's page."""
    _after_commit(job_group(job_id), {"type": "job.changed", "job_id": str(job_id), "what": list(what)})


def tell_replaced(peer_id: UUID, session: int) -> None:
    """Another tab trains now."""
    _after_commit(peer_group(peer_id), {"type": "peer.replaced", "session": session})


def tell_cut_off(peer_id: UUID) -> None:
    """The peer's rights ended: its socket looks again at once."""
    _after_commit(peer_group(peer_id), {"type": "peer.changed"})


def _after_commit(group: str, message: dict[str, Any]) -> None:
    transaction.on_commit(partial(_loop.send, group, message), robust=True)


class _Loop:
    """One event loop in one thread, started at the first hint of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending = 0

    def send(self, group: str, message: dict[str, Any]) -> None:
        if self._pending >= MAX_PENDING:
            return
        self._pending += 1
        asyncio.run_coroutine_threadsafe(self._send(group, message), self._running())

    async def _send(self, group: str, message: dict[str, Any]) -> None:
        try:
            layer = get_channel_layer()
            if layer is not None:
                await asyncio.wait_for(layer.group_send(group, message), timeout=2)
        except Exception as error:  # A hint is never worth more than a line.
            logger.warning("hint to %s not sent: %s", group, error)
        finally:
            self._pending -= 1

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="hints", daemon=True).start()
            return self._loop


_loop = _Loop()
