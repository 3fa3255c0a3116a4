"""What the new-job and continue pages ask while a person fills them in. The job itself is made over the API."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from jobs.forms import AdviceForm, SettingsForm
from jobs.selectors.advice import draft_advice
from jobs.views.access import CoordinatorRequest, coordinator


@require_POST
@coordinator
def settings_check(request: CoordinatorRequest) -> HttpResponse:
    """The settings of the form, as weei.js wants them, or what is wrong with which field."""
    form = SettingsForm(request.POST)
    if form.is_valid():
        return JsonResponse({"settings": form.settings()})
    return JsonResponse({"errors": {name: errors[0] for name, errors in form.errors.items()}}, status=422)


@require_POST
@coordinator
def advice(request: CoordinatorRequest) -> HttpResponse:
    """Warnings about the form as it stands. Says nothing while the form cannot be read."""
    form, facts = SettingsForm(request.POST), AdviceForm(request.POST)
    found = draft_advice(form.settings(), facts.cleaned_data) if form.is_valid() and facts.is_valid() else ()
    return render(request, "jobs/_advice.html", {"advice": found})
