"""A server without sockets: one request to an ASGI app, and everything that happened to its body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

HANG = object()
"""In a body: from here on nothing comes, and the connection stays open."""
GONE = object()
"""In a body: the client hangs up here."""


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    blocks: int = 0
    read: int = 0
    """Bytes of the request body that the app asked for."""
    complete: bool = False

    @property
    def json(self):
        return json.loads(self.body)


async def request(app, method, path, headers=(), body: Iterable[object] = (), hang_up_after=None) -> Answer:
    """`body` is a list of pieces; Content-Length is added when `headers` has none and there is a body."""
    pieces: list[object] = list(body)
    sent = dict(headers)
    whole = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
    if pieces and not {"content-length", "transfer-encoding"} & {name.lower() for name in sent}:
        sent["Content-Length"] = str(whole)
    answer = Answer()
    hung_up = asyncio.Event()

    async def receive():
        if not pieces:
            if answer.read or answer.status:
                await hung_up.wait()
                return {"type": "http.disconnect"}
            pieces.append(None)
        piece = pieces.pop(0)
        if piece is None:
            pieces.append(HANG)
            return {"type": "http.request", "body": b"", "more_body": False}
        if piece is HANG:
            await hung_up.wait()
        if piece is HANG or piece is GONE:
            return {"type": "http.disconnect"}
        assert isinstance(piece, bytes)
        answer.read += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message):
        if message["type"] == "http.response.start":
            assert answer.status == 0, "the response started twice"
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            answer.blocks += 1
            answer.complete = not message.get("more_body", False)
            if hang_up_after is not None and answer.blocks >= hang_up_after:
                hung_up.set()
                await asyncio.sleep(0)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }
    await app(scope, receive, send)
    return answer


def call(app, method, path, headers=(), body=(), **options) -> Answer:
    """The same for a test that makes one request only."""
    return asyncio.run(request(app, method, path, headers, body, **options))
