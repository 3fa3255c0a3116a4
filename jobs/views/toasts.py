"""What happened, said on the next page that this person sees."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest


def toast(request: HttpRequest, text: str, *, undo: str = "") -> None:
    """`undo` is an address: the page offers a form that posts there."""
    messages.success(request, text, extra_tags=undo)
