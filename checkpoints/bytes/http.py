"""The little HTTP that the bytes app and the body gate need: headers in, problem details out."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Sequence

from starlette.types import Receive, Scope, Send

from weei_core import js_json
from weei_core.errors import Unavailable, WeeiError
from weei_core.problems import problem_body

logger = logging.getLogger("weei.bytes")

Headers = Sequence[tuple[str, str]]
COMMON: Headers = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
RETRY_AFTER_SECONDS = "1"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk, or a share of it, is full."""


class MethodNotAllowed(WeeiError):
    status = 405
    default_code = "method_not_allowed"


class RequestTimeout(WeeiError):
    """The body came too slowly; the connection is closed."""

    status = 408
    default_code = "too_slow"


class LengthRequired(WeeiError):
    status = 411
    default_code = "length_required"


class WrongTusVersion(WeeiError):
    status = 412
    default_code = "wrong_tus_version"


class UnsupportedMedia(WeeiError):
    status = 415
    default_code = "unsupported_media_type"


def unavailable(error: Exception) -> Unavailable:
    """What people are told while the database is away; the log has the reason."""
    logger.warning("the database does not answer: %s", error)
    return Unavailable("The server's database does not answer; try again in a moment.")


class ClientGone(Exception):
    """The other side hung up: there is nobody to answer."""


class Request:
    """One request. Header names are lower case; of repeated headers the last counts.

    `caller` is for the log: who asks, once that is known. `address` is the one that the server itself sees.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.receive = receive
        self.caller = "somebody unknown"
        self.address = str((scope.get("client") or ("",))[0])
        self._headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: str) -> str | None:
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def content_length(self) -> int:
        """0 without a body. Raises `LengthRequired` for a body of unknown length and refuses any compression."""
        encoding = self.header("content-encoding")
        if encoding not in (None, "identity"):
            raise UnsupportedMedia(
                f"Content-Encoding must be absent; found {encoding[:40]}. Nothing is decompressed here.",
                field="Content-Encoding",
            )
        if self.header("transfer-encoding") is not None:
            raise LengthRequired("A body must announce its Content-Length.", field="Content-Length")
        text = self.header("content-length") or "0"
        if not (text.isascii() and text.isdecimal() and len(text) <= 16):
            raise LengthRequired("Content-Length must be a whole number.", field="Content-Length")
        return int(text)


async def send_empty(send: Send, status: int, headers: Iterable[tuple[str, str]]) -> None:
    await send_start(send, status, headers)
    await send({"type": "http.response.body", "body": b""})


async def send_json(send: Send, status: int, body: object, headers: Iterable[tuple[str, str]] = ()) -> None:
    await _send_text(send, status, body, "application/json", headers)


async def send_problem(send: Send, error: WeeiError, headers: Iterable[tuple[str, str]] = ()) -> None:
    extra = [("Cache-Control", "no-store"), *headers]
    if error.status in (429, 503):
        extra.append(("Retry-After", RETRY_AFTER_SECONDS))
    if error.status == 401:
        extra.append(("WWW-Authenticate", "Bearer"))
    await _send_text(send, error.status, problem_body(error), "application/problem+json", extra)


async def _send_text(
    send: Send, status: int, body: object, media_type: str, headers: Iterable[tuple[str, str]]
) -> None:
    data = js_json.dumps(body).encode()
    described = (("Content-Type", media_type), ("Content-Length", str(len(data))), *headers)
    await send_start(send, status, described)
    await send({"type": "http.response.body", "body": data})


async def send_start(send: Send, status: int, headers: Iterable[tuple[str, str]]) -> None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (*COMMON, *headers)]
    await send({"type": "http.response.start", "status": status, "headers": raw})
