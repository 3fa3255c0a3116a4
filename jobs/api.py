"""What coordinators do to their jobs (docs/http-api.md). Each call: parse, one service, the job.

Beside it: making_api.py (new jobs), reading_api.py (what a job holds), package_api.py (model packages).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body as Whole
from ninja import Router, Schema, Status
from pydantic import AwareDatetime, ConfigDict, Field, WithJsonSchema

from jobs import schemas
from jobs.models import Job
from jobs.selectors.access import job_for_owner
from jobs.selectors.job_json import (
    checkpoint_json,
    checkpoints_json,
    invitation_json,
    job_json,
    participant_job_json,
)
from jobs.services import lifecycle, participants
from jobs.services.deleting import job_discard
from jobs.services.evaluation import validation_request
from peers.answers import MAX_INT, PAGE, PAGED, Cursor, Limit, Page, as_made, by_time, number_of
from peers.api import Before, PeerRequest, peer_auth, person_auth
from peers.models import Invitation, Membership, Peer
from peers.services import invitations
from weei_core.errors import Unauthorized

router = Router(tags=["jobs"], auth=person_auth)
peer_router = Router(tags=["peers"], auth=peer_auth)
for _router in (router, peer_router):
    _router.add_decorator(as_made)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)  # Databases and time zones fail at the end of year 9999.


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class RoundBody(Body):
    round: int | None = Field(None, ge=0, le=MAX_INT)


class ItemBody(Body):
    item: int = Field(ge=1, le=MAX_INT)


class InvitationBody(Body):
    uses: int = Field(1, json_schema_extra={"minimum": 1, "maximum": invitations.MAX_USES})
    expiresAt: AwareDatetime | None = Field(None, strict=False, lt=LATEST)


SettingsPatch = Annotated[dict[str, Any], WithJsonSchema({"x-schema": "TrainingSettingsPatch"})]
"""Read by weei_core alone, whose sentences name the field and what the model allows."""


class PausedBody(Body):
    paused: bool


def _peer(request: HttpRequest) -> Peer:
    """The device beside the person: the peer's token in the Authorization header."""
    found = peer_auth(request)
    if found is None:
        raise Unauthorized("This call also needs the peer's token.", field="Authorization")
    assert isinstance(found, Peer)
    return found


def _job(request: HttpRequest, job_id: UUID) -> Job:
    return job_for_owner(request.user, job_id)


