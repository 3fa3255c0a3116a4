"""A file to the server by tus 1.0: one POST when it is small, else slices that go on where they were cut."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from weei_client.server import Problem, Server, Unreachable
from weei_core.protocol import SLICE_BYTES

UPLOADS = "/bytes/uploads"
TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = TUS | {"Content-Type": "application/offset+octet-stream"}


class Upload:
    """Sends one file until the server has answered for the whole of it. Raises `Problem` when it refuses.

    `labels` are tus metadata (docs/protocol.md). `on_offset` hears how many bytes the server has.
    """

    def __init__(
        self,
        server: Server,
        file: Path,
        size: int,
        labels: Mapping[str, str],
        on_offset: Callable[[int], None] = lambda offset: None,
    ) -> None:
        self._server = server
        self._file = file
        self._size = size
        self._metadata = ",".join(f"{key} {base64.b64encode(text.encode()).decode()}" for key, text in labels.items())
        self._on_offset = on_offset
        self._location: str | None = None

    async def send(self) -> bool:
        """Whether the server had these very bytes already."""
        try:
            return await self._server.until_answered(self._go_on)
        except Problem as problem:
            if problem.code != "hash_mismatch":
                raise
        self._location = None
        return await self._server.until_answered(self._go_on)

    async def _go_on(self) -> bool:
        response = await (self._create() if self._location is None else self._find_offset())
        while (offset := self._offset(response)) < self._size:
            response = await self._send_slice(offset)
        return response.headers.get("Weei-Duplicate") == "true" or _said_duplicate(response)

    async def _create(self) -> httpx.Response:
        headers = TUS | {"Upload-Length": str(self._size), "Upload-Metadata": self._metadata}
        content = b""
        if self._size <= SLICE_BYTES:
            headers |= OCTETS
            content = await self._read(0)
        response = await self._server.send("POST", UPLOADS, headers=headers, content=content)
        self._location = response.headers.get("Location")
        return response

    async def _find_offset(self) -> httpx.Response:
        try:
            return await self._server.send("HEAD", str(self._location), headers=TUS)
        except Problem as problem:
            if problem.status not in (404, 410):
                raise
        # The server no longer has the beginning.
        return await self._create()

    async def _send_slice(self, offset: int) -> httpx.Response:
        headers = OCTETS | {"Upload-Offset": str(offset)}
        content = await self._read(offset)
        try:
            return await self._server.send("PATCH", str(self._location), headers=headers, content=content)
        except Problem as problem:
            if problem.status == 409 and problem.code.startswith("http_"):
                raise Unreachable("the server is at another offset") from problem
            raise

    def _offset(self, response: httpx.Response) -> int:
        text = response.headers.get("Upload-Offset", "0")
        if not text.isdecimal():
            raise Unreachable("the server did not say how many bytes it has")
        self._on_offset(int(text))
        return int(text)

    async def _read(self, offset: int) -> bytes:
        return await asyncio.to_thread(_slice, self._file, offset)


def _slice(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(SLICE_BYTES)


def _said_duplicate(response: httpx.Response) -> bool:
    if not response.headers.get("Content-Type", "").startswith("application/json"):
        return False
    body = response.json()
    return isinstance(body, dict) and body.get("duplicate") is True
