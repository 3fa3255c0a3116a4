"""Pages of a participant, and the page of a person's access tokens.

Those of a participant are empty frames: who this browser is, only its script can say, because a guest peer's secret
lies in the browser's storage.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from jobs.views.access import CoordinatorRequest, coordinator
from peers import throttle
from peers.forms import TokenForm
from peers.models import UserToken
from peers.services.user_tokens import personal_token_create, user_tokens_revoke
from weei_core.errors import NotFound

NEW_TOKENS = 10
"""Tokens that one person may make in a minute."""


@never_cache
@sensitive_variables("token")
@require_GET
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Says nothing about whether the link is valid: the API does, and counts wrong guesses."""
    return render(request, "peers/join.html", {"token": token, "section": "train"})


@require_GET
def train(request: HttpRequest) -> HttpResponse:
    return render(request, "peers/train.html", {"section": "train"})


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "POST"])
@coordinator
def access_tokens(request: CoordinatorRequest) -> HttpResponse:
    """The tokens with which this person's programs act. POST makes one, which the answer shows this once."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    now = timezone.now()
    context: dict[str, object] = {"section": "tokens", "now": now}
    if form.is_valid():
        throttle.check("personal-tokens", str(request.user.pk), NEW_TOKENS)
        throttle.count("personal-tokens", str(request.user.pk))
        context["made"], context["token"] = personal_token_create(request.user, now=now, **form.cleaned_data)
        form = TokenForm()
    tokens = _tokens(request).filter(revoked_at=None)
    status = 422 if form.errors else 200
    return render(request, "peers/access_tokens.html", {**context, "form": form, "tokens": tokens}, status=status)


@require_POST
@coordinator
def access_token_revoke(request: CoordinatorRequest, token_id: UUID) -> HttpResponse:
    found = _tokens(request).filter(pk=token_id)
    token = found.first()
    if token is None:
        raise NotFound("There is no such access token of yours.", field="tokenId")
    user_tokens_revoke(found, timezone.now())
    messages.success(request, f"“{token.name}” is revoked.")
    return redirect("access-tokens")


def _tokens(request: CoordinatorRequest) -> QuerySet[UserToken]:
    return UserToken.objects.filter(user_id=request.user.pk, site=None)
