"""What happened, said on the page that this person sees next: at once where a part of the page was asked for, else on
the next whole page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django_htmx.http import trigger_client_event


def toast(request: HttpRequest, text: str, *, undo: str = "") -> None:
    """On the next whole page. `undo` is an address: the page offers a form that posts there."""
    messages.success(request, text, extra_tags=undo)


def told(request: HttpRequest, response: HttpResponse, text: str) -> HttpResponse:
    """The answer to a command, with the sentence that says what it did."""
    if request.headers.get("HX-Request"):
        return trigger_client_event(response, "weei:toast", {"text": text})
    toast(request, text)
    return response
