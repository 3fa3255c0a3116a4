"""Uploads by tus 1.0. Whatever can be refused is refused before the first byte of the body is read.

Three ways in, by size: up to 16 KiB from memory into the database, in the transaction that accepts the update; one
request for everything up to a slice, into a file that then only gets its name; more in slices, joined at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from django.utils import timezone
from starlette.types import Send

from checkpoints.bytes import tus
from checkpoints.bytes.accepting import Sender, accept, accept_file, admit, begin, find, is_known, join, note_done
from checkpoints.bytes.body import CUT, Body
from checkpoints.bytes.http import NO_ROOM, Request, send_empty, send_json
from checkpoints.bytes.limits import Turns, UploadSlots
from checkpoints.bytes.threads import in_database, in_files, on_disk
from checkpoints.models import Upload
from checkpoints.services.artifacts import INLINE_BYTES, NewArtifact
from checkpoints.services.uploads import (
    Declared,
    Digest,
    upload_advance,
    upload_declared,
    upload_discard,
    upload_keep_slice,
)
from checkpoints.store import store
from weei_core.errors import Invalid, StorageFull, Unavailable

SMALLEST_KEPT_SLICE = 64 * 1024
"""Less than that of a cut body is sent again: every slice is an object of the store."""


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
        with _comes_back(declared.kind):
            await self._create(request, send, declared, length)

    async def _create(self, request: Request, send: Send, declared: Declared, length: int) -> None:
        sender, known = await in_database(admit, request, declared)
        if known:
            await _created(send, declared, UUID(int=0), declared.length, duplicate=True)
            return
        if length == 0:
            upload = await in_database(begin, declared, sender)
            await _created(send, declared, upload.pk, 0, duplicate=None)
            return
        with self._slots.take(sender):
            body = Body(request.receive, length)
            if length < declared.length:
                upload_id, duplicate = await _first_slice(declared, sender, body), None
            else:
                upload_id, duplicate = await _receive_whole(declared, sender, body)
        await _created(send, declared, upload_id, length, duplicate=duplicate)

    async def head(self, request: Request, send: Send, upload_id: UUID) -> None:
        tus.check_version(request)
        upload, _ = await self._find(request, upload_id)
        lengths = (("Upload-Offset", str(upload.offset)), ("Upload-Length", str(upload.length)))
        await send_empty(send, 200, (*tus.TUS, *lengths))

    async def patch(self, request: Request, send: Send, upload_id: UUID) -> None:
        tus.check_version(request)
        offset = tus.number(request, "Upload-Offset")
        upload, sender = await self._find(request, upload_id)
        if offset != upload.offset:
            # No problem details, which are final: the sender asks for the offset and goes on there.
            await send_empty(send, 409, (*tus.TUS, ("Upload-Offset", str(upload.offset)), ("Content-Length", "0")))
            return
        length = tus.body_length(request, upload.length - offset)
        if length == 0:
            await _patched(send, offset, duplicate=upload.done)
            return
        if await in_database(is_known, upload, sender):
            await _patched(send, upload.length, duplicate=True)
            return
        body = Body(request.receive, length)
        with _comes_back(upload.kind), self._slots.take(sender), self._turns.take(upload_id, body):
            duplicate = await _receive_slice(upload, sender, body, length)
        await _patched(send, offset + length, duplicate=duplicate)

    async def _find(self, request: Request, upload_id: UUID) -> tuple[Upload, Sender]:
        found = await in_database(find, request, upload_id)
        if await self._turns.take_over(upload_id):
            found = await in_database(find, request, upload_id)
        return found


@contextlib.contextmanager
def _comes_back(kind: str) -> Iterator[None]:
    """A full disk is no fault of an update. 507 would be final, and its item would count as failed: its sender is told
    to come back (503) instead, and keeps what it trained."""
    try:
        yield
    except (StorageFull, OSError) as error:
        full = isinstance(error, StorageFull) or error.errno in NO_ROOM
        if not full or kind != Upload.Kind.UPDATE:
            raise
        raise Unavailable("The server's disk is full; the update may come when there is room.") from error


async def _receive_slice(upload: Upload, sender: Sender, body: Body, length: int) -> bool:
    declared = upload_declared(upload)
    if length == upload.length:
        try:
            _, duplicate = await _receive_whole(declared, sender, body, upload)
        except Invalid:
            await in_database(upload_discard, upload)
            raise
        return duplicate
    last = upload.offset + length == upload.length
    await _slice_into_store(upload, body, advance=not last)
    return last and await in_files(join, declared, sender, upload)


async def _receive_whole(
    declared: Declared, sender: Sender, body: Body, upload: Upload | None = None
) -> tuple[UUID, bool]:
    """All the bytes in one request. Answers with the upload's id and whether they were accepted before."""
    digest = Digest(floats=declared.is_update)
    if declared.is_update and declared.length <= INLINE_BYTES:
        data = await body.all()
        digest.update(data)
        duplicate = await in_database(accept, declared, sender, digest, NewArtifact(declared.sha256, data))
    else:
        with store().temporary() as path:
            await body.into(path, digest)
            duplicate = await in_files(accept_file, declared, sender, digest, path)
    if upload is None and declared.is_update:
        return UUID(int=0), duplicate
    return await in_database(note_done, declared, sender, upload), duplicate


async def _first_slice(declared: Declared, sender: Sender, body: Body) -> UUID:
    """A POST with a part of the bytes. Cut short it leaves nothing, for its sender never heard where it would lie."""
    with store().temporary() as path:
        await body.into(path)
        upload = await in_database(begin, declared, sender)
        await _keep(upload, path, body.received)
    return upload.pk


async def _slice_into_store(upload: Upload, body: Body, *, advance: bool) -> None:
    """The last slice does not move the offset: a crash before the end of the whole leaves it to be sent again."""
    with store().temporary() as path:
        try:
            await body.into(path)
        except CUT:
            if body.received >= SMALLEST_KEPT_SLICE:
                await _keep(upload, path, body.received)
            raise
        if advance:
            await _keep(upload, path, body.received)
        else:
            await on_disk(upload_keep_slice, upload, path)


async def _keep(upload: Upload, path: Path, size: int) -> None:
    await on_disk(upload_keep_slice, upload, path)
    if not await in_database(upload_advance, upload, size, timezone.now()):
        raise Unavailable("Another request has moved this upload on; ask for its offset.")


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
