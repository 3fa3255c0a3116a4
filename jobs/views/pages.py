"""Whole pages of a coordinator."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from checkpoints.bytes.ranges import attachment
from jobs.forms import ContinueForm, DeleteForm, InvitationForm, SettingsForm, settings_initial
from jobs.selectors import pages
from jobs.selectors.access import job_for_owner
from jobs.selectors.event_log import debug_log
from jobs.selectors.job_list import ListQuery, job_list_page
from jobs.selectors.kind import checks_of, kind_of
from jobs.selectors.playing import playing_of
from jobs.selectors.presets import presets
from jobs.selectors.series import chart_data
from jobs.selectors.units import auxiliary_rows
from jobs.services.deleting import job_discard, job_restore
from jobs.views.access import CoordinatorRequest, coordinator, round_asked
from jobs.views.actions import job_settings_form
from jobs.views.panels import PANELS, panel_context
from jobs.views.toasts import toast
from weei_core import js_json


@never_cache
@require_GET
@coordinator
def job_list(request: CoordinatorRequest) -> HttpResponse:
    """The page, or for HTMX only its list."""
    context = job_list_page(request.user, timezone.now(), ListQuery.read(request.GET))
    return render(request, "jobs/_list.html" if request.htmx else "jobs/list.html", {**context, "section": "jobs"})


@require_GET
@coordinator
def job_new(request: CoordinatorRequest) -> HttpResponse:
    context = {"form": SettingsForm(), "presets": presets(), "section": "jobs"}
    return render(request, "jobs/new.html", context)


@require_GET
@coordinator
def job_continue(request: CoordinatorRequest, job_id: UUID | None = None, round_no: int = 0) -> HttpResponse:
    """From a checkpoint of this server, or from a file that the person chooses."""
    context: dict[str, Any] = {"presets": presets(), "section": "jobs", "form": ContinueForm()}
    if job_id:
        source = pages.checkpoint_of(job_for_owner(request.user, job_id), round_no)
        context |= pages.continue_page(source)
        kind, initial = context["kind"], settings_initial(context["settings"])
        context["form"] = ContinueForm(initial=initial, kind=kind, from_round=source.round)
    return render(request, "jobs/continue.html", context)


@require_GET
@coordinator
def job_manifest(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """The package or the chunk list that the job was made with, for a job that continues from it."""
    job = job_for_owner(request.user, job_id)
    text = job.package_text or (job.dataset.manifest_text if job.dataset else "[]")
    return HttpResponse(
        text, "application/json", headers={"Content-Disposition": 'attachment; filename="manifest.json"'}
    )


@never_cache
@require_GET
@coordinator
def job_detail(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    job, now = job_for_owner(request.user, job_id), timezone.now()
    context = {
        "panels": {name: panel_context(job, name, now) for name in PANELS},
        "info": pages.model_info(job),
        "kind": kind_of(job),
        "checks": checks_of(job),
        "auxiliary": auxiliary_rows(job),
        "playing": playing_of(job),
        "form": job_settings_form(job),
        "invitation_form": InvitationForm(),
        "section": "jobs",
    }
    return render(request, "jobs/detail.html", {"job": job, **context})


@never_cache
@require_GET
@coordinator
def job_chart(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """All rounds, or those from `first` to `last`."""
    first, last = (round_asked(request.GET.get(name, "")) for name in ("first", "last"))
    return JsonResponse(chart_data(job_for_owner(request.user, job_id), first, last).to_json())


@never_cache
@require_GET
@coordinator
def job_log(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """The last events as a file in the shape of a browser's debug log."""
    job = job_for_owner(request.user, job_id)
    text = js_json.dumps(debug_log(job, timezone.now()), 2)
    name = attachment(f"{job.name}-debug-log.json")
    return HttpResponse(text, "application/json", headers={"Content-Disposition": name})


@never_cache
@require_GET
@coordinator
def job_checkpoints(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """All checkpoints, a page at a time; `before` is a round."""
    job = job_for_owner(request.user, job_id)
    page = pages.checkpoint_page(job, round_asked(request.GET.get("before", "")))
    context = {"job": job, "page": page, "kind": kind_of(job), "playing": playing_of(job), "section": "jobs"}
    return render(request, "jobs/checkpoints.html", context)


@never_cache
@require_GET
@coordinator
def job_checkpoint(request: CoordinatorRequest, job_id: UUID, round_no: int) -> HttpResponse:
    job = job_for_owner(request.user, job_id)
    row = pages.CheckpointRow(pages.checkpoint_of(job, round_no))
    context = {
        "job": job,
        "row": row,
        "metrics": pages.metrics_of(job),
        "kind": kind_of(job),
        "checks": checks_of(job),
        "playing": playing_of(job),
        "section": "jobs",
    }
    return render(request, "jobs/checkpoint.html", context)


@require_http_methods(["GET", "POST"])
@coordinator
def job_remove(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """Delete a job after its name was typed. It can be undone for a while."""
    job = job_for_owner(request.user, job_id)
    form = DeleteForm(request.POST or None, name=job.name)
    if request.method == "POST" and form.is_valid():
        job_discard(job)
        toast(request, f"“{job.name}” was deleted.", undo=resolve_url("job-restore", job.pk))
        return redirect("job-list")
    undo = round(settings.UNDO_DELETE.total_seconds() / 60)
    return render(request, "jobs/delete.html", {"job": job, "form": form, "undo_minutes": undo, "section": "jobs"})


@require_POST
@coordinator
def job_bring_back(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """Undo a deletion."""
    job = job_restore(request.user.pk, job_id)
    toast(request, f"“{job.name}” is back.")
    return redirect("job-detail", job.pk)
