"""For whom a socket speaks: the session of its cookie on our own pages, a token of a user on those of other sites."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest
from django.utils import timezone

from peers.services.user_tokens import page_admit, user_for_token
from weei_core.errors import Unauthorized


def check_page(scope: Any) -> None:
    """Raises unless the page behind the socket may take part: always on our own, elsewhere as its site's list says."""
    if "site_origin" in scope:
        page_admit(scope["site_origin"], scope.get("user_token"), timezone.now())


def person_of(scope: Any) -> AbstractBaseUser:
    """Who is signed in behind the socket now; raises `Unauthorized` or `Forbidden`."""
    if scope.get("user_token") is not None:
        return user_for_token(scope["user_token"], scope.get("site_origin"), timezone.now())
    session = scope.get("session")
    request = HttpRequest()
    # The socket's own session object keeps what it read when it was opened.
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session and session.session_key)
    user = get_user(request)
    if not isinstance(user, AbstractBaseUser):
        raise Unauthorized("Only the signed-in coordinator of a job may watch it.", field="watch")
    return user
