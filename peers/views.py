"""Pages of a participant. They are empty frames: who this browser is, only its script can say, because a guest peer's
secret lies in the browser's storage."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET


@never_cache
@sensitive_variables("token")
@require_GET
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Says nothing about whether the link is valid: the API does, and counts wrong guesses."""
    return render(request, "peers/join.html", {"token": token, "section": "train"})


@require_GET
def train(request: HttpRequest) -> HttpResponse:
    return render(request, "peers/train.html", {"section": "train"})
