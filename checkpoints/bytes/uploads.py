"""Uploads by tus 1.0. Whatever can be refused is refused before the first byte of the body is read.

Three ways in, by size: up to 16 KiB from memory into the database, in the transaction that accepts the update; one
request for everything up to a slice, into a file that then only gets its name; more in slices, joined at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone
from starlette.types import Send

from checkpoints.bytes import tus
from checkpoints.bytes.auth import has_session, has_token, peer_of, user_of
from checkpoints.bytes.body import Body
from checkpoints.bytes.http import ClientGone, Request, RequestTimeout, send_empty, send_json
from checkpoints.bytes.limits import Superseded, Turns, UploadSlots
from checkpoints.bytes.threads import in_database, in_files, on_disk
from checkpoints.models import Artifact, Upload
from checkpoints.services.artifacts import INLINE_BYTES, NewArtifact, artifact_put_file
from checkpoints.services.uploads import (
    Declared,
    Digest,
    check_room,
    upload_advance,
    upload_create,
    upload_declared,
    upload_discard,
    upload_find,
    upload_finish,
    upload_joined,
    upload_keep_slice,
    upload_note_done,
)
from checkpoints.store import store
from jobs.services.updates import update_accept, update_precheck, update_refused
from weei_core.errors import Conflict, Invalid, NotFound, WeeiError

if TYPE_CHECKING:
    from peers.models import Peer

SMALLEST_KEPT_SLICE = 64 * 1024
"""Less than that of a cut body is sent again: every slice is an object of the store."""


@dataclass(frozen=True)
class Sender:
    """Exactly one of the two."""

    peer: Peer | None = None
    owner_id: int | None = None

    @property
    def peer_id(self) -> UUID | None:
        return self.peer.pk if self.peer else None


class Uploads:
    def __init__(self) -> None:
        self._slots = UploadSlots()
        self._turns = Turns()

    async def options(self, send: Send) -> None:
        await send_empty(send, 204, tus.OPTIONS)

    async def create(self, request: Request, send: Send) -> None:
        tus.check_version(request)
        declared = tus.declared(request)
        length = tus.body_length(request, declared.length)
        sender, known = await in_database(_admit, request, declared)
        if known:
            await _created(send, declared, UUID(int=0), declared.length, duplicate=True)
            return
        if length == 0:
            upload = await in_database(_begin, declared, sender)
            await _created(send, declared, upload.pk, 0, duplicate=None)
            return
        with self._slots.take(sender):
            body = Body(request.receive, length)
            if length < declared.length:
                upload = await in_database(_begin, declared, sender)
                await self._first_slice(upload, body)
                await _created(send, declared, upload.pk, length, duplicate=None)
                return
            upload_id, duplicate = await _receive_whole(declared, sender, body)
        await _created(send, declared, upload_id, length, duplicate=duplicate)

    async def _first_slice(self, upload: Upload, body: Body) -> None:
        try:
            with store().temporary() as path:
                await body.into(path)
                await _keep(upload, path, body.received)
        except (ClientGone, RequestTimeout):
            # Its sender never heard where it lies.
            await in_database(upload_discard, upload)
            raise

    async def head(self, request: Request, send: Send, upload_id: UUID) -> None:
        tus.check_version(request)
        upload, _ = await in_database(_find, request, upload_id)
        await send_empty(
            send, 200, (*tus.TUS, ("Upload-Offset", str(upload.offset)), ("Upload-Length", str(upload.length)))
        )

    async def patch(self, request: Request, send: Send, upload_id: UUID) -> None:
        tus.check_version(request)
        offset = tus.number(request, "Upload-Offset")
        upload, sender = await in_database(_find, request, upload_id)
        if offset != upload.offset:
            # No problem details, which are final: the sender asks for the offset and goes on there.
            await send_empty(send, 409, (*tus.TUS, ("Upload-Offset", str(upload.offset)), ("Content-Length", "0")))
            return
        length = tus.body_length(request, upload.length - upload.offset)
        if upload.done or length == 0 or await in_database(_known, upload, sender):
            await _patched(send, upload.length if length else upload.offset, duplicate=upload.done or length > 0)
            return
        with self._slots.take(sender):
            try:
                duplicate = await self._receive_slice(upload, sender, Body(request.receive, length), length)
            except Superseded:
                await send_empty(send, 409, (*tus.TUS, ("Content-Length", "0")))
                return
        await _patched(send, offset + length, duplicate=duplicate)

    async def _receive_slice(self, upload: Upload, sender: Sender, body: Body, length: int) -> bool:
        declared = upload_declared(upload)
        if length == upload.length:
            _, duplicate = await self._turns.run(upload.pk, _receive_whole(declared, sender, body, upload))
            return duplicate
        last = upload.offset + length == upload.length
        await self._turns.run(upload.pk, _slice_into_store(upload, body, advance=not last))
        return last and await _complete(declared, sender, upload)


def _admit(request: Request, declared: Declared) -> tuple[Sender, bool]:
    """Who sends, and whether the server has the update already. Raises for all that cannot be accepted."""
    if not declared.is_update:
        owner_id = user_of(request).pk
        check_room(declared.length, owner_id)
        return Sender(owner_id=owner_id), False
    sender = Sender(peer_of(request))
    known = _precheck(declared, sender)
    if not known:
        check_room(declared.length, None)
    return sender, known


def _precheck(declared: Declared, sender: Sender) -> bool:
    assert sender.peer is not None and declared.attempt_id is not None
    answer = update_precheck(
        peer=sender.peer, attempt_id=declared.attempt_id, length=declared.length, sha256=declared.sha256
    )
    return answer == "duplicate"


def _begin(declared: Declared, sender: Sender) -> Upload:
    return upload_create(declared, owner_id=sender.owner_id, peer_id=sender.peer_id, now=timezone.now())


def _find(request: Request, upload_id: UUID) -> tuple[Upload, Sender]:
    """The upload, if it is the asker's. A browser that both trains and coordinates may send token and cookie."""
    senders = [Sender(peer_of(request))] if has_token(request) else []
    if not senders or has_session(request):
        senders.append(Sender(owner_id=user_of(request).pk))
    for sender in senders:
        upload = upload_find(upload_id, owner_id=sender.owner_id, peer_id=sender.peer_id)
        if upload is not None:
            return upload, sender
    raise NotFound("There is no such upload of yours; begin it anew.", field="upload")


