"""`application`: everything under /bytes/. Its own small router, because this is the hot path (docs/protocol.md)."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from uuid import UUID

from django.db import InterfaceError, OperationalError
from starlette.types import Message, Receive, Scope, Send

from checkpoints.bytes import downloads
from checkpoints.bytes.http import (
    NO_ROOM,
    ClientGone,
    MethodNotAllowed,
    Request,
    RequestTimeout,
    send_problem,
    unavailable,
)
from checkpoints.bytes.uploads import Uploads
from weei_core.errors import NotFound, StorageFull, WeeiError
from weei_core.protocol import SLICE_BYTES

logger = logging.getLogger(__name__)

_UUID = "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
ROUTES = {
    "uploads": re.compile("/bytes/uploads/?"),
    "upload": re.compile(f"/bytes/uploads/{_UUID}"),
    "artifact": re.compile(f"/bytes/jobs/{_UUID}/([0-9a-f]{{64}})"),
    "checkpoint": re.compile(f"/bytes/jobs/{_UUID}/checkpoints/([0-9]{{1,9}})"),
    "weights": re.compile(f"/bytes/jobs/{_UUID}/checkpoints/([0-9]{{1,9}})/weights\\.(safetensors|npy)"),
    "package": re.compile(f"/bytes/packages/{_UUID}"),
}
"""By name. tests/security/matrix.py says for each who may use it."""

Handler = Callable[[], Awaitable[None]]


class BytesApp:
    def __init__(self) -> None:
        self._uploads = Uploads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"The bytes app speaks HTTP only, not {scope['type']}.")
        request = Request(scope, receive)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._handler(request, watched)()
        except ClientGone:
            if started:
                # Only an error makes the server close a connection whose answer is not complete.
                raise
        except Exception as error:
            found = _expected(error)
            if found is None or started:
                raise
            await _refuse(request, watched, found)

    def _handler(self, request: Request, send: Send) -> Handler:
        route, found = _route(request.path)
        if route == "uploads":
            return _by_method(
                request,
                POST=lambda: self._uploads.create(request, send),
                OPTIONS=lambda: self._uploads.options(send),
            )
        of = UUID(found[0])
        if route == "upload":
            return _by_method(
                request,
                PATCH=lambda: self._uploads.patch(request, send, of),
                HEAD=lambda: self._uploads.head(request, send, of),
                OPTIONS=lambda: self._uploads.options(send),
            )
        reading: dict[str, Handler] = {
            "artifact": lambda: downloads.artifact(request, send, of, found[1]),
            "checkpoint": lambda: downloads.checkpoint(request, send, of, int(found[1])),
            "weights": lambda: downloads.weights(request, send, of, int(found[1]), found[2]),
            "package": lambda: downloads.package(request, send, of),
        }
        return _by_method(request, GET=reading[route], HEAD=reading[route])


def _route(path: str) -> tuple[str, tuple[str, ...]]:
    """The name of the route, and what its address holds."""
    for name, pattern in ROUTES.items():
        if match := pattern.fullmatch(path):
            return name, match.groups()
    raise NotFound("There is nothing at this address.")


def _by_method(request: Request, **handlers: Handler) -> Handler:
    if request.method not in handlers:
        raise MethodNotAllowed(f"The method must be {', '.join(handlers)}; found {request.method}.")
    return handlers[request.method]


def _expected(error: Exception) -> WeeiError | None:
    """The error that people are told, or None for a bug."""
    if isinstance(error, WeeiError):
        return error
    if isinstance(error, (OperationalError, InterfaceError)):
        return unavailable(error)
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return StorageFull("The server's disk is full; try again when there is room.")
    return None


async def _refuse(request: Request, send: Send, error: WeeiError) -> None:
    logger.info(
        "%s %s of %s refused with %d %s: %s",
        request.method,
        request.path,
        request.caller,
        error.status,
        error.code,
        error.message,
    )
    # A body of up to a slice is let run out, so that its sender gets to read the answer; more is cut off.
    length = request.header("content-length") or "0"
    lets_run_out = request.header("transfer-encoding") is None and length.isdecimal() and int(length) <= SLICE_BYTES
    close = () if lets_run_out and not isinstance(error, RequestTimeout) else (("Connection", "close"),)
    await send_problem(send, error, (("Tus-Resumable", "1.0.0"), *close))


application = BytesApp()
