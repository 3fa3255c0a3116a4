"""Who may see a coordinator's page: people who are signed in; whose job it is, `job_for_owner` decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

P = ParamSpec("P")


class CoordinatorRequest(HttpRequest):
    """A request that passed `coordinator`."""

    htmx: HtmxDetails
    user: User


def coordinator(
    view: Callable[Concatenate[CoordinatorRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Signed in, or sent to the sign-in page. A fragment's request moves the whole page there: the sign-in page must
    never land inside a panel."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)  # type: ignore[arg-type]
        htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
        if htmx:
            here = htmx.current_url_abs_path or resolve_url("job-list")
            return HttpResponseClientRedirect(f"{resolve_url('login')}?{urlencode({'next': here})}")
        return redirect_to_login(request.get_full_path())

    return cast("Callable[Concatenate[HttpRequest, P], HttpResponse]", guarded)


def round_asked(text: str) -> int | None:
    """A round from a query; what cannot be one asks for nothing."""
    return int(text) if text.isdecimal() and len(text) < 10 else None
