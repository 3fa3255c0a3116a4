"""What coordinators call (docs/protocol.md, HTTP JSON for coordinators). Each call: parse, one service, the job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body as Whole
from ninja import Path, Query, Router, Schema, Status
from pydantic import AwareDatetime, ConfigDict, Field

from checkpoints.models import Checkpoint
from checkpoints.selectors.storage import held_hashes, storage_inventory
from jobs.models import Job
from jobs.selectors.access import draft_for_owner, job_for_owner
from jobs.selectors.event_log import event_json, event_rows
from jobs.selectors.job_json import (
    checkpoint_json,
    checkpoints_json,
    invitation_json,
    job_json,
    participant_job_json,
    saved_job_json,
    storage_json,
)
from jobs.selectors.queue_json import chunk_ids
from jobs.services import lifecycle, participants
from jobs.services.drafts import draft_create, draft_json
from jobs.services.evaluation import validation_request
from peers.api import PeerRequest, peer_auth, person_auth
from peers.models import Invitation, Membership, Peer
from peers.services import invitations
from weei_core import strict_json
from weei_core.errors import Invalid, NotFound, Unauthorized

router = Router(tags=["jobs"], auth=person_auth)
peer_router = Router(tags=["peers"], auth=peer_auth)
MAX_PAGE = 500
MAX_INT = 2**31 - 1
MAX_ID = 2**53
Before = Annotated[int | None, Query(ge=0, le=MAX_INT)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
LATEST = datetime(9000, 1, 1, tzinfo=UTC)  # Databases and time zones fail at the end of year 9999.


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class FileBody(Body):
    fileName: str = Field(min_length=1, max_length=255)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-fA-F]{64}$")


class HeldBody(Body):
    hashes: list[str] = Field(max_length=10_100)


class CreateBody(Body):
    name: str | None = Field(None, max_length=120)
    module: FileBody
    manifest: FileBody
    files: list[FileBody] = Field([], max_length=10_100)
    validation: FileBody | None = None
    executionFiles: list[FileBody] = Field([], max_length=8)
    settings: dict[str, Any]
    checkpoint: FileBody | None = None
    datasetMode: Literal["new", "resume"] | None = None


class RoundBody(Body):
    round: int | None = Field(None, ge=0, le=MAX_INT)


class ItemBody(Body):
    item: int = Field(ge=1, le=MAX_INT)


class InvitationBody(Body):
    uses: int = 1
    expiresAt: AwareDatetime | None = Field(None, strict=False, lt=LATEST)


class PausedBody(Body):
    paused: bool


def _peer(request: HttpRequest) -> Peer:
    """The device beside the person: the peer's token in the Authorization header."""
    found = peer_auth(request)
    if found is None:
        raise Unauthorized("This call also needs the peer's token.", field="Authorization")
    assert isinstance(found, Peer)
    return found


def _user_id(request: HttpRequest) -> int:
    assert request.user.pk is not None
    return request.user.pk


def _job(request: HttpRequest, job_id: UUID) -> Job:
    return job_for_owner(request.user, job_id)


