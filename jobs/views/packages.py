"""The pages of the package generator. Files are read and packages are made by a background task; a page only asks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRefresh

from jobs.models import Package
from jobs.package_forms import PackageForm, form_of
from jobs.selectors import packages
from jobs.selectors.access import package_for_owner
from jobs.services.drafts import draft_json
from jobs.services.packaging import (
    package_cancel,
    package_create,
    package_delete,
    package_inspect,
    package_make,
    package_preview,
    package_start_job,
)
from jobs.views.access import CoordinatorRequest, coordinator
from weei_core import strict_json
from weei_core.errors import Conflict, Invalid, WeeiError
from weei_core.problems import problem_body


@never_cache
@require_GET
@coordinator
def package_list(request: CoordinatorRequest) -> HttpResponse:
    """Choose a data file; below it the packages that were begun."""
    context = {"rows": packages.package_rows(request.user), "formats": packages.FORMATS, "section": "packages"}
    return render(request, "jobs/packages.html", context)


@require_POST
@coordinator
def package_new(request: CoordinatorRequest) -> HttpResponse:
    """Begin with an uploaded file. Answers the page's script with the address to go to, or with problem details."""
    source = {"fileName": request.POST.get("fileName", ""), "sha256": request.POST.get("sha256", "")}
    try:
        package = package_create(request.user, {**source, "format": request.POST.get("format", "")})
    except WeeiError as error:
        return JsonResponse(problem_body(error), status=error.status, content_type="application/problem+json")
    return JsonResponse({"url": resolve_url("package", package.pk)})


@never_cache
@require_http_methods(["GET", "POST"])
@coordinator
def package_page(request: CoordinatorRequest, package_id: UUID) -> HttpResponse:
    """A POST previews or makes. The form comes back, with what was typed, where something does not fit."""
    package = package_for_owner(request.user, package_id)
    if request.method == "GET":
        return _page(request, package, _form(package))
    form = _sent(request, package)
    if form.is_valid():
        ask = package_make if request.POST.get("do") == "make" else package_preview
        try:
            ask(package, form.request)
        except Invalid as error:
            form.refuse(error.message, error.field or "")
        else:
            return redirect("package", package.pk)
    return _page(request, package, form)


@never_cache
@require_GET
@coordinator
def package_progress(request: CoordinatorRequest, package_id: UUID) -> HttpResponse:
    """The panel of what is at work. When it has ended the whole page is fetched again."""
    package = package_for_owner(request.user, package_id)
    if not packages.at_work(package):
        return HttpResponseClientRefresh() if request.htmx else redirect("package", package.pk)
    return render(request, "jobs/_package_progress.html", packages.progress_view(package))


@require_POST
@coordinator
def package_sizes(request: CoordinatorRequest, package_id: UUID) -> HttpResponse:
    """How large the model of the form is, while one types."""
    form = _sent(request, package_for_owner(request.user, package_id))
    form.is_valid()
    problem = next((errors[0] for errors in form.errors.values()), "")
    return render(request, "jobs/_package_sizes.html", {"sizes": form.sizes, "problem": problem})


@require_POST
@coordinator
def package_action(request: CoordinatorRequest, package_id: UUID, action: str) -> HttpResponse:
    if action not in ("cancel", "inspect"):
        raise Http404
    package = package_for_owner(request.user, package_id)
    {"cancel": package_cancel, "inspect": package_inspect}[action](package)
    return redirect("package", package.pk)


@require_POST
@coordinator
def package_start(request: CoordinatorRequest, package_id: UUID) -> HttpResponse:
    """Begin making a job from the files: for a script its draft, for a plain form the list that shows how it goes."""
    package = package_for_owner(request.user, package_id)
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        draft = package_start_job(package)
    except WeeiError as error:
        if not wants_json:
            raise
        return JsonResponse(problem_body(error), status=error.status, content_type="application/problem+json")
    return JsonResponse(draft_json(draft), status=202) if wants_json else redirect("job-list")


@require_http_methods(["GET", "POST"])
@coordinator
def package_remove(request: CoordinatorRequest, package_id: UUID) -> HttpResponse:
    package = package_for_owner(request.user, package_id)
    if request.method == "POST":
        package_delete(package)
        messages.success(request, f"The package of {package.source_name} was deleted.")
        return redirect("package-list")
    return render(request, "jobs/package_delete.html", {"package": package, "section": "packages"})


def _sent(request: CoordinatorRequest, package: Package) -> PackageForm:
    found = packages.found_of(package)
    if found is None:
        raise Conflict("The file was not looked at yet. Wait until that is done.")
    return PackageForm(request.POST, found=found)


def _form(package: Package) -> PackageForm | None:
    """As the package's request fills it, with the reason of a failure beside its field; None before there is one."""
    found = packages.found_of(package)
    if found is None or not package.request_text:
        return None
    value = strict_json.as_object(strict_json.loads(package.request_text, what="request"), "request")
    form = form_of(value, found)
    form.is_valid()
    if package.error and form.field_at(package.error_field):
        form.refuse(package.error, package.error_field)
    return form


def _page(request: CoordinatorRequest, package: Package, form: PackageForm | None) -> HttpResponse:
    working = packages.at_work(package)
    found = packages.found_of(package)
    context: dict[str, Any] = {
        "package": package,
        "working": working,
        "found": packages.found_view(found) if found else None,
        "form": None if working else form,
        "preview": None if working else packages.preview_view(package),
        "made": None if working else packages.made_view(package, timezone.now()),
        "section": "packages",
    }
    return render(request, "jobs/package.html", {**packages.progress_view(package), **context})
