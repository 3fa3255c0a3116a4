"""An update to the server by tus 1.0: one POST when it is small, else slices that go on where they were cut."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from weei_agent.outcomes import AttemptFailed
from weei_agent.server import Problem, Server, Unreachable
from weei_core.errors import Invalid
from weei_core.protocol import SLICE_BYTES
from weei_core.weights import FileSource, sha256_of_finite

UPLOADS = "/bytes/uploads"
TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = TUS | {"Content-Type": "application/offset+octet-stream"}


@dataclass(frozen=True)
class Update:
    """The trained weights in a file, and what the module reported about them."""

    attempt_id: str
    weights: Path
    bytes: int
    sha256: str
    report: dict[str, Any]

    def metadata(self) -> str:
        report = json.dumps(self.report, allow_nan=False, separators=(",", ":"))
        pairs = {"kind": "update", "attempt": self.attempt_id, "sha256": self.sha256, "report": report}
        return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())


def make_update(attempt_id: str, weights: Path, expected_bytes: int, report: dict[str, Any]) -> Update:
    """Reads the file once, in blocks. What the server would refuse never leaves this machine (C07, C18)."""
    with weights.open("rb") as file:
        source = FileSource(file.fileno())
        if source.size != expected_bytes:
            message = f"The trained weights have {source.size} bytes; the start weights have {expected_bytes}."
            raise AttemptFailed(message)
        try:
            sha256 = sha256_of_finite(source, "The trained weights")
        except Invalid as error:
            raise AttemptFailed(error.message) from None
    return Update(attempt_id, weights, expected_bytes, sha256, report)


class Upload:
    """Sends one update until the server has answered for the whole of it. Raises `Problem` when it refuses."""

    def __init__(self, server: Server, update: Update) -> None:
        self._server = server
        self._update = update
        self._location: str | None = None

    async def send(self) -> bool:
        """Whether the server had this very update already."""
        try:
            return await self._server.until_answered(self._go_on)
        except Problem as problem:
            if problem.code != "hash_mismatch":
                raise
        self._location = None
        return await self._server.until_answered(self._go_on)

    async def _go_on(self) -> bool:
        size = self._update.bytes
        if self._location is None:
            response = await self._create(whole=size <= SLICE_BYTES)
        else:
            response = await self._find_offset()
        while (offset := _offset(response)) < size:
            response = await self._send_slice(offset)
        return response.headers.get("Weei-Duplicate") == "true" or _said_duplicate(response)

    async def _create(self, *, whole: bool) -> httpx.Response:
        headers = TUS | {"Upload-Length": str(self._update.bytes), "Upload-Metadata": self._update.metadata()}
        content = b""
        if whole:
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
        return await self._create(whole=self._update.bytes <= SLICE_BYTES)

    async def _send_slice(self, offset: int) -> httpx.Response:
        headers = OCTETS | {"Upload-Offset": str(offset)}
        content = await self._read(offset)
        try:
            return await self._server.send("PATCH", str(self._location), headers=headers, content=content)
        except Problem as problem:
            if problem.status == 409 and problem.code.startswith("http_"):
                raise Unreachable("the server is at another offset") from problem
            raise

    async def _read(self, offset: int) -> bytes:
        return await asyncio.to_thread(_slice, self._update.weights, offset)


def _slice(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(SLICE_BYTES)


def _offset(response: httpx.Response) -> int:
    offset = response.headers.get("Upload-Offset", "0")
    if not offset.isdecimal():
        raise Unreachable("the server did not say how many bytes it has")
    return int(offset)


def _said_duplicate(response: httpx.Response) -> bool:
    if not response.headers.get("Content-Type", "").startswith("application/json"):
        return False
    body = response.json()
    return isinstance(body, dict) and body.get("duplicate") is True
