"""Who asks: a peer by its token, or a person by the session cookie, or by a token of theirs that a page of another site
or a program sends.

`Authorization` carries one token; where a user's stands there, the peer's comes as `Weei-Peer`. All functions block.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest
from django.utils import timezone

from checkpoints.bytes.http import Request
from peers.models import Peer
from peers.services.tokens import bearer_of, peer_for_token
from peers.services.user_tokens import user_admit, user_token_of
from weei_core.errors import Forbidden, Unauthorized

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def has_peer(request: Request) -> bool:
    if request.header("weei-peer") is not None:
        return True
    return request.header("authorization") is not None and _user_token(request) is None


def peer_of(request: Request) -> Peer:
    """One query."""
    token = request.header("weei-peer") or bearer_of(request.header("authorization"))
    if token is None:
        raise Unauthorized("This needs the peer's token: Authorization: Bearer <token>.", field="Authorization")
    peer = peer_for_token(token)
    request.caller = f"peer {peer.pk}"
    return peer


def has_person(request: Request) -> bool:
    return _user_token(request) is not None or _session_key(request) is not None


def user_of(request: Request) -> AbstractBaseUser:
    """The person who signed in, here or on the site that asks; two or three queries."""
    token = _user_token(request)
    if token is None:
        user = _session_user(request)
    else:
        user = user_admit(token, request.header("origin"), request.address, timezone.now())
    request.caller = f"user {user.pk}"
    return user


def _user_token(request: Request) -> str | None:
    return user_token_of(bearer_of(request.header("authorization")))


def _session_user(request: Request) -> AbstractBaseUser:
    """As Django's own middlewares would find them.

    A cookie comes along from anywhere, so what changes something must come from a page of ours.
    """
    key = _session_key(request)
    if key is None:
        raise Unauthorized("This needs a signed-in coordinator.", field="Cookie")
    origin = request.header("origin")
    if request.method not in SAFE_METHODS and origin not in settings.PUBLIC_URLS:
        allowed = ", ".join(settings.PUBLIC_URLS)
        raise Forbidden(f"Origin must be {allowed}; found {(origin or 'none')[:200]}.", field="Origin")
    django_request = HttpRequest()
    django_request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(django_request)
    if not isinstance(user, AbstractBaseUser):
        raise Unauthorized("The session has ended; sign in again.", field="Cookie")
    return user


def _session_key(request: Request) -> str | None:
    try:
        cookies = SimpleCookie(request.header("cookie") or "")
    except CookieError:
        return None
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return morsel.value if morsel is not None and morsel.value else None
