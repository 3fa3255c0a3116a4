"""Nothing leaves the store before its SHA-256 was checked, and nothing large is hashed twice without need.

Who writes a large file hashes it meanwhile, and notes that on the file itself, for the other processes of this machine:
a worker merges updates of gigabytes that the web process has just received and hashed. The note is an extended
attribute; where the file system has none, the file is hashed again.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from weei_core.errors import Conflict
from weei_core.weights import FileSource, sha256_of

ALWAYS_BYTES = 256 * 1024
"""Up to this size a file is hashed at every read (0.2 ms); a larger one once per process, as long as its inode, size
and time of change stay what they were."""
REMEMBERED_FILES = 4096
SETTLED_SECONDS = 2
"""A file written so lately is not remembered: it could be written again within one tick of the file system's clock."""

VOUCHED_SECONDS = 24 * 3600
"""A note counts for so long, and never after a restart of the machine: what lay in its memory may not have come to the
disk, and disks forget."""
NOTE = "user.weei.whole"
_FILE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, by which file systems stamp their files; the module `time` has no name for it."""
_TICK_MS = 20
"""More than a tick of it has; a file from a clock that is ahead of this one is not waited for."""

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
            stamp = _stamp(status)
            if status.st_size > ALWAYS_BYTES and (
                self._whole.get(sha256) == stamp or _vouched(descriptor, sha256, status)
            ):
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

    def vouch(self, path: Path, sha256: str) -> None:
        """Note on a large file that its bytes were hashed while they were written; nobody writes to it any more."""
        status = path.stat()
        if status.st_size <= ALWAYS_BYTES:
            return
        for _ in range(_TICK_MS):
            # A write within the same tick of the file system's clock could not be told from those before.
            if time.clock_gettime_ns(_FILE_CLOCK) > status.st_mtime_ns:
                with suppress(OSError):
                    os.setxattr(path, NOTE, _note(sha256, _stamp(status)))
                return
            time.sleep(0.001)

    def _remember(self, sha256: str, stamp: _Stamp) -> None:
        with self._lock:
            self._whole.pop(sha256, None)
            self._whole[sha256] = stamp
            if len(self._whole) > REMEMBERED_FILES:
                del self._whole[next(iter(self._whole))]


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _vouched(descriptor: int, sha256: str, status: os.stat_result) -> bool:
    """Whether a process of this machine noted these bytes lately, and nothing wrote to the file since."""
    try:
        note = os.getxattr(descriptor, NOTE)
    except OSError:
        return False
    return note == _note(sha256, _stamp(status)) and time.time() - status.st_mtime < VOUCHED_SECONDS


def _note(sha256: str, stamp: _Stamp) -> bytes:
    return " ".join([sha256, *map(str, stamp), _boot_id()]).encode()


@cache
def _boot_id() -> str:
    """Another one after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
