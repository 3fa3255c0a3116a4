"""What every store of artifacts promises, and the part that all keep on this machine's disk.

A name that exists is whole: bytes are written under a temporary name, and named by their SHA-256 in one step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from checkpoints.store.verified import Verified
from weei_core.errors import StorageFull


class ArtifactStore(ABC):
    """Bytes by their SHA-256, and the slices of uploads under way. All methods block; all are thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.verified = Verified()
        self._temporary = folder / "temporary"
        self._bodies = folder / "bodies"
        for made in (self._temporary, self._bodies):
            made.mkdir(parents=True, exist_ok=True)

    # --- Artifacts ---

    @abstractmethod
    def put(self, temporary: Path, sha256: str, *, durable: bool = True) -> None:
        """Give the bytes of a finished file their name. The temporary file stays: unlink it when the row is written.

        The caller vouches for the hash. `durable`: the name and the bytes outlive a power failure.
        """

    @abstractmethod
    def exists(self, sha256: str) -> bool: ...

    @abstractmethod
    def local(self, sha256: str, *, verify: bool = True) -> Path:
        """A file of this machine. Raises `Conflict` ("corrupt_artifact") if it is missing or, verifying, damaged."""

    def check_stored(self, sha256: str) -> None:
        """Read the stored bytes anew and compare. Raises `Conflict` ("corrupt_artifact")."""
        self.local(sha256)

    @abstractmethod
    def delete(self, sha256: str) -> None:
        """Deleting what is not there is fine."""

    @abstractmethod
    def names(self, first_digits: str) -> Iterator[tuple[str, float]]:
        """SHA-256 and time of writing (Unix seconds) of all that start with these two hexadecimal digits."""

    def redirect(self, sha256: str, disposition: str, seconds: int) -> str | None:
        """An address that serves the bytes for some seconds without this server, where there is such a thing."""
        return None

    # --- Slices of uploads ---

    @abstractmethod
    def put_slice(self, upload: UUID, offset: int, temporary: Path) -> None:
        """Takes the file away. A slice of the same offset is replaced."""

    @abstractmethod
    def open_slice(self, upload: UUID, offset: int) -> BinaryIO:
        """Raises FileNotFoundError."""

    @abstractmethod
    def delete_slices(self, upload: UUID) -> None: ...

    @abstractmethod
    def uploads(self) -> Iterator[UUID]:
        """The uploads that have slices."""

    # --- On this machine's disk ---

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """An empty file on the store's own file system, gone at the end."""
        descriptor, name = tempfile.mkstemp(dir=self._temporary)
        os.close(descriptor)
        path = Path(name)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def body_file(self, sha256: str, body: bytes) -> Path:
        """The body of a row as a file, for programs that need a path."""
        path = self._bodies / sha256
        if self.verified.is_whole(path, sha256):
            os.utime(path)
            return path
        with self.temporary() as temporary:
            temporary.write_bytes(body)
            os.replace(temporary, path)
        return path

    def check_writable(self) -> None:
        """Raises `OSError`, `Unavailable` or `StorageFull` when nothing can be put here now. Cheap, but not free."""
        with self.temporary() as path:
            path.write_bytes(b"x")

    def check_space(self, size: int, floor: float) -> None:
        """Raises `StorageFull` if `size` more bytes would leave less than the fraction `floor` of the disk free."""
        usage = shutil.disk_usage(self.folder)
        if usage.free - size < usage.total * floor:
            raise StorageFull(
                f"The server's disk must keep {floor:.0%} free; {size} more bytes would leave less. "
                "Try again when there is room."
            )

    def sweep(self, temporary_seconds: float, body_seconds: float) -> int:
        """Delete the temporary files and the copies of bodies that nobody touched for so long; says how many."""
        swept = 0
        for folder, seconds in ((self._temporary, temporary_seconds), (self._bodies, body_seconds)):
            oldest = time.time() - seconds
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime < oldest:
                        os.unlink(entry.path)
                        swept += 1
        return swept


def fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
