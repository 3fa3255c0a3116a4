"""The rounds of a job, and the timeline of one."""

from __future__ import annotations

import time
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from jobs.selectors.access import job_for_owner
from jobs.selectors.timeline import WORDS, Lane, Step, round_page, round_timeline
from jobs.views.access import CoordinatorRequest, coordinator, round_asked


@never_cache
@require_GET
@coordinator
def job_rounds(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """All rounds, a page at a time; `before` is a round."""
    job = job_for_owner(request.user, job_id)
    page = round_page(job, timezone.now(), round_asked(request.GET.get("before", "")))
    return render(request, "jobs/rounds.html", {"job": job, "page": page, "section": "jobs"})


@never_cache
@require_GET
@coordinator
def job_round(request: CoordinatorRequest, job_id: UUID, round_no: int) -> HttpResponse:
    """One round, from the lane `from` on. For HTMX only what changes while the round runs."""
    job = job_for_owner(request.user, job_id)
    marker = time.time_ns() // 1000
    first = round_asked(request.GET.get("from", "")) or 0
    timeline = round_timeline(job, round_no, timezone.now(), first)
    rows: list[Lane | Step] = [*timeline.lanes, *timeline.steps]
    drawn = {bar.kind for row in rows for bar in row.bars}
    legend = [(kind, words) for kind, words in WORDS.items() if kind in drawn]
    context = {"job": job, "timeline": timeline, "legend": legend, "first": first, "marker": marker}
    template = "jobs/_timeline.html" if request.htmx else "jobs/round.html"
    return render(request, template, {**context, "section": "jobs"})
