"""What the new-job and continue pages ask while a person fills them in. The job itself is made over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_POST

from jobs.forms import AdviceForm, ContinueForm, SettingsForm
from jobs.selectors.advice import draft_advice
from jobs.selectors.kind import DATASET, Kind
from jobs.views.access import CoordinatorRequest, coordinator
from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.model_info import WorkSource
from weei_core.schema_types import validate


@require_POST
@coordinator
def settings_fields(request: CoordinatorRequest) -> HttpResponse:
    """The fields of the kind of job that the chosen manifest asks for. What was typed stays, but for what counts passes
    or rounds, which mean different things."""
    data = request.POST
    initial: dict[str, Any] = {name: data[name] for name in data if name in SettingsForm.base_fields}
    initial["coordinatorParticipates"] = "coordinatorParticipates" in data
    for name in ("epochs", "validationEvery", "validationUnit"):
        initial.pop(name, None)
    try:
        kind, problem = _kind(data), None
    except Invalid as error:
        kind, problem = DATASET, error.message
    form = _form_class(data)(initial=initial, kind=kind, from_round=_from_round(data))
    return render(request, "jobs/_settings_fields.html", {"form": form, "problem": problem})


@require_POST
@coordinator
def settings_check(request: CoordinatorRequest) -> HttpResponse:
    """The settings of the form, as weei.js wants them, or what is wrong with which field."""
    try:
        form = _bound(request.POST)
    except Invalid as error:
        return JsonResponse({"errors": {"manifest": error.message}}, status=422)
    if form.is_valid():
        return JsonResponse({"settings": form.settings()})
    return JsonResponse({"errors": {name: errors[0] for name, errors in form.errors.items()}}, status=422)


@require_POST
@coordinator
def advice(request: CoordinatorRequest) -> HttpResponse:
    """Warnings about the form as it stands. Says nothing while the form cannot be read."""
    facts = AdviceForm(request.POST)
    try:
        form = _bound(request.POST)
    except Invalid:
        return render(request, "jobs/_advice.html")
    readable = form.is_valid() and facts.is_valid()
    found = draft_advice(form.settings(), facts.cleaned_data, form.kind) if readable else ()
    return render(request, "jobs/_advice.html", {"advice": found})


def _kind(data: QueryDict) -> Kind:
    """What the chosen package says of it. Raises `Invalid` with the place in the package."""
    text, path = data.get("workSource", ""), "package.workSource"
    return Kind(validate(WorkSource, strict_json.loads(text, what=path), path)) if text else DATASET


def _form_class(data: QueryDict) -> type[SettingsForm]:
    return ContinueForm if "fromRound" in data else SettingsForm


def _from_round(data: QueryDict) -> int | None:
    """The round of the checkpoint that a job continues from, where the page knows it."""
    text = data.get("fromRound", "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _bound(data: QueryDict) -> SettingsForm:
    return _form_class(data)(data, kind=_kind(data), from_round=_from_round(data))
