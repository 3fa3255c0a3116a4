"""What a request body may be, decided before Django sees it.

Under ASGI Django writes a whole body to its temporary folder before any middleware runs, so an anonymous POST of 1 GiB
to any address would fill the disk. The gate refuses by the announced length, counts what really comes, and gives up on
senders that are too slow. `/bytes/` has the same rules built in, by what is being sent.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkpoints.bytes.http import Request, RequestTimeout, send_problem
from weei_core.errors import TooLarge, WeeiError

KIB, MIB = 1024, 1024 * 1024

OTHER_BYTES = 64 * KIB
FORM_BYTES = MIB
API_BYTES = MIB
CREATE_BYTES = 8 * MIB
"""A new job names up to 10,000 files."""
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

PATIENCE_SECONDS = 30.0
SLOWEST_BYTES_PER_SECOND = 50_000
_CLOSE = (("Connection", "close"),)


def largest_body(path: str, media_type: str) -> int:
    """How many bytes a body may have at this address."""
    if path.rstrip("/") == "/api/v1/jobs":
        return CREATE_BYTES
    if path.startswith("/api/"):
        return API_BYTES
    return FORM_BYTES if media_type in _FORMS else OTHER_BYTES


class BodyGate:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/bytes/"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            length = _allowed_length(request)
        except WeeiError as error:
            await send_problem(send, error, _CLOSE)
            return
        gated = _GatedBody(receive, send, length)
        await self._app(scope, gated.receive, gated.send)


def _allowed_length(request: Request) -> int:
    length = request.content_length()
    media_type = (request.header("content-type") or "").partition(";")[0].strip().lower()
    limit = largest_body(request.path, media_type)
    if length > limit:
        raise TooLarge(f"A body may have at most {limit} bytes here; it has {length}.", field="Content-Length")
    return length


class _GatedBody:
    """The channel of one request. After a refusal the app hears that the client is gone, and is not heard itself."""

    def __init__(self, receive: Receive, send: Send, length: int) -> None:
        self._receive = receive
        self._send = send
        self._left = length
        self._ends = asyncio.get_running_loop().time() + PATIENCE_SECONDS + length / SLOWEST_BYTES_PER_SECOND
        self._complete = False
        self._refused = False
        self._answered = False

    async def receive(self) -> Message:
        if self._complete:
            # What comes now is the end of the connection, and may take as long as the answer does.
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends):
                message = await self._receive()
        except TimeoutError:
            return await self._refuse(RequestTimeout("The body came too slowly."))
        if message["type"] != "http.request":
            return message
        self._left -= len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._left < 0:
            return await self._refuse(TooLarge("The body goes on after the length that it announced."))
        return message

    async def send(self, message: Message) -> None:
        if self._refused:
            return
        self._answered = True
        await self._send(message)

    async def _refuse(self, error: WeeiError) -> Message:
        self._refused = True
        if not self._answered:
            await send_problem(self._send, error, _CLOSE)
        return {"type": "http.disconnect"}
