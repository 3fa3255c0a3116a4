"""The blocking half of uploads: who may send, and what becomes of the bytes that came. All functions block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone

from checkpoints.bytes.auth import has_peer, has_person, peer_of, user_of
from checkpoints.bytes.http import Request
from checkpoints.models import Artifact, Upload
from checkpoints.services.artifacts import NewArtifact, artifact_put_file
from checkpoints.services.uploads import (
    Declared,
    Digest,
    check_room,
    upload_create,
    upload_declared,
    upload_discard,
    upload_find,
    upload_finish,
    upload_joined,
    upload_note_done,
)
from jobs.services.updates import update_accept, update_precheck, update_refused
from weei_core.errors import Conflict, Invalid, NotFound, WeeiError

if TYPE_CHECKING:
    from jobs.models import Attempt
    from peers.models import Peer


@dataclass(frozen=True)
class Sender:
    """Exactly one of the first two."""

    peer: Peer | None = None
    owner_id: int | None = None
    began: datetime = field(default_factory=timezone.now, compare=False)
    """When the first byte of the upload was announced."""
    attempt: Attempt | None = field(default=None, compare=False)
    """The live attempt that an update is of, if that was asked already."""

    @property
    def peer_id(self) -> UUID | None:
        return self.peer.pk if self.peer else None


def admit(request: Request, declared: Declared) -> tuple[Sender, bool]:
    """Who sends, and whether the server has the update already. Raises for all that cannot be accepted."""
    if not declared.is_update:
        owner_id = user_of(request).pk
        check_room(declared.length, owner_id)
        return Sender(owner_id=owner_id), False
    sender = Sender(peer_of(request))
    attempt = _precheck(declared, sender)
    if attempt is None:
        return sender, True
    check_room(declared.length, None)
    return replace(sender, attempt=attempt), False


def _precheck(declared: Declared, sender: Sender) -> Attempt | None:
    """The live attempt; None if the update was accepted before."""
    assert sender.peer is not None and declared.attempt_id is not None
    return update_precheck(
        peer=sender.peer, attempt_id=declared.attempt_id, length=declared.length, sha256=declared.sha256
    )


def begin(declared: Declared, sender: Sender) -> Upload:
    return upload_create(declared, owner_id=sender.owner_id, peer_id=sender.peer_id, now=timezone.now())


def find(request: Request, upload_id: UUID) -> tuple[Upload, Sender]:
    for sender in _senders(request):
        upload = upload_find(upload_id, owner_id=sender.owner_id, peer_id=sender.peer_id)
        if upload is not None:
            return upload, replace(sender, began=upload.created)
    raise NotFound("There is no such upload of yours; begin it anew.", field="upload")


def _senders(request: Request) -> Iterator[Sender]:
    """A browser that both trains and coordinates may say who it is as both."""
    if has_peer(request):
        yield Sender(peer_of(request))
    if has_person(request) or not has_peer(request):
        yield Sender(owner_id=user_of(request).pk)


def is_known(upload: Upload, sender: Sender) -> bool:
    """Ask again before each slice: the attempt may be over, and then its slices are of no use."""
    if upload.kind != Upload.Kind.UPDATE:
        return False
    try:
        return _precheck(upload_declared(upload), sender) is None
    except Conflict:
        upload_discard(upload)
        raise


def note_done(declared: Declared, sender: Sender, upload: Upload | None) -> UUID:
    if upload is not None:
        upload_finish(upload, timezone.now())
        return upload.pk
    assert sender.owner_id is not None
    return upload_note_done(declared, owner_id=sender.owner_id, now=timezone.now()).pk


def accept_file(declared: Declared, sender: Sender, digest: Digest | None, path: Path) -> bool:
    """Name the file by its hash, then let it count. Updates are not synced: they can be computed again."""
    _check(declared, sender, digest)
    durable = not declared.is_update
    artifact = artifact_put_file(path, declared.sha256, declared.length, timezone.now(), durable=durable)
    return accept(declared, sender, None, artifact)


def accept(declared: Declared, sender: Sender, digest: Digest | None, artifact: Artifact | NewArtifact) -> bool:
    _check(declared, sender, digest)
    if not declared.is_update:
        return False
    assert sender.peer is not None and declared.attempt_id is not None
    return update_accept(
        peer=sender.peer,
        attempt_id=declared.attempt_id,
        artifact=artifact,
        report_text=declared.report_text,
        uploading_at=sender.began,
        prechecked=sender.attempt,
    )


def _check(declared: Declared, sender: Sender, digest: Digest | None) -> None:
    """`digest` is None where the bytes have been checked. Values that are not finite end the attempt."""
    if digest is None:
        return
    try:
        digest.check(declared)
    except Invalid as error:
        _refuse(declared, sender, error)
        raise


def _refuse(declared: Declared, sender: Sender, error: WeeiError) -> None:
    if error.code == "non_finite" and sender.peer is not None and declared.attempt_id is not None:
        update_refused(peer=sender.peer, attempt_id=declared.attempt_id, error=error)


def join(declared: Declared, sender: Sender, upload: Upload) -> bool:
    try:
        with upload_joined(upload) as path:
            duplicate = accept_file(declared, sender, None, path)
    except WeeiError as error:
        _refuse(declared, sender, error)
        if error.status < 500:
            # These slices can never be accepted.
            upload_discard(upload)
        raise
    upload_finish(upload, timezone.now())
    return duplicate