def _answer(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return job_json(_job(request, job_id), timezone.now())


@router.post("/artifacts/held", response=dict[str, list[str]])
def held(request: HttpRequest, payload: HeldBody) -> dict[str, list[str]]:
    """Which of these the person has uploaded before, or has in a job."""
    return {"held": sorted(held_hashes(_user_id(request), payload.hashes))}


@router.post("/jobs", response={202: dict[str, Any]})
def create(request: HttpRequest, payload: CreateBody) -> Status[dict[str, Any]]:
    """Begin making a job from uploaded files; the draft tells how it goes."""
    body = payload.model_dump(exclude_none=True)
    named = [payload.module, payload.manifest, *payload.files, *payload.executionFiles]
    named += [file for file in (payload.validation, payload.checkpoint) if file is not None]
    hashes = {file.sha256.lower() for file in named}
    missing = hashes - held_hashes(_user_id(request), list(hashes))
    if missing:
        names = sorted(file.fileName for file in named if file.sha256.lower() in missing)
        raise Invalid(f"Not uploaded yet: {', '.join(names[:5])}.", field="files", code="not_uploaded", files=names)
    return Status(202, draft_json(draft_create(request.user, body)))


@router.get("/drafts/{draft_id}", response=dict[str, Any])
def draft(request: HttpRequest, draft_id: UUID) -> dict[str, Any]:
    return draft_json(draft_for_owner(request.user, draft_id))


@router.get("/jobs", response=list[dict[str, Any]])
def saved_jobs(request: HttpRequest) -> list[dict[str, Any]]:
    """All jobs of this person, newest first."""
    jobs = Job.objects.filter(owner_id=request.user.pk).select_related("module").order_by("-created")
    return [saved_job_json(job) for job in jobs]


@router.get("/storage", response=dict[str, Any])
def storage(request: HttpRequest) -> dict[str, Any]:
    """What the server keeps for this person, by job and kind."""
    return storage_json(storage_inventory(_user_id(request)))


@router.get("/jobs/{job_id}", response=dict[str, Any])
def get_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return _answer(request, job_id)


@router.delete("/jobs/{job_id}", response={204: None})
def delete(request: HttpRequest, job_id: UUID) -> Status[None]:
    lifecycle.job_delete(_job(request, job_id))
    return Status(204, None)


@router.post("/jobs/{job_id}/open", response=dict[str, Any])
def open_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    participants.job_open(_job(request, job_id), _peer(request))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/leave", response=dict[str, Any])
def leave(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    participants.participant_leave(_peer(request), _job(request, job_id).pk)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/start", response=dict[str, Any])
def start(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    lifecycle.job_start(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/pause", response=dict[str, Any])
def pause(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    lifecycle.job_pause(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/resume", response=dict[str, Any])
def resume(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    lifecycle.job_resume(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/finish", response=dict[str, Any])
def finish(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    lifecycle.job_finish(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/shuffle", response=dict[str, Any])
def shuffle(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    lifecycle.job_shuffle(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/retry-item", response=dict[str, Any])
def retry_item(request: HttpRequest, job_id: UUID, payload: ItemBody) -> dict[str, Any]:
    lifecycle.item_retry(_job(request, job_id), payload.item)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/skip-item", response=dict[str, Any])
def skip_item(request: HttpRequest, job_id: UUID, payload: ItemBody) -> dict[str, Any]:
    lifecycle.item_skip(_job(request, job_id), payload.item)
    return _answer(request, job_id)


@router.patch("/jobs/{job_id}/settings", response=dict[str, Any])
def settings(request: HttpRequest, job_id: UUID, payload: Whole[dict[str, Any]]) -> dict[str, Any]:
    lifecycle.job_update_settings(_job(request, job_id), payload)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/validation", response=dict[str, Any])
def validation(request: HttpRequest, job_id: UUID, payload: RoundBody) -> dict[str, Any]:
    return checkpoint_json(validation_request(_job(request, job_id), payload.round))


@router.get("/jobs/{job_id}/invitations", response=list[dict[str, Any]])
def list_invitations(request: HttpRequest, job_id: UUID) -> list[dict[str, Any]]:
    now = timezone.now()
    return [invitation_json(found, now) for found in Invitation.objects.filter(job=_job(request, job_id))]


@router.post("/jobs/{job_id}/invitations", response={201: dict[str, Any]})
def create_invitation(request: HttpRequest, job_id: UUID, payload: InvitationBody) -> Status[dict[str, Any]]:
    """A new link; its address is shown this once."""
    made, url = invitations.invitation_create(_job(request, job_id), payload.uses, payload.expiresAt)
    return Status(201, {**invitation_json(made, timezone.now()), "url": url})


@router.post("/jobs/{job_id}/invitations/{invitation_id}/revoke", response=list[dict[str, Any]])
def revoke_invitation(request: HttpRequest, job_id: UUID, invitation_id: UUID) -> list[dict[str, Any]]:
    invitations.invitation_revoke(_job(request, job_id), invitation_id)
    return list_invitations(request, job_id)


@router.post("/jobs/{job_id}/participants/{peer_id}/invite", response=dict[str, Any])
def invite(request: HttpRequest, job_id: UUID, peer_id: UUID) -> dict[str, Any]:
    participants.participant_invite(_job(request, job_id), peer_id)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/participants/{peer_id}/remove", response=dict[str, Any])
def remove(request: HttpRequest, job_id: UUID, peer_id: UUID) -> dict[str, Any]:
    participants.participant_remove(_job(request, job_id), peer_id)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/participants/{peer_id}/pause", response=dict[str, Any])
def pause_participant(request: HttpRequest, job_id: UUID, peer_id: UUID, payload: PausedBody) -> dict[str, Any]:
    participants.participant_pause(_job(request, job_id), peer_id, payload.paused)
    return _answer(request, job_id)


@router.get("/jobs/{job_id}/chunks", response=dict[str, list[str]])
def chunks(
    request: HttpRequest, job_id: UUID, order: Annotated[int | None, Query(ge=0, le=MAX_INT)] = None
) -> dict[str, list[str]]:
    """Ids of the job's chunks in the order that a queue or a checkpoint names; without one in the manifest's."""
    return {"chunkIds": chunk_ids(_job(request, job_id), order)}


@router.get("/jobs/{job_id}/log", response=list[dict[str, Any]])
def log(
    request: HttpRequest,
    job_id: UUID,
    after: Annotated[int | None, Query(ge=0, le=MAX_ID)] = None,
    before: Annotated[int | None, Query(ge=0, le=MAX_ID)] = None,
    limit: Limit = MAX_PAGE,
) -> list[dict[str, Any]]:
    """Events of the job, oldest first: the newest `limit` of those with ids above `after` and below `before`."""
    rows = event_rows(_job(request, job_id), after=after, before=before, limit=limit)
    return [event_json(row) for row in rows]


@router.get("/jobs/{job_id}/checkpoints", response=list[dict[str, Any]])
def checkpoints(request: HttpRequest, job_id: UUID, before: Before = None, limit: Limit = 100) -> list[dict[str, Any]]:
    """Newest first, `limit` at a time."""
    return checkpoints_json(_job(request, job_id), before=before, limit=limit)


@router.get("/jobs/{job_id}/checkpoints/{round_no}/ledger", response=dict[str, Any])
def ledger(request: HttpRequest, job_id: UUID, round_no: Annotated[int, Path(ge=0, le=MAX_INT)]) -> dict[str, Any]:
    """Everything that made a checkpoint, by value or hash."""
    found = Checkpoint.objects.filter(job=_job(request, job_id), round=round_no).first()
    if found is None:
        raise NotFound(f"The job has no checkpoint of round {round_no}.", field="round")
    return strict_json.as_object(strict_json.loads(found.ledger_text), "ledger")


def _current(request: PeerRequest) -> Membership | None:
    members = Membership.objects.filter(peer=request.auth, current=True)
    return members.select_related("job__module", "job__dataset").first()


@peer_router.get("/peer/job", response=dict[str, Any])
def peer_job(request: PeerRequest) -> dict[str, Any]:
    """The job that this peer takes part in, as it may see it."""
    current = _current(request)
    return {"job": participant_job_json(current, timezone.now()) if current else None}


@peer_router.get("/peer/job/checkpoints", response=list[dict[str, Any]])
def peer_checkpoints(request: PeerRequest, before: Before = None, limit: Limit = 100) -> list[dict[str, Any]]:
    """Its checkpoints' figures, newest first."""
    current = _current(request)
    return checkpoints_json(current.job, before=before, limit=limit, queues=False) if current else []
