"""Downloads: one artifact by hash, or a checkpoint as the file that people keep."""

from __future__ import annotations

import hashlib
from uuid import UUID

from django.conf import settings
from starlette.types import Send

from checkpoints.bytes.auth import has_peer, has_person, peer_of, user_of
from checkpoints.bytes.http import Headers, Request, send_empty
from checkpoints.bytes.ranges import Piece, attachment, send_pieces
from checkpoints.bytes.threads import in_database, in_files
from checkpoints.domain.stored_zip import Member, archive
from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_body
from checkpoints.store import store
from jobs.selectors.downloads import (
    CheckpointDownload,
    Download,
    PackageDownload,
    artifact_for_owner,
    artifact_for_peer,
    checkpoint_for_owner,
    package_files_for_owner,
    weights_for_owner,
)
from weei_core.errors import Forbidden, NotFound, Unauthorized

OCTETS: Headers = (("Content-Type", "application/octet-stream"), ("Vary", "Authorization, Cookie, Weei-Peer"))
FOREVER = ("Cache-Control", "private, max-age=31536000, immutable")


async def artifact(request: Request, send: Send, job_id: UUID, sha256: str) -> None:
    download = await in_database(_authorized, request, job_id, sha256)
    disposition = attachment(download.file_name or sha256)
    # Pages of other sites send an Origin with every request, and could not read what lies a second origin further.
    redirects = settings.ARTIFACT_REDIRECT_S > 0 and request.header("origin") is None
    if redirects and download.artifact.body is None:
        elsewhere = store().redirect(sha256, disposition, settings.ARTIFACT_REDIRECT_S)
        if elsewhere is not None:
            await send_empty(send, 302, (("Location", elsewhere), ("Cache-Control", "no-store")))
            return
    piece = await _piece(download.artifact)
    await send_pieces(request, send, [piece], sha256, (*OCTETS, FOREVER, ("Content-Disposition", disposition)))


async def checkpoint(request: Request, send: Send, job_id: UUID, round_number: int) -> None:
    """Its end may say that the job ended early, so that a browser asks again whether it still has the newest."""
    found = await in_files(_checkpoint, request, job_id, round_number)
    await _send_parts(request, send, found, f"{found.job_name}-round-{round_number}.weei-checkpoint")


async def weights(request: Request, send: Send, job_id: UUID, round_number: int, kind: str) -> None:
    """The values as they are stored, behind the header of another program's file."""
    found = await in_files(_weights, request, job_id, round_number, kind)
    await _send_parts(request, send, found, f"{found.job_name}-round-{round_number}.{kind}")


async def _send_parts(request: Request, send: Send, found: CheckpointDownload, file_name: str) -> None:
    pieces = [Piece(found.header, len(found.header)), *[await _piece(part) for part in found.parts]]
    etag = hashlib.sha256(found.header + b"".join(part.sha256.encode() for part in found.parts)).hexdigest()
    disposition = ("Content-Disposition", attachment(file_name))
    await send_pieces(request, send, pieces, etag, (*OCTETS, ("Cache-Control", "private, no-cache"), disposition))


async def package(request: Request, send: Send, package_id: UUID) -> None:
    """A zip of its files as they are stored: nothing is written to send it, and ranges of it can be asked for."""
    found = await in_database(_package, request, package_id)
    files = {file.file_name: file.artifact for file in found.files}
    parts = archive([Member(file.file_name, file.artifact.bytes, file.crc32) for file in found.files])
    pieces = [await _piece(files[part.name]) if isinstance(part, Member) else Piece(part, len(part)) for part in parts]
    etag = hashlib.sha256("".join(f"{file.file_name} {file.artifact_id}\n" for file in found.files).encode())
    headers = (
        ("Content-Type", "application/zip"),
        ("Vary", "Authorization, Cookie"),
        ("Cache-Control", "private, no-cache"),
        ("Content-Disposition", attachment(f"{found.name}-package.zip")),
    )
    await send_pieces(request, send, pieces, etag.hexdigest(), headers)


def _authorized(request: Request, job_id: UUID, sha256: str) -> Download:
    """The rights of the peer, else of the person; one query for each of the two that is needed."""
    refused: Forbidden | NotFound | Unauthorized | None = None
    if has_peer(request):
        try:
            return artifact_for_peer(peer=peer_of(request), job_id=job_id, sha256=sha256)
        except (Forbidden, NotFound, Unauthorized) as error:
            refused = error
    if refused is not None and not has_person(request):
        raise refused
    try:
        return artifact_for_owner(user_id=user_of(request).pk, job_id=job_id, sha256=sha256)
    except (NotFound, Unauthorized) as error:
        raise refused or error from None


def _checkpoint(request: Request, job_id: UUID, round_number: int) -> CheckpointDownload:
    return checkpoint_for_owner(user_id=user_of(request).pk, job_id=job_id, round_number=round_number)


def _weights(request: Request, job_id: UUID, round_number: int, kind: str) -> CheckpointDownload:
    return weights_for_owner(user_id=user_of(request).pk, job_id=job_id, round_number=round_number, kind=kind)


def _package(request: Request, package_id: UUID) -> PackageDownload:
    return package_files_for_owner(user_id=user_of(request).pk, package_id=package_id)


async def _piece(stored: Artifact) -> Piece:
    """Verified before the first byte goes out: 409 "corrupt_artifact" instead of wrong bytes (S11)."""
    body = artifact_body(stored)
    data = await in_files(store().local, stored.sha256) if body is None else body
    return Piece(data, stored.bytes)
