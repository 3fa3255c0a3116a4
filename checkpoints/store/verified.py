"""Nothing leaves the store before its SHA-256 was checked, and nothing large is hashed twice without need."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from weei_core.errors import Conflict
from weei_core.weights import FileSource, sha256_of

ALWAYS_BYTES = 256 * 1024
"""Up to this size a file is hashed at every read (0.2 ms); a larger one once per process, as long as its inode, size
and time of change stay what they were."""
REMEMBERED_FILES = 4096
SETTLED_SECONDS = 2
"""A file written so lately is not remembered: it could be written again within one tick of the file system's clock."""

_Stamp = tuple[int, int, int]


def corrupt(sha256: str, reason: str) -> Conflict:
    return Conflict(f"The stored file {sha256} {reason}; it is not used.", field=sha256, code="corrupt_artifact")


class Verified:
    """Remembers which files of this process were whole. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: dict[str, _Stamp] = {}

    def check(self, path: Path, sha256: str) -> None:
        """Raises `Conflict` ("corrupt_artifact") when the file is missing or holds other bytes."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise corrupt(sha256, "is missing") from None
        try:
            status = os.fstat(descriptor)
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            if status.st_size > ALWAYS_BYTES and self._whole.get(sha256) == stamp:
                return
            if sha256_of(FileSource(descriptor)) != sha256:
                raise corrupt(sha256, "does not have the bytes that it is named by")
        finally:
            os.close(descriptor)
        if time.time() - status.st_mtime > SETTLED_SECONDS:
            self._remember(sha256, stamp)

    def is_whole(self, path: Path, sha256: str) -> bool:
        try:
            self.check(path, sha256)
        except Conflict:
            return False
        return True

    def _remember(self, sha256: str, stamp: _Stamp) -> None:
        with self._lock:
            self._whole.pop(sha256, None)
            self._whole[sha256] = stamp
            if len(self._whole) > REMEMBERED_FILES:
                del self._whole[next(iter(self._whole))]
