"""What a coordinator does to a job. Each view calls one service; a refusal (WeeiError) becomes a message on the page by
the middleware."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST
from django_htmx.http import trigger_client_event

from jobs.forms import JobSettingsForm, settings_initial
from jobs.models import Job
from jobs.selectors.access import job_for_owner
from jobs.selectors.kind import checks_of, kind_of
from jobs.selectors.pages import last_round, settings_of
from jobs.services.evaluation import validation_request
from jobs.services.lifecycle import (
    item_retry,
    item_skip,
    job_finish,
    job_pause,
    job_resume,
    job_shuffle,
    job_start,
    job_update_settings,
)
from jobs.views.access import CoordinatorRequest, coordinator
from jobs.views.panels import render_panel
from jobs.views.toasts import told
from weei_core.errors import Invalid

ACTIONS: dict[str, Callable[[Job], None]] = {
    "start": job_start,
    "pause": job_pause,
    "resume": job_resume,
    "finish": job_finish,
    "shuffle": job_shuffle,
}
DONE = {
    "start": "Training has started.",
    "pause": "The job is paused. Work under way may finish.",
    "resume": "The job goes on.",
    "finish": "The job is being finished.",
    "shuffle": "What is left of the pass is shuffled.",
}
ITEM_ACTIONS: dict[str, Callable[[Job, int], None]] = {"retry": item_retry, "skip": item_skip}


def answer(request: CoordinatorRequest, job: Job, name: str) -> HttpResponse:
    """The panel that changed, or for a plain form the page."""
    return render_panel(request, job, name) if request.htmx else redirect("job-detail", job.pk)


@require_POST
@coordinator
def job_action(request: CoordinatorRequest, job_id: UUID, action: str) -> HttpResponse:
    if action not in ACTIONS:
        raise Http404
    job = job_for_owner(request.user, job_id)
    ACTIONS[action](job)
    return told(request, answer(request, job, "overview"), DONE[action])


@require_POST
@coordinator
def item_action(request: CoordinatorRequest, job_id: UUID, item_id: int, action: str) -> HttpResponse:
    if action not in ITEM_ACTIONS:
        raise Http404
    job = job_for_owner(request.user, job_id)
    ITEM_ACTIONS[action](job, item_id)
    said = "The item is tried again." if action == "retry" else "The item is left out of this pass."
    return told(request, answer(request, job, "overview"), said)


@require_POST
@coordinator
def job_validate(request: CoordinatorRequest, job_id: UUID, round_no: int) -> HttpResponse:
    job = job_for_owner(request.user, job_id)
    validation_request(job, round_no)
    said = f"The {checks_of(job).noun} of round {round_no} begins."
    return told(request, answer(request, job, "checkpoints"), said)


@require_POST
@coordinator
def job_settings(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """The form again: with what was wrong, or with the word that it was saved."""
    job = job_for_owner(request.user, job_id)
    form = job_settings_form(job, request.POST)
    saved = form.is_valid() and _save(job, form)
    if not request.htmx and saved:
        messages.success(request, "Settings saved. They count from the next round.")
        return redirect("job-detail", job.pk)
    template = "jobs/_settings.html" if request.htmx else "jobs/settings.html"
    response = render(request, template, {"job": job, "form": form, "saved": saved, "section": "jobs"})
    return trigger_client_event(response, "weei:settings") if saved else response


def job_settings_form(job: Job, data: QueryDict | None = None) -> JobSettingsForm:
    """With the job's settings, or with what was sent. An experience job goes on from its newest round."""
    initial = settings_initial(settings_of(job))
    newest = None if job.status == Job.Status.COMPLETED else last_round(job)
    return JobSettingsForm(data, initial=initial, kind=kind_of(job), from_round=newest)


def _save(job: Job, form: JobSettingsForm) -> bool:
    try:
        job_update_settings(job, form.patch(settings_of(job)))
    except Invalid as error:
        form.refuse(error)
        return False
    return True
