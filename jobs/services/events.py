"""The history of a job, and queueing work on commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from celery import current_app
from django.db import transaction
from django.utils import timezone

from jobs.domain.debug_log import PHASE_FINISHED
from jobs.models import JobEvent
from peers.outbox import hint_job
from weei_core import js_json

logger = logging.getLogger(__name__)


def job_event(job_id: UUID, event: str, **details: object) -> None:
    JobEvent.objects.create(job_id=job_id, at=timezone.now(), event=event, details_text=js_json.dumps(details))
    hint_job(job_id, "events")


@dataclass(frozen=True)
class Phase:
    """A finished part of a round's work on the server: how long it took, and when it ended."""

    name: str
    ms: float
    at: datetime


class PhaseClock:
    """Measures one phase after the other, by a clock that nobody sets."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()

    def finished(self, name: str) -> Phase:
        """What was done since the phase before, or since the clock was made."""
        began, self._began = self._began, self._now()
        return Phase(name, round((self._began - began) * 1000, 1), timezone.now())


def phases_finished(job_id: UUID, round_no: int, phases: Sequence[Phase]) -> None:
    """One row for each, written at once."""
    JobEvent.objects.bulk_create(
        JobEvent(
            job_id=job_id,
            at=phase.at,
            event=PHASE_FINISHED,
            details_text=js_json.dumps({"phase": phase.name, "round": round_no, "ms": phase.ms}),
        )
        for phase in phases
    )
    hint_job(job_id, "events")


def enqueue(task: str, *args: object) -> None:
    """Queue a Celery task when the transaction commits. If the broker is away this is a log line: what is due stands in
    the database, and the sweeper queues it again."""
    transaction.on_commit(partial(_send, task, args), robust=True)


def _send(task: str, args: tuple[object, ...]) -> None:
    try:
        current_app.send_task(task, args=args, retry=False)
    except Exception as error:
        logger.warning("%s%s not queued, the sweeper will: %s", task, args, error)
