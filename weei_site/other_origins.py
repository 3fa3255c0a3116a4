"""Calls of pages of other sites, around everything else: only registered origins are answered, no cookie of theirs
counts, and what the browser must hear so that the page may read the answer (CORS) stands on every answer.

Static files are open to all pages (weei_site/static_app.py): what is refused here, weei.js there says in words.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.utils import timezone

from checkpoints.bytes.http import send_empty, send_problem
from checkpoints.bytes.threads import in_database
from peers.services.sites import is_own, site_for
from peers.services.tokens import bearer_of
from peers.services.user_tokens import page_admit, user_token_of
from weei_site.middleware import expected

denials = logging.getLogger("weei.denied")
Application = Callable[..., Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

PREFIXES = ("/api/", "/bytes/")
FOR_ALL = "/api/v1/site"
"""Says to every page of a registered origin whether its user may go on."""

PREFLIGHT_SECONDS = 600
ALLOWED_METHODS = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
ALLOWED_HEADERS = (
    "Accept, Authorization, Content-Type, If-None-Match, If-Range, Range, Tus-Resumable, Upload-Length, "
    "Upload-Metadata, Upload-Offset, Weei-Peer"
)
EXPOSED_HEADERS = (
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Link, Location, Retry-After, Tus-Extension, "
    "Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Length, Upload-Offset, WWW-Authenticate, Weei-Duplicate, "
    "X-Request-ID"
)


class OtherOrigins:
    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIXES):
            await self._app(scope, receive, send)
            return
        origins = header_values(scope, b"origin")
        if not origins or (len(origins) == 1 and is_own(origins[0])):
            await self._app(scope, receive, _with_headers(send))
            return
        origin = ", ".join(origins)
        try:
            await in_database(_admit, scope, origin)
        except Exception as error:
            await _refuse(scope, send, origin, error)
            return
        send = _with_headers(send, origin)
        if scope["method"] == "OPTIONS" and header_values(scope, b"access-control-request-method"):
            await send_empty(send, 204, _PREFLIGHT)
            return
        await self._app(without_cookies(scope), receive, send)


_PREFLIGHT = (
    ("Access-Control-Allow-Methods", ALLOWED_METHODS),
    ("Access-Control-Allow-Headers", ALLOWED_HEADERS),
    ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
)


def header_values(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def without_cookies(scope: Any) -> Any:
    """A cookie comes along from every page that the browser takes for the same site, whatever its port."""
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"cookie"]}


def _admit(scope: Any, origin: str) -> None:
    """Raises for an origin that is not registered, and where only chosen users may go on, for everybody else. The
    browser's own question before a call carries no token, and gets the answer for the origin alone."""
    if scope["method"] == "OPTIONS" or scope["path"] == FOR_ALL:
        site_for(origin)
        return
    bearer = bearer_of(next(iter(header_values(scope, b"authorization")), None))
    page_admit(origin, user_token_of(bearer), timezone.now())


async def _refuse(scope: Any, send: Any, origin: str, error: Exception) -> None:
    known = expected(error)
    if known is None:
        raise error
    prefix = scope["path"].split("/")[1]
    denials.info("user=- peer=- %s /%s %d %s origin=%.200r", scope["method"], prefix, known.status, known.code, origin)
    # A page may read why its user is refused, but an origin that is not registered reads nothing.
    reader = None if known.code == "origin_not_registered" else origin
    await send_problem(_with_headers(send, reader), known, (("Connection", "close"),))


def _with_headers(send: Any, origin: str | None = None) -> Any:
    """What caches and browsers must hear. `origin` may read the answer."""

    async def sends(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": _described(list(message.get("headers", ())), origin)}
        await send(message)

    return sends


def _described(headers: Headers, origin: str | None) -> Headers:
    vary = [value for name, value in headers if name.lower() == b"vary"]
    kept = [(name, value) for name, value in headers if name.lower() != b"vary"]
    kept.append((b"vary", b", ".join([*vary, b"Origin"])))
    if origin is not None:
        kept.append((b"access-control-allow-origin", origin.encode("latin-1")))
        kept.append((b"access-control-expose-headers", EXPOSED_HEADERS.encode()))
    return kept
