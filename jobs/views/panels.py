"""The live parts of the job page. Each is a fragment that says when it was read, so that an older answer never replaces
a newer one; while the job can change it carries its own poll, the last one carries none."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from checkpoints.models import Checkpoint
from jobs.models import Job
from jobs.selectors import diagnosis, pages, status, timeline
from jobs.selectors.access import job_for_owner
from jobs.selectors.kind import kind_of
from jobs.selectors.people import people_view
from jobs.selectors.playing import playing_of
from jobs.selectors.units import units_view
from jobs.views.access import CoordinatorRequest, coordinator

Context = dict[str, Any]


def _overview(job: Job, now: datetime) -> Context:
    newest = pages.last_round(job)
    return {
        "status_line": status.waiting_for(job, now),
        "progress": pages.progress_view(status.progress(job, now)),
        "units": units_view(job, newest) if kind_of(job).experience else None,
        "held": pages.held_items(job),
        "last_checkpoint": newest,
    }


def _people(job: Job, now: datetime) -> Context:
    return {"people": people_view(status.participants(job, now), status.round_view(job, now))}


def _checkpoints(job: Job, now: datetime) -> Context:
    return {"page": pages.checkpoint_page(job, limit=pages.NEWEST_CHECKPOINTS), "playing": playing_of(job)}


def _invitations(job: Job, now: datetime) -> Context:
    return {"invitations": pages.invitation_rows(job, now)}


def _diagnostics(job: Job, now: datetime) -> Context:
    return {"diagnostics": diagnosis.diagnosis(status.participants(job, now), kind_of(job).units_in_text)}


def _rounds(job: Job, now: datetime) -> Context:
    return {"page": timeline.round_page(job, now, limit=timeline.NEWEST_ROUNDS)}


def _events(job: Job, now: datetime) -> Context:
    return {"events": pages.recent_events(job)}


# Name in the address → what the template `jobs/_<name>.html` needs.
PANELS: dict[str, Callable[[Job, datetime], Context]] = {
    "overview": _overview,
    "people": _people,
    "checkpoints": _checkpoints,
    "rounds": _rounds,
    "invitations": _invitations,
    "diagnostics": _diagnostics,
    "events": _events,
}


def panel_context(job: Job, name: str, now: datetime) -> Context:
    """`marker` is taken before anything is read: of two answers the one with the higher marker saw the later state."""
    marker = time.time_ns() // 1000
    about = {"job": job, "kind": kind_of(job), "marker": marker, "live": _can_change(job, name), "panel": name}
    return {**about, **PANELS[name](job, now)}


def _can_change(job: Job, name: str) -> bool:
    """A completed job stands still, but for validations that end after it."""
    if job.status != Job.Status.COMPLETED:
        return True
    return name == "checkpoints" and Checkpoint.objects.filter(Checkpoint.UNDER_WAY, job=job).exists()


def render_panel(request: CoordinatorRequest, job: Job, name: str) -> HttpResponse:
    job.refresh_from_db()
    return render(request, f"jobs/_{name}.html", panel_context(job, name, timezone.now()))


@never_cache
@require_GET
@coordinator
def panel(request: CoordinatorRequest, job_id: UUID, name: str) -> HttpResponse:
    if name not in PANELS:
        raise Http404
    return render_panel(request, job_for_owner(request.user, job_id), name)
