"""HTTP for fake participants: one kept connection each, one request after the other, tried again as the protocol says
(docs/protocol.md, Errors)."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

ANSWER_SECONDS = 60
FIRST_RETRY, LAST_RETRY = 0.5, 30.0
PROBLEM = "application/problem+json"


class Problem(Exception):
    """A problem detail: final for the request as it was."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {body.get('code')}: {body.get('title')}")
        self.status = status
        self.code = str(body.get("code"))
        self.body = body


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def problem(self) -> Problem | None:
        if self.headers.get("content-type", "").startswith(PROBLEM):
            return Problem(self.status, json.loads(self.body))
        return None


def delays(draw: random.Random) -> Iterator[float]:
    """Seconds to wait before each new try: full jitter below 0.5 s, doubling to 30 s."""
    most = FIRST_RETRY
    while True:
        yield draw.uniform(0, most)
        most = min(LAST_RETRY, 2 * most)


class Caller:
    """Not more than one request at once: the others wait for it, as on one connection of a browser."""

    """`statuses` counts the answers of 500 and above."""

    def __init__(
        self, url: str, origin: str, draw: random.Random, *, statuses: Counter[str], source: str | None = None
    ) -> None:
        where = urlsplit(url)
        self._statuses = statuses
        self.token = ""
        self.retries = 0
        self._where, self._source, self._draw = where, source, draw
        self._head = f"Host: {where.netloc}\r\nOrigin: {origin}\r\n"
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def json(self, method: str, path: str, body: object = None) -> Any:
        """Asked again until it is answered; raises `Problem`."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        return json.loads((await self.answered(method, path, headers, sent)).body)

    async def answered(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Asked again until there is an answer that is final: no problem detail but 429 and 503, no 5xx without one."""
        waits = delays(self._draw)
        while True:
            after = 0.0
            try:
                answer = await self.once(method, path, headers, body)
            except (OSError, asyncio.IncompleteReadError):
                pass
            else:
                problem = answer.problem
                if answer.status < 500 and problem is None:
                    return answer
                if problem is not None and problem.status not in (429, 503):
                    raise problem
                after = float(answer.headers.get("retry-after", 0))
            self.retries += 1
            await asyncio.sleep(after + next(waits))

    async def once(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """One try; raises OSError (timeouts too) when no answer came. A kept connection may have been closed meanwhile:
        then one more is opened, if nothing of an answer had come."""
        async with self._lock:
            kept = self._streams is not None
            try:
                return await self._ask(method, path, headers or {}, body)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if not kept or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                    raise
            return await self._ask(method, path, headers or {}, body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._streams is None:
                    local = (self._source, 0) if self._source else None
                    self._streams = await asyncio.open_connection(
                        self._where.hostname, self._where.port, local_addr=local
                    )
                reader, writer = self._streams
                writer.write(self._request(method, path, headers, body))
                answer = await _read(reader, method)
        except BaseException:
            self.close()
            raise
        if answer.status >= 500:
            self._statuses[str(answer.status)] += 1
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {path} HTTP/1.1\r\n", self._head]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}\r\n")
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}\r\n")
        return ("".join(lines) + "\r\n").encode() + (body or b"")


async def _read(reader: asyncio.StreamReader, method: str) -> Answer:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    headers = {}
    for line in lines[1:-2]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if method == "HEAD" or status == 204:
        body = b""
    elif "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.read()
    return Answer(status, headers, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(parts)