def _answer(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return job_json(_job(request, job_id), timezone.now())


@router.get("/jobs/{job_id}", response=schemas.Job)
def get_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """The job with its progress, participants and slots."""
    return _answer(request, job_id)


@router.delete("/jobs/{job_id}", response={204: None})
def delete_job(request: HttpRequest, job_id: UUID) -> Status[None]:
    """A running job is paused or finished first."""
    job_discard(_job(request, job_id))
    return Status(204, None)


@router.post("/jobs/{job_id}/open", response=schemas.Job)
def open_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """With the peer's token too: this browser becomes the coordinator's device."""
    participants.job_open(_job(request, job_id), _peer(request))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/leave", response=schemas.Job)
def detach_device(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """With the peer's token too: it stops being the coordinator's device; the job goes on."""
    participants.participant_leave(_peer(request), _job(request, job_id).pk)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/start", response=schemas.Job)
def start_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """Rounds begin as soon as somebody trains."""
    lifecycle.job_start(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/pause", response=schemas.Job)
def pause_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """What is being trained is given up; nothing that was merged is lost."""
    lifecycle.job_pause(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/resume", response=schemas.Job)
def resume_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """Go on where it was paused."""
    lifecycle.job_resume(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/finish", response=schemas.Job)
def finish_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """Merge what was received, then end."""
    lifecycle.job_finish(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/shuffle", response=schemas.Job)
def shuffle_job(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    """Draw a new order of the chunks, from the seed, for this pass and those after it."""
    lifecycle.job_shuffle(_job(request, job_id))
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/retry-item", response=schemas.Job)
def retry_item(request: HttpRequest, job_id: UUID, payload: ItemBody) -> dict[str, Any]:
    """Give work that failed too often out again: one of `held`."""
    lifecycle.item_retry(_job(request, job_id), payload.item)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/skip-item", response=schemas.Job)
def skip_item(request: HttpRequest, job_id: UUID, payload: ItemBody) -> dict[str, Any]:
    """Leave it out of this pass; checkpoints say that it remains."""
    lifecycle.item_skip(_job(request, job_id), payload.item)
    return _answer(request, job_id)


@router.patch("/jobs/{job_id}/settings", response=schemas.Job)
def change_settings(request: HttpRequest, job_id: UUID, payload: Whole[SettingsPatch]) -> dict[str, Any]:
    """Any of the settings; null takes an optional one away. Counts from the next round."""
    lifecycle.job_update_settings(_job(request, job_id), payload)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/validation", response=schemas.Checkpoint, tags=["checkpoints"])
def validate_checkpoint(request: HttpRequest, job_id: UUID, payload: RoundBody) -> dict[str, Any]:
    """Evaluate a checkpoint, the newest if no round is given. Its `validation` tells how it goes."""
    return checkpoint_json(validation_request(_job(request, job_id), payload.round))


@router.get("/jobs/{job_id}/invitations", response=list[schemas.Invitation], tags=["invitations"], openapi_extra=PAGED)
def list_invitations(request: HttpRequest, job_id: UUID, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """Links, oldest first, without their addresses."""
    return _invitations(_job(request, job_id), limit, cursor)


def _invitations(job: Job, limit: int = PAGE, cursor: str | None = None) -> Page:
    rows, further = by_time(Invitation.objects.filter(job=job), limit, cursor, newest_first=False)
    now = timezone.now()
    return Page([invitation_json(row, now) for row in rows], further, f"/api/v1/jobs/{job.pk}/invitations")


@router.post("/jobs/{job_id}/invitations", response={201: schemas.NewInvitation}, tags=["invitations"])
def create_invitation(request: HttpRequest, job_id: UUID, payload: InvitationBody) -> Status[dict[str, Any]]:
    """A new link; its address is shown this once."""
    made, url = invitations.invitation_create(_job(request, job_id), payload.uses, payload.expiresAt)
    return Status(201, {**invitation_json(made, timezone.now()), "url": url})


@router.post(
    "/jobs/{job_id}/invitations/{invitation_id}/revoke",
    response=list[schemas.Invitation],
    tags=["invitations"],
    openapi_extra=PAGED,
)
def revoke_invitation(request: HttpRequest, job_id: UUID, invitation_id: UUID) -> Page:
    """The link ends; who came by it stays. Answers the first page of links."""
    job = _job(request, job_id)
    invitations.invitation_revoke(job, invitation_id)
    return _invitations(job)


@router.post("/jobs/{job_id}/participants/{peer_id}/invite", response=schemas.Job, tags=["participants"])
def invite_participant(request: HttpRequest, job_id: UUID, peer_id: UUID) -> dict[str, Any]:
    """Invite a peer that opened a link of this person before."""
    participants.participant_invite(_job(request, job_id), peer_id)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/participants/{peer_id}/remove", response=schemas.Job, tags=["participants"])
def remove_participant(request: HttpRequest, job_id: UUID, peer_id: UUID) -> dict[str, Any]:
    """Their access ends at once; what they were working on is given to others."""
    participants.participant_remove(_job(request, job_id), peer_id)
    return _answer(request, job_id)


@router.post("/jobs/{job_id}/participants/{peer_id}/pause", response=schemas.Job, tags=["participants"])
def pause_participant(request: HttpRequest, job_id: UUID, peer_id: UUID, payload: PausedBody) -> dict[str, Any]:
    """Pausing ends their running attempt at once."""
    participants.participant_pause(_job(request, job_id), peer_id, payload.paused)
    return _answer(request, job_id)


def _current(request: PeerRequest) -> Membership | None:
    members = Membership.objects.filter(peer=request.auth, current=True)
    return members.select_related("job__module", "job__dataset").first()


@peer_router.get("/peer/job", response=schemas.CurrentJob)
def peer_job(request: PeerRequest) -> dict[str, Any]:
    """The job that this peer takes part in, as it may see it."""
    current = _current(request)
    return {"job": participant_job_json(current, timezone.now()) if current else None}


@peer_router.get("/peer/job/checkpoints", response=list[schemas.Checkpoint], openapi_extra=PAGED)
def peer_checkpoints(request: PeerRequest, before: Before = None, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """Its checkpoints' figures, newest first."""
    current = _current(request)
    return checkpoint_page(current.job, before, limit, cursor, queues=False) if current else Page([], None)


def checkpoint_page(job: Job, before: int | None, limit: int, cursor: str | None, *, queues: bool = True) -> Page:
    """Newest first. Rounds count up, so that they are the cursor."""
    ends = [end for end in (before, number_of(cursor)) if end is not None]
    rows = checkpoints_json(job, before=min(ends, default=None), limit=limit + 1, queues=queues)
    further = rows[limit - 1]["artifact"]["round"] if len(rows) > limit else None
    return Page(rows[:limit], further)
