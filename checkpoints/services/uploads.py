"""Uploads that take more than one request: their rows, their slices, and joining them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from checkpoints.models import Upload
from checkpoints.selectors.storage import storage_used
from checkpoints.services.rows import only_row
from checkpoints.store import store
from weei_core.errors import Invalid, TooLarge
from weei_core.weights import FLOAT_BYTES, first_non_finite

BLOCK_BYTES = 1024 * 1024
MAX_FILE_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Declared:
    """What the sender says before the bytes come. `attempt_id` and `report_text` belong to updates."""

    kind: str
    length: int
    sha256: str
    file_name: str = ""
    attempt_id: uuid.UUID | None = None
    report_text: str = ""

    @property
    def is_update(self) -> bool:
        return self.kind == Upload.Kind.UPDATE


class Digest:
    """Hashes bytes as they pass, and looks for a float that is not finite. Blocks may be cut anywhere."""

    def __init__(self, *, floats: bool) -> None:
        self._hash = hashlib.sha256()
        self._floats = floats
        self._rest = b""
        self._non_finite = False
        self.size = 0

    def update(self, block: bytes | bytearray | memoryview) -> None:
        self._hash.update(block)
        self.size += len(block)
        if self._floats and not self._non_finite:
            joined = self._rest + block if self._rest else memoryview(block)
            whole = len(joined) // FLOAT_BYTES * FLOAT_BYTES
            self._non_finite = first_non_finite(joined[:whole]) is not None
            self._rest = bytes(joined[whole:])

    def check(self, declared: Declared) -> None:
        """Raises `Invalid`: "hash_mismatch" (what came is not what was sent) before "non_finite" (it was sent so)."""
        found = self._hash.hexdigest()
        if found != declared.sha256:
            raise Invalid(
                f"The bytes that came have the SHA-256 {found}, not {declared.sha256} as declared; send them again.",
                field="sha256",
                code="hash_mismatch",
            )
        if self._non_finite or self._rest:
            raise Invalid(
                "The update must hold finite float32 values only; it holds NaN, an infinity or a part of a value.",
                field="weights",
                code="non_finite",
            )


def check_room(length: int, owner_id: int | None) -> None:
    """Raises `StorageFull` (the disk's floor) or `TooLarge` (the person's quota)."""
    store().check_space(length, settings.MIN_FREE_FRACTION)
    if owner_id is None:
        return
    if length > MAX_FILE_BYTES:
        raise TooLarge(f"A file may have at most {MAX_FILE_BYTES} bytes; this one has {length}.", field="Upload-Length")
    used = storage_used(owner_id)
    if used + length > settings.UPLOAD_QUOTA_BYTES:
        raise TooLarge(
            f"Your files may have {settings.UPLOAD_QUOTA_BYTES} bytes together; "
            f"they have {used}, and this one would add {length}.",
            field="Upload-Length",
        )


def upload_create(
    declared: Declared, *, owner_id: int | None = None, peer_id: uuid.UUID | None = None, now: datetime
) -> Upload:
    """A row to send slices to. An attempt has one at a time: what was begun before makes way."""
    if peer_id is not None:
        for before in list(Upload.objects.filter(peer_id=peer_id, attempt_id=declared.attempt_id)):
            upload_discard(before)
    return Upload.objects.create(
        kind=declared.kind,
        owner_id=owner_id,
        peer_id=peer_id,
        attempt_id=declared.attempt_id,
        report_text=declared.report_text,
        file_name=declared.file_name,
        sha256=declared.sha256,
        length=declared.length,
        touched=now,
    )


def upload_note_done(declared: Declared, *, owner_id: int, now: datetime) -> Upload:
    """Remember a file that came in one request as this person's, as `held_hashes` and the collector need it."""
    with transaction.atomic():
        upload = upload_create(declared, owner_id=owner_id, now=now)
        upload_finish(upload, now)
    return upload


def upload_find(
    upload_id: uuid.UUID, *, owner_id: int | None = None, peer_id: uuid.UUID | None = None
) -> Upload | None:
    """The upload, if it is this sender's."""
    mine = Q(owner_id=owner_id) if peer_id is None else Q(peer_id=peer_id)
    return only_row(Upload.objects.filter(mine, pk=upload_id))


def upload_declared(upload: Upload) -> Declared:
    return Declared(upload.kind, upload.length, upload.sha256, upload.file_name, upload.attempt_id, upload.report_text)


def upload_keep_slice(upload: Upload, slice_file: Path) -> None:
    store().put_slice(upload.pk, upload.offset, slice_file)


def upload_advance(upload: Upload, size: int, now: datetime) -> bool:
    """Move the offset over a slice that was kept. False: another request has moved it meanwhile."""
    moved = Upload.objects.filter(pk=upload.pk, offset=upload.offset, done=False).update(
        offset=upload.offset + size, touched=now
    )
    upload.offset += size
    return moved == 1


def upload_finish(upload: Upload, now: datetime) -> None:
    """The bytes are an artifact now. The row stays for a while, for a sender that did not hear the answer."""
    Upload.objects.filter(pk=upload.pk).update(offset=upload.length, done=True, touched=now)
    upload.offset, upload.done = upload.length, True
    store().delete_slices(upload.pk)


def upload_discard(upload: Upload) -> None:
    Upload.objects.filter(pk=upload.pk).delete()
    store().delete_slices(upload.pk)


@contextmanager
def upload_joined(upload: Upload) -> Iterator[Path]:
    """All slices as one temporary file, hashed and checked as it is written."""
    declared = upload_declared(upload)
    digest = Digest(floats=declared.is_update)
    with store().temporary() as path:
        with path.open("wb") as joined:
            while digest.size < upload.length:
                if not _append_slice(upload, joined, digest):
                    break
        digest.check(declared)
        yield path


def _append_slice(upload: Upload, joined: BinaryIO, digest: Digest) -> bool:
    """False: the slice is missing or empty; the hash will say so."""
    start = digest.size
    try:
        with store().open_slice(upload.pk, start) as piece:
            while block := piece.read(BLOCK_BYTES):
                joined.write(block)
                digest.update(block)
    except FileNotFoundError:
        return False
    return digest.size > start
