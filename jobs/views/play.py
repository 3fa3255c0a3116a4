"""Asking a trained model, on the coordinator's own device: the page, and the files of the checkpoint that answers."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from jobs.selectors import pages, playing
from jobs.selectors.access import job_for_owner
from jobs.views.access import CoordinatorRequest, coordinator


@never_cache
@require_GET
@coordinator
def play(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """`?round=` is the checkpoint to begin with; without it the page follows the newest."""
    job = job_for_owner(request.user, job_id)
    found = playing.playing_of(job)
    if found is None:
        raise Http404
    context = {
        "job": job,
        "playing": found,
        "facts": playing.model_facts(job),
        "newest": pages.last_round(job),
        "round": request.GET.get("round", ""),
        "section": "jobs",
    }
    return render(request, "jobs/play.html", context)


@never_cache
@require_GET
@coordinator
def play_files(request: CoordinatorRequest, job_id: UUID, round_no: int | None = None) -> HttpResponse:
    """Of a round, or of the newest checkpoint."""
    job = job_for_owner(request.user, job_id)
    wanted = pages.last_round(job) if round_no is None else round_no
    return JsonResponse(playing.checkpoint_files(pages.checkpoint_of(job, wanted or 0)))
