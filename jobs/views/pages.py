"""Whole pages of a coordinator."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from jobs.forms import DeleteForm, InvitationForm, JobSettingsForm, SettingsForm, settings_initial
from jobs.selectors import pages
from jobs.selectors.access import job_for_owner
from jobs.selectors.presets import presets
from jobs.selectors.series import chart_data
from jobs.services.lifecycle import job_delete
from jobs.views.access import CoordinatorRequest, coordinator
from jobs.views.panels import PANELS, panel_context


@never_cache
@require_GET
@coordinator
def job_list(request: CoordinatorRequest) -> HttpResponse:
    """The page, or for HTMX only its list."""
    context = pages.job_list_page(request.user, timezone.now())
    return render(request, "jobs/_list.html" if request.htmx else "jobs/list.html", {**context, "section": "jobs"})


@require_GET
@coordinator
def job_new(request: CoordinatorRequest) -> HttpResponse:
    context = {"form": SettingsForm(), "presets": presets(), "section": "jobs"}
    return render(request, "jobs/new.html", context)


@require_GET
@coordinator
def job_continue(request: CoordinatorRequest, job_id: UUID | None = None, round_no: int = 0) -> HttpResponse:
    source = pages.checkpoint_of(job_for_owner(request.user, job_id), round_no) if job_id else None
    initial = settings_initial(pages.settings_of(source.job)) if source else {}
    context = {"form": SettingsForm(initial=initial), "presets": presets(), "source": source, "section": "jobs"}
    return render(request, "jobs/continue.html", context)


@never_cache
@require_GET
@coordinator
def job_detail(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    job, now = job_for_owner(request.user, job_id), timezone.now()
    context = {
        "panels": {name: panel_context(job, name, now) for name in PANELS},
        "info": pages.model_info(job),
        "form": JobSettingsForm(initial=settings_initial(pages.settings_of(job))),
        "invitation_form": InvitationForm(),
        "section": "jobs",
    }
    return render(request, "jobs/detail.html", {"job": job, **context})


@never_cache
@require_GET
@coordinator
def job_chart(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    return JsonResponse(chart_data(job_for_owner(request.user, job_id)).to_json())


@never_cache
@require_GET
@coordinator
def job_checkpoints(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """All checkpoints, a page at a time; `before` is a round."""
    job = job_for_owner(request.user, job_id)
    before = request.GET.get("before", "")
    page = pages.checkpoint_page(job, int(before) if before.isdecimal() and len(before) < 10 else None)
    return render(request, "jobs/checkpoints.html", {"job": job, "page": page, "section": "jobs"})


@never_cache
@require_GET
@coordinator
def job_checkpoint(request: CoordinatorRequest, job_id: UUID, round_no: int) -> HttpResponse:
    job = job_for_owner(request.user, job_id)
    row = pages.CheckpointRow(pages.checkpoint_of(job, round_no))
    context = {"job": job, "row": row, "metrics": pages.metrics_of(job), "section": "jobs"}
    return render(request, "jobs/checkpoint.html", context)


@require_http_methods(["GET", "POST"])
@coordinator
def job_remove(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """Delete a job after its name was typed."""
    job = job_for_owner(request.user, job_id)
    form = DeleteForm(request.POST or None, name=job.name)
    if request.method == "POST" and form.is_valid():
        job_delete(job)
        return redirect("job-list")
    return render(request, "jobs/delete.html", {"job": job, "form": form, "section": "jobs"})
