"""Frees what nothing refers to any more. Everything here may be killed at any line and run again.

An artifact goes in two steps: marked `deleting` by a statement that looks at its own row's `touched` (so a reference
made meanwhile wins), then deleted with its bytes while the row is locked (so bytes put meanwhile are put again).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from checkpoints.models import Artifact, Upload
from checkpoints.store import ArtifactStore, store

logger = logging.getLogger(__name__)

UNTOUCHED = timedelta(hours=1)
UPDATE_KEPT = timedelta(minutes=10)
FILE_KEPT = timedelta(hours=24)
TEMPORARY_KEPT = timedelta(minutes=10)
BODY_FILE_KEPT = timedelta(hours=24)
BATCH = 1000
"""Artifacts that one run deletes at most; the next run goes on."""
FOLDERS_PER_RUN = 16
"""Of 256, drawn anew each time: a run looks for files without a row in these only, so that it stays short."""


@dataclass(frozen=True)
class Collected:
    artifacts: int
    uploads: int
    temporary: int


def collect(now: datetime) -> Collected:
    storage = store()
    uploads = _collect_uploads(storage, now)
    for folder in random.sample(range(256), FOLDERS_PER_RUN):
        _mark_orphans(storage, f"{folder:02x}", now)
    _mark(now)
    found = Artifact.objects.filter(state=Artifact.State.DELETING).values_list("sha256", flat=True)[:BATCH]
    artifacts = sum(_delete(storage, sha256) for sha256 in list(found))
    collected = Collected(
        artifacts, uploads, storage.sweep(TEMPORARY_KEPT.total_seconds(), BODY_FILE_KEPT.total_seconds())
    )
    if any((collected.artifacts, collected.uploads, collected.temporary)):
        logger.info("Collected %s.", collected)
    return collected


def _unreferenced() -> Q:
    """No row of any table with a foreign key to artifacts names it, nor a finished upload that a job may yet use."""
    nobody = ~Q(Exists(Upload.objects.filter(sha256=OuterRef("pk"), kind=Upload.Kind.FILE, done=True)))
    for relation in Artifact._meta.get_fields(include_hidden=True):
        if relation.one_to_many and relation.auto_created:
            rows = relation.related_model._default_manager  # type: ignore[union-attr]
            nobody &= ~Q(Exists(rows.filter(**{relation.field.name: OuterRef("pk")})))  # type: ignore[union-attr]
    return nobody


def _mark(now: datetime) -> None:
    old = Artifact.objects.filter(state=Artifact.State.PRESENT, touched__lt=now - UNTOUCHED)
    found = list(old.filter(_unreferenced()).values_list("sha256", flat=True)[:BATCH])
    # `old` again: a reference made since the search has touched its row.
    old.filter(_unreferenced(), sha256__in=found).update(state=Artifact.State.DELETING)


def _mark_orphans(storage: ArtifactStore, folder: str, now: datetime) -> None:
    """A file without a row, left by a crash between the two, gets one in state `deleting` and goes the usual way."""
    oldest = (now - UNTOUCHED).timestamp()
    names = (name for name, written in storage.names(folder) if written < oldest)
    while batch := list(islice(names, BATCH)):
        known = set(Artifact.objects.filter(sha256__in=batch).values_list("sha256", flat=True))
        _insert_deleting((name for name in batch if name not in known), now)


def _insert_deleting(names: Iterable[str], now: datetime) -> None:
    rows = [Artifact(sha256=name, bytes=0, state=Artifact.State.DELETING, touched=now) for name in names]
    # A row that appeared meanwhile stays as it is.
    Artifact.objects.bulk_create(rows, ignore_conflicts=True)


def _delete(storage: ArtifactStore, sha256: str) -> bool:
    with transaction.atomic():
        row = Artifact.objects.filter(sha256=sha256, state=Artifact.State.DELETING)
        if row.filter(_unreferenced()).select_for_update().first() is None:
            return False
        row.delete()
        # Before the commit: whoever puts the same bytes waits for this row, and then finds that they are gone.
        storage.delete(sha256)
    return True


def _collect_uploads(storage: ArtifactStore, now: datetime) -> int:
    """Uploads that nobody goes on with, and slices whose row is gone."""
    stale = Q(kind=Upload.Kind.UPDATE, touched__lt=now - UPDATE_KEPT) | Q(
        kind=Upload.Kind.FILE, touched__lt=now - FILE_KEPT
    )
    gone = list(Upload.objects.filter(stale).values_list("id", flat=True)[:BATCH])
    count = Upload.objects.filter(stale, id__in=gone).delete()[0]
    # The folders first, the rows after: an upload has its row before its first slice.
    folders = set(storage.uploads())
    for upload in folders - set(Upload.objects.filter(done=False).values_list("id", flat=True)):
        storage.delete_slices(upload)
    return count