def _known(upload: Upload, sender: Sender) -> bool:
    """Ask again before each slice: the attempt may be over, and then its slices are of no use."""
    if upload.kind != Upload.Kind.UPDATE:
        return False
    try:
        return _precheck(upload_declared(upload), sender)
    except Conflict:
        upload_discard(upload)
        raise


async def _receive_whole(
    declared: Declared, sender: Sender, body: Body, upload: Upload | None = None
) -> tuple[UUID, bool]:
    """All the bytes in one request. Answers with the upload's id and whether they were accepted before."""
    digest = Digest(floats=declared.is_update)
    if declared.is_update and declared.length <= INLINE_BYTES:
        data = await body.all()
        digest.update(data)
        duplicate = await in_database(_accept, declared, sender, digest, NewArtifact(declared.sha256, data))
    else:
        with store().temporary() as path:
            await body.into(path, digest)
            duplicate = await in_files(_accept_file, declared, sender, digest, path)
    if upload is None and declared.is_update:
        return UUID(int=0), duplicate
    return await in_database(_note_done, declared, sender, upload), duplicate


def _note_done(declared: Declared, sender: Sender, upload: Upload | None) -> UUID:
    if upload is not None:
        upload_finish(upload, timezone.now())
        return upload.pk
    assert sender.owner_id is not None
    return upload_note_done(declared, owner_id=sender.owner_id, now=timezone.now()).pk


def _accept_file(declared: Declared, sender: Sender, digest: Digest | None, path: Path) -> bool:
    """Name the file by its hash, then let it count. Updates are not synced: they can be computed again."""
    _check(declared, sender, digest)
    durable = not declared.is_update
    artifact = artifact_put_file(path, declared.sha256, declared.length, timezone.now(), durable=durable)
    return _accept(declared, sender, None, artifact)


def _accept(declared: Declared, sender: Sender, digest: Digest | None, artifact: Artifact | NewArtifact) -> bool:
    _check(declared, sender, digest)
    if not declared.is_update:
        return False
    assert sender.peer is not None and declared.attempt_id is not None
    return update_accept(
        peer=sender.peer, attempt_id=declared.attempt_id, artifact=artifact, report_text=declared.report_text
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


async def _slice_into_store(upload: Upload, body: Body, *, advance: bool) -> None:
    """The last slice does not move the offset: a crash before the end of the whole leaves it to be sent again."""
    with store().temporary() as path:
        try:
            await body.into(path)
        except (ClientGone, RequestTimeout):
            if body.received >= SMALLEST_KEPT_SLICE:
                await _keep(upload, path, body.received)
            raise
        if advance:
            await _keep(upload, path, body.received)
        else:
            await on_disk(upload_keep_slice, upload, path)


async def _keep(upload: Upload, path: Path, size: int) -> None:
    await on_disk(upload_keep_slice, upload, path)
    await in_database(upload_advance, upload, size, timezone.now())


async def _complete(declared: Declared, sender: Sender, upload: Upload) -> bool:
    return await in_files(_join, declared, sender, upload)


def _join(declared: Declared, sender: Sender, upload: Upload) -> bool:
    try:
        with upload_joined(upload) as path:
            duplicate = _accept_file(declared, sender, None, path)
    except WeeiError as error:
        _refuse(declared, sender, error)
        if error.status < 500:
            # These slices can never be accepted.
            upload_discard(upload)
        raise
    upload_finish(upload, timezone.now())
    return duplicate


async def _created(send: Send, declared: Declared, upload_id: UUID, offset: int, *, duplicate: bool | None) -> None:
    """201. `duplicate` is None while bytes are missing. Clients of tus want a Location even for what is complete."""
    headers = [*tus.TUS, ("Location", f"/bytes/uploads/{upload_id}"), ("Upload-Offset", str(offset))]
    if duplicate is None:
        await send_empty(send, 201, (*headers, ("Content-Length", "0")))
        return
    if duplicate:
        headers.append(("Weei-Duplicate", "true"))
    body = {"sha256": declared.sha256, "bytes": declared.length, "duplicate": duplicate}
    await send_json(send, 201, body, headers)


async def _patched(send: Send, offset: int, *, duplicate: bool) -> None:
    extra = (("Weei-Duplicate", "true"),) if duplicate else ()
    await send_empty(send, 204, (*tus.TUS, ("Upload-Offset", str(offset)), *extra))
