"""Who asks: a peer by its bearer token, or a person by the session cookie. All functions block."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from checkpoints.bytes.http import Request
from peers.models import Peer
from peers.services.tokens import peer_for_token
from weei_core.errors import Forbidden, Unauthorized

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def has_token(request: Request) -> bool:
    return request.header("authorization") is not None


def peer_of(request: Request) -> Peer:
    """One query."""
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("This needs the peer's token: Authorization: Bearer <token>.", field="Authorization")
    peer = peer_for_token(token.strip())
    request.caller = f"peer {peer.pk}"
    return peer


def has_session(request: Request) -> bool:
    return _session_key(request) is not None


def user_of(request: Request) -> AbstractBaseUser:
    """The signed-in person, as Django's own middlewares would find them; two queries.

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
    request.caller = f"user {user.pk}"
    return user


def _session_key(request: Request) -> str | None:
    try:
        cookies = SimpleCookie(request.header("cookie") or "")
    except CookieError:
        return None
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return morsel.value if morsel is not None and morsel.value else None
