"""Around every request and every socket: its id, what its log lines are about, and what the metrics count of it.

The id is a UUID: the server's own, or the one in X-Request-ID of a proxy that is trusted (`TRUST_PROXY`). It stands in
the answer's header and in `instance` of problem details, so that a person who tells of an error can name it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from weei_core.log_context import about
from weei_site import metrics

logger = logging.getLogger("weei.requests")
Application = Callable[..., Awaitable[None]]

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMED = {
    "job": re.compile(f"/(?:jobs|invitations)/({_UUID})(?:/|$)"),
    "attempt": re.compile(f"/attempts/({_UUID})(?:/|$)"),
    "round": re.compile(r"/checkpoints/([0-9]{1,9})(?:/|$)"),
    "upload": re.compile(f"/uploads/({_UUID})(?:/|$)"),
}
"""What an address names. Nothing else of it is logged, because addresses hold secrets."""


def request_id(scope: Any) -> str:
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        try:
            return str(uuid.UUID(given.decode("ascii")))
        except ValueError:
            pass
    return str(uuid.uuid4())


class Observed:
    """The outermost application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        named = {name: found[1] for name, pattern in _NAMED.items() if (found := pattern.search(path))}
        with about(request=request_id(scope), **named) as fields:
            around = _Request(fields, path) if scope["type"] == "http" else _Socket()
            await around.run(self._app, scope, receive, send)


class _Request:
    """One request: its status as it goes out, its bytes as they pass."""

    def __init__(self, fields: dict[str, str], path: str) -> None:
        self._fields = fields
        self._route = metrics.route_beside_django(path)
        self._is_bytes = path.startswith("/bytes/")
        self._status = 500
        self._receive: Any = None
        self._send: Any = None

    async def run(self, app: Application, scope: Any, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        began = time.perf_counter()
        try:
            await app(scope, self.receive if self._is_bytes else receive, self.send)
        finally:
            route = self._route or self._fields.get("route", "unknown")
            seconds = time.perf_counter() - began
            metrics.request_done(route, scope["method"], self._status, seconds)
            # Whoever asks for health asks again in a second, and that a part is away is said elsewhere, once.
            news = self._status >= 500 and route != "readyz"
            level = logging.WARNING if news else logging.DEBUG
            logger.log(level, "%s %s %d in %.0f ms", scope["method"], route, self._status, seconds * 1000)

    async def receive(self) -> Any:
        message = await self._receive()
        if message["type"] == "http.request":
            metrics.UPLOADED.inc(len(message.get("body", b"")))
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            header = (b"x-request-id", self._fields["request"].encode())
            message = {**message, "headers": [*message.get("headers", ()), header]}
        elif self._is_bytes:
            metrics.DOWNLOADED.inc(len(message.get("body", b"")))
        await self._send(message)


class _Socket:
    def __init__(self) -> None:
        self._open = False
        self._receive: Any = None
        self._send: Any = None

    async def run(self, app: Application, scope: Any, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        try:
            await app(scope, self.receive, self.send)
        finally:
            if self._open:
                metrics.SOCKETS.dec()

    async def receive(self) -> Any:
        message = await self._receive()
        if message["type"] == "websocket.receive":
            metrics.MESSAGES.labels("in").inc()
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.accept" and not self._open:
            self._open = True
            metrics.SOCKETS.inc()
        elif message["type"] == "websocket.send":
            metrics.MESSAGES.labels("out").inc()
        await self._send(message)
