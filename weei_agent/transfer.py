"""Downloads by SHA-256 into a cache on disk."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from weei_agent.state import File
from weei_client.download import Download
from weei_client.server import Server

MIB = 1024 * 1024
ABANDONED_SECONDS = 3600


class WrongBytes(Exception):
    """What came is not what was asked for. The text names it."""


class Cache:
    """Files named by their SHA-256; the least recently used go when all together are more than `limit` bytes.

    Agents of one machine may share it: a name appears only with its whole content, and every use is verified.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def fetch(self, server: Server, job_id: str, file: File, what: str) -> Path:
        """The verified file. Wrong bytes are fetched once more, then `WrongBytes` names `what`. `Problem` is final."""
        path = self._folder / file.sha256
        if await asyncio.to_thread(_is_whole, path, file):
            return path
        for _ in range(2):
            if await self._downloaded(server, f"/bytes/jobs/{job_id}/{file.sha256}", file):
                return path
        raise WrongBytes(f"{what} arrived damaged twice; its SHA-256 should be {file.sha256}.")

    def put(self, file: File, content: str, what: str) -> Path:
        """Bytes that came along in base64."""
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error:
            data = b""
        if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
            raise WrongBytes(f"{what} came with another SHA-256 than {file.sha256}.")
        part, name = self._new_part()
        with os.fdopen(part, "wb") as sink:
            sink.write(data)
        os.replace(name, self._folder / file.sha256)
        return self._folder / file.sha256

    def trim(self, keep: Iterable[Path]) -> None:
        """Bring the cache below its limit without touching `keep`, nor what another agent may be writing."""
        kept, now, files = set(keep), time.time(), []
        for path in self._folder.iterdir():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another agent was quicker
            files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for used, size, path in sorted(files):
            busy = path.suffix == ".part" and now - used < ABANDONED_SECONDS
            if total <= self._limit or busy or path in kept:
                continue
            path.unlink(missing_ok=True)
            total -= size

    async def _downloaded(self, server: Server, source: str, file: File) -> bool:
        """Whether the right bytes came and now stand under their name."""
        part, name = self._new_part()
        try:
            with os.fdopen(part, "wb") as sink:
                download = Download(server, source, sink, file.bytes)
                await server.until_answered(download.go_on)
            if download.sha256() != file.sha256:
                return False
            os.replace(name, self._folder / file.sha256)
            return True
        finally:
            Path(name).unlink(missing_ok=True)

    def _new_part(self) -> tuple[int, str]:
        return tempfile.mkstemp(dir=self._folder, suffix=".part")


def _is_whole(path: Path, file: File) -> bool:
    try:
        if path.stat().st_size != file.bytes:
            return False
        with path.open("rb") as stored:
            whole = hashlib.file_digest(stored, "sha256").hexdigest() == file.sha256
        os.utime(path)  # the time of last use
    except OSError:
        return False
    return whole
