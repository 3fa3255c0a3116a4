"""What happened to a job, as its coordinator's pages follow it and as a file."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from jobs.domain.debug_log import CAPACITY, Event, event_of, iso, log_file
from jobs.models import Job, JobEvent


def event_rows(job: Job, *, after: int | None = None, before: int | None = None, limit: int) -> list[JobEvent]:
    """Oldest first: the newest `limit` of those whose ids lie between the two."""
    found = JobEvent.objects.filter(job=job).order_by("-id")
    if after is not None:
        found = found.filter(pk__gt=after)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found[:limit])[::-1]


def event_json(row: JobEvent) -> dict[str, Any]:
    return {"id": row.pk, **_event(row)}


def debug_log(job: Job, now: datetime) -> dict[str, Any]:
    """The last events of the job in the shape of a browser's debug log."""
    return log_file([_event(row) for row in event_rows(job, limit=CAPACITY)], iso(now))


def _event(row: JobEvent) -> Event:
    return event_of(iso(row.at), row.event, json.loads(row.details_text))
