"""Pages of other sites sign in here: the popup that asks the person and hands a token over, and the list of what was
handed over.

The popup's answer goes by postMessage to the one origin that was shown, so every answer on the way to it must leave the
window that opened it in reach (Cross-Origin-Opener-Policy); all other pages stay out of reach.
"""

from __future__ import annotations

import re
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from jobs.views.access import CoordinatorRequest, coordinator
from peers import throttle
from peers.models import UserToken
from peers.services.sites import check_user, site_for
from peers.services.user_tokens import user_token_create, user_tokens_revoke
from weei_core.errors import Forbidden, Invalid, NotFound

GRANTS = 10
"""Tokens that one person may hand over in a minute."""
R = TypeVar("R", bound=HttpResponseBase)
_STATE = re.compile(r"[A-Za-z0-9_-]{22,200}")


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """GET asks whether the site may act for the signed-in person. POST, from this page alone, says so or not."""
    if not request.user.is_authenticated:
        return reachable(redirect_to_login(request.get_full_path()), _origin(request.GET))
    site = site_for(_origin(request.GET))
    state = request.GET.get("state", "")
    if not _STATE.fullmatch(state):
        raise Invalid("state must be 22 to 200 letters, digits, - or _; begin to sign in again.", field="state")
    check_user(site, request.user)
    context: dict[str, object] = {"site": site, "state": state, "section": "login"}
    if request.method == "POST":
        if "allow" in request.POST:
            throttle.check("user-tokens", str(request.user.pk), GRANTS)
            throttle.count("user-tokens", str(request.user.pk))
            _, context["token"] = user_token_create(request.user, site, state, timezone.now())
        return reachable(render(request, "peers/authorized.html", context), site.origin)
    return reachable(render(request, "peers/authorize.html", context), site.origin)


def _origin(asked: QueryDict) -> str:
    return asked.get("origin", "")


def reachable(response: R, origin: str) -> R:
    """The answer, which the window that opened this one can reach if it may be a registered site's."""
    try:
        site_for(origin)
    except Forbidden:
        return response
    response["Cross-Origin-Opener-Policy"] = "unsafe-none"
    return response


def origin_that_waits(next_address: str) -> str:
    """The origin whose popup goes on at this address once somebody has signed in, or nothing."""
    parts = urlsplit(next_address)
    if parts.netloc or parts.path != reverse("authorize"):
        return ""
    return parse_qs(parts.query).get("origin", [""])[0]


@never_cache
@require_GET
@coordinator
def connected_sites(request: CoordinatorRequest) -> HttpResponse:
    """The sites that may act for this person now."""
    tokens = _tokens(request).filter(revoked_at=None, expires_at__gt=timezone.now())
    return render(request, "peers/connected_sites.html", {"tokens": tokens, "section": "sites"})


@require_POST
@coordinator
def connected_site_revoke(request: CoordinatorRequest, token_id: UUID) -> HttpResponse:
    found = _tokens(request).filter(pk=token_id)
    token = found.first()
    if token is None or token.site is None:
        raise NotFound("There is no such sign-in of yours.", field="tokenId")
    user_tokens_revoke(found, timezone.now())
    messages.success(request, f"{token.site.name} may not act for you any more.")
    return redirect("connected-sites")


def _tokens(request: CoordinatorRequest) -> QuerySet[UserToken]:
    return UserToken.objects.filter(user_id=request.user.pk, site__isnull=False).select_related("site")
