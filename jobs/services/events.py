"""The history of a job, and queueing work on commit."""

from __future__ import annotations

import logging
from functools import partial
from uuid import UUID

from celery import current_app
from django.db import transaction
from django.utils import timezone

from jobs.models import JobEvent
from weei_core import js_json

logger = logging.getLogger(__name__)


def job_event(job_id: UUID, event: str, **details: object) -> None:
    JobEvent.objects.create(job_id=job_id, at=timezone.now(), event=event, details_text=js_json.dumps(details))


def enqueue(task: str, *args: object) -> None:
    """Queue a Celery task when the transaction commits. If the broker is away this is a log line: what is due stands in
    the database, and the sweeper queues it again."""
    transaction.on_commit(partial(_send, task, args), robust=True)


def _send(task: str, args: tuple[object, ...]) -> None:
    try:
        current_app.send_task(task, args=args, retry=False)
    except Exception as error:
        logger.warning("%s%s not queued, the sweeper will: %s", task, args, error)
