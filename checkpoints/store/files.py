"""Artifacts as files of a folder: `sha256/ab/ab12…`, slices as `uploads/<id>/<offset>`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from checkpoints.store.base import ArtifactStore, fsync_path
from checkpoints.store.verified import corrupt


class FileStore(ArtifactStore):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._artifacts = folder / "sha256"
        self._uploads = folder / "uploads"
        for made in (self._artifacts, self._uploads):
            made.mkdir(exist_ok=True)

    def _path(self, sha256: str) -> Path:
        return self._artifacts / sha256[:2] / sha256

    def put(self, temporary: Path, sha256: str, *, durable: bool = True) -> None:
        path = self._path(sha256)
        self.verified.vouch(temporary, sha256)
        if durable:
            fsync_path(temporary)
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            fsync_path(self._artifacts)
        try:
            os.link(temporary, path)
        except FileExistsError:
            self._put_again(temporary, path, durable=durable)
        if durable:
            fsync_path(path.parent)

    def _put_again(self, temporary: Path, path: Path, *, durable: bool) -> None:
        """A file that may not be on the disk yet, or is damaged, makes way; a good one only becomes young again."""
        if not durable and self.verified.is_whole(path, path.name):
            os.utime(path)
            return
        second = temporary.with_name(temporary.name + ".link")
        os.link(temporary, second)
        os.replace(second, path)
        # Renaming one of two names of the same file to the other does nothing.
        second.unlink(missing_ok=True)

    def exists(self, sha256: str) -> bool:
        return self._path(sha256).exists()

    def local(self, sha256: str, *, verify: bool = True) -> Path:
        path = self._path(sha256)
        if verify:
            self.verified.check(path, sha256)
        elif not path.exists():
            raise corrupt(sha256, "is missing")
        return path

    def delete(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)

    def names(self, first_digits: str) -> Iterator[tuple[str, float]]:
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._artifacts / first_digits):
                with suppress(FileNotFoundError):
                    yield entry.name, entry.stat().st_mtime

    def put_slice(self, upload: UUID, offset: int, temporary: Path) -> None:
        folder = self._uploads / str(upload)
        folder.mkdir(exist_ok=True)
        os.replace(temporary, folder / str(offset))

    def open_slice(self, upload: UUID, offset: int) -> BinaryIO:
        return (self._uploads / str(upload) / str(offset)).open("rb")

    def delete_slices(self, upload: UUID) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._uploads / str(upload))

    def uploads(self) -> Iterator[UUID]:
        for entry in os.scandir(self._uploads):
            yield UUID(entry.name)
