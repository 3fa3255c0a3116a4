"""A file from the server, hashed while it comes, going on where it was cut."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import IO

import httpx

from weei_client.server import Server, Unreachable


class Download:
    """One file into `sink`; `go_on` asks only for what is still missing.

    Without `size` the server's own word counts. A file that changes meanwhile is begun anew.
    """

    def __init__(
        self,
        server: Server,
        path: str,
        sink: IO[bytes],
        size: int | None = None,
        on_progress: Callable[[int, int | None], None] = lambda done, size: None,
    ) -> None:
        self._server = server
        self._path = path
        self._sink = sink
        self._size = size
        self._on_progress = on_progress
        self._etag: str | None = None
        self._done = 0
        self._hash = hashlib.sha256()

    def sha256(self) -> str:
        return self._hash.hexdigest()

    @property
    def etag(self) -> str | None:
        """Of the last answer, without its quotes; the SHA-256 where the file is an artifact."""
        return self._etag and self._etag.removeprefix("W/").strip('"')

    async def go_on(self) -> None:
        if self._done and self._size is not None and self._done >= self._size:
            return
        headers = {"Accept-Encoding": "identity"}
        if self._done:
            headers["Range"] = f"bytes={self._done}-"
            if self._etag:
                headers["If-Range"] = self._etag
        async with self._server.stream("GET", self._path, headers=headers) as response:
            if response.status_code != 206:
                self._start_again()
            self._etag = response.headers.get("ETag")
            size = self._expected(response)
            try:
                async for block in response.aiter_bytes():
                    self._take(block, size)
                    if self._size is not None and self._done > self._size:
                        break  # wrong whatever it hashes to; it need not fill the disk
            except httpx.TransportError as error:
                raise Unreachable(str(error) or type(error).__name__) from error
        self._sink.flush()

    def _expected(self, response: httpx.Response) -> int | None:
        if self._size is not None:
            return self._size
        length = response.headers.get("Content-Length", "")
        return self._done + int(length) if length.isdecimal() else None

    def _start_again(self) -> None:
        self._sink.seek(0)
        self._sink.truncate()
        self._done = 0
        self._hash = hashlib.sha256()

    def _take(self, block: bytes, size: int | None) -> None:
        self._server.heard()
        self._sink.write(block)
        self._hash.update(block)
        self._done += len(block)
        self._on_progress(self._done, size)
