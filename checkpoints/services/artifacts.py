"""Artifacts: putting bytes into the store and reading them back, verified.

Up to 16 KiB lie in the row itself; the rest in the store. Order of a durable write: temporary file, fsync, name,
fsync of the folder, row. So a row never names a file that is not there, and a file without a row is the collector's.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from django.db import transaction
from django.utils import timezone

from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.rows import only_row
from checkpoints.store import store
from checkpoints.store.verified import corrupt
from weei_core.errors import Conflict, NotFound, TooLarge
from weei_core.protocol import INLINE_WEIGHT_BYTES
from weei_core.weights import BytesSource, FileSource, Source

if TYPE_CHECKING:
    from jobs.models import Job

INLINE_BYTES = INLINE_WEIGHT_BYTES
"""What is at most so long lies in its row, and can ride in a message."""
SYNC_SECONDS = 0.02
"""How long a disk may rest while a large file is written; most merges are over before."""


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """Small bytes, hashed, that are not in the database yet: `artifact_insert` writes them with what refers to them."""

    sha256: str
    body: bytes

    @property
    def bytes(self) -> int:
        return len(self.body)


def artifact_insert(new: NewArtifact, now: datetime) -> Artifact:
    """One statement, in the caller's transaction or by itself."""
    return _upsert(Artifact(sha256=new.sha256, bytes=new.bytes, body=new.body, touched=now))


def artifact_put_bytes(data: bytes, now: datetime) -> Artifact:
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) <= INLINE_BYTES:
        return artifact_insert(NewArtifact(sha256, data), now)
    with store().temporary() as path:
        path.write_bytes(data)
        return artifact_put_file(path, sha256, len(data), now)


def artifact_put_file(path: Path, sha256: str, size: int, now: datetime, *, durable: bool = True) -> Artifact:
    """Take a finished file of `store().temporary()` over. The caller hashed it while writing.

    `durable=False` is for updates: they can be computed again, and a merge verifies them.
    """
    if size <= INLINE_BYTES:
        return artifact_insert(NewArtifact(sha256, path.read_bytes()), now)
    storage = store()
    storage.put(path, sha256, durable=durable)
    with transaction.atomic():
        artifact = _upsert(Artifact(sha256=sha256, bytes=size, touched=now))
        # The collector deletes a file only while it holds the row, and it may have done so a moment ago.
        if not storage.exists(sha256):
            storage.put(path, sha256, durable=durable)
    return artifact


def _upsert(artifact: Artifact) -> Artifact:
    """A row that is about to be deleted comes back: the collector asks again before it deletes."""
    Artifact.objects.bulk_create(
        [artifact],
        update_conflicts=True,
        unique_fields=["sha256"],
        update_fields=["bytes", "state", "body", "touched"],
    )
    return artifact


class NewFile:
    """A file being written; nothing sees it before `commit`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file

    def commit(self, sha256: str, now: datetime, *, durable: bool = True) -> Artifact:
        """Name the bytes written so far by their hash, which the caller computed while writing."""
        self.file.flush()
        return artifact_put_file(self.path, sha256, os.fstat(self.file.fileno()).st_size, now, durable=durable)


@contextmanager
def artifact_new_file() -> Iterator[NewFile]:
    """A temporary file on the store's file system, gone at the end whether it was committed or not."""
    with store().temporary() as path, path.open("w+b") as file:
        yield NewFile(path, file)


@contextmanager
def synced_meanwhile(*files: NewFile) -> Iterator[None]:
    """While the block writes to the files, let the disk write too: at the end little is left to wait for."""
    done = threading.Event()
    failed: list[OSError] = []

    def work() -> None:
        try:
            while not done.wait(SYNC_SECONDS):
                for file in files:
                    os.fdatasync(file.file.fileno())
        except OSError as error:
            # The kernel tells of a failed write once, so that the last sync would not hear of it.
            failed.append(error)

    thread = threading.Thread(target=work, name="sync")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if failed:
        raise failed[0]


def artifact_get(sha256: str) -> Artifact:
    artifact = only_row(Artifact.objects.filter(sha256=sha256, state=Artifact.State.PRESENT))
    if artifact is None:
        raise NotFound(f"There is no artifact {sha256}.", field="sha256")
    return artifact


def artifacts_get(sha256s: Collection[str]) -> dict[str, Artifact]:
    """Those that are there, by name; of the others nothing is said."""
    return {
        artifact.sha256: artifact
        for artifact in Artifact.objects.filter(sha256__in=sha256s, state=Artifact.State.PRESENT)
    }


def artifact_body(artifact: Artifact) -> bytes | None:
    """The verified bytes of a row that holds its own, else None."""
    if artifact.body is None:
        return None
    body = bytes(artifact.body)
    if hashlib.sha256(body).hexdigest() != artifact.sha256:
        raise corrupt(artifact.sha256, "does not have the bytes that it is named by")
    return body


class OpenSource(FileSource):
    """A `FileSource` that owns its descriptor: closed by `close`, or with the last reference."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        self.close = weakref.finalize(self, os.close, descriptor)
        super().__init__(descriptor)


def artifact_source(sha256: str, *, verify: bool = True) -> Source:
    """The verified bytes, readable at any offset. Raises `NotFound`, or `Conflict` ("corrupt_artifact").

    `verify=False` is for readers that hash what they read themselves.
    """
    return source_of(artifact_get(sha256), verify=verify)


def source_of(artifact: Artifact, *, verify: bool = True) -> Source:
    """As `artifact_source`, without asking the database."""
    body = artifact_body(artifact)
    return OpenSource(store().local(artifact.sha256, verify=verify)) if body is None else BytesSource(body)


def artifact_path(sha256: str) -> Path:
    """A verified file of this machine; it is not the caller's to change. Errors as `artifact_source`."""
    body = artifact_body(artifact_get(sha256))
    return store().local(sha256) if body is None else store().body_file(sha256, body)


def artifact_bytes(sha256: str, limit: int) -> bytes:
    """The verified bytes in memory; raises `TooLarge` if there are more than `limit`."""
    artifact = artifact_get(sha256)
    if artifact.bytes > limit:
        raise TooLarge(f"The artifact {sha256} has {artifact.bytes} bytes; at most {limit} are read at once.")
    body = artifact_body(artifact)
    return store().local(sha256).read_bytes() if body is None else body


def artifact_reference(sha256: str, now: datetime) -> None:
    """Say, in the transaction that adds a reference, that the artifact is in use: from now on it is not collected.

    Raises `Conflict` ("artifact_gone") when it is not there any more; it must be uploaded again.
    """
    if Artifact.objects.filter(sha256=sha256, state=Artifact.State.PRESENT).update(touched=now) == 0:
        raise Conflict(
            f"The file {sha256} is not stored any more; upload it again.", field="sha256", code="artifact_gone"
        )


def job_artifact_add(job: Job, sha256: str, kind: str, file_name: str = "", *, now: datetime | None = None) -> None:
    """Let the job refer to the artifact. Said twice it changes nothing. Raises as `artifact_reference`."""
    with transaction.atomic():
        artifact_reference(sha256, now or timezone.now())
        job_artifact_use(job, sha256, kind, file_name)


def job_artifact_use(job: Job, sha256: str, kind: str, file_name: str = "") -> None:
    """The same for an artifact that this transaction has just written, and so holds."""
    use = JobArtifact(job=job, artifact_id=sha256, kind=kind, file_name=file_name)
    JobArtifact.objects.bulk_create([use], ignore_conflicts=True)
