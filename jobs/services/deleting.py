"""Deleting a job, with an undo. A deleted job belongs to nobody: whoever looks for it by its owner, as every reader
does, finds nothing from that moment on. Its files stay until the collector purges it."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from jobs.models import Attempt, Job, JobDraft
from jobs.services.dealing import job_locked
from jobs.services.events import job_event
from jobs.services.lifecycle import job_delete
from jobs.services.settling import attempt_end
from jobs.services.status import tell_members
from peers.models import Membership, Peer
from weei_core.errors import Conflict, NotFound

logger = logging.getLogger(__name__)
State = Membership.State
# What a membership has beside its keys. `ready_for` is left out: whoever comes back loads the model again.
REMEMBERED = (
    "role",
    "state",
    "current",
    "trains",
    "accepted_link",
    "workers",
    "paused_by_peer",
    "paused_by_coordinator",
)


def job_discard(job: Job) -> None:
    """Delete the job for everybody at once. `job_restore` brings it back until it is purged. Raises `Conflict` for a
    running job."""
    with transaction.atomic():
        held = job_locked(job.pk)
        if held.status == Job.Status.RUNNING:
            raise Conflict("Pause or finish the job before deleting it.", field="job.status", code="wrong_status")
        if held.deleted_at is not None:
            raise NotFound("There is no such job of yours.", field="jobId")
        tell_members(held.pk)
        members = Membership.objects.filter(job=held)
        held.deleted_members_text = json.dumps([_remembered(member) for member in members.order_by("id")])
        held.deleted_at, held.deleted_by_id, held.owner_id = timezone.now(), held.owner_id, None
        held.save(update_fields=["deleted_members_text", "deleted_at", "deleted_by", "owner"])
        members.delete()
        JobDraft.objects.filter(job=held).update(job=None)
        job_event(held.pk, "job.deleted")
    _stop_work(job.pk)


def _remembered(member: Membership) -> dict[str, object]:
    keys = {"peer": str(member.peer_id), "invitation": str(member.invitation_id) if member.invitation_id else None}
    accepted_at = member.accepted_at.isoformat() if member.accepted_at else None
    return {**keys, "accepted_at": accepted_at, **{name: getattr(member, name) for name in REMEMBERED}}


def _stop_work(job_id: UUID) -> None:
    """After the commit, because rounds are locked before jobs. What is left here is ended by the next sweep, as nobody
    takes part any more."""
    live = Attempt.objects.filter(slot__round__job=job_id, state=Attempt.State.LIVE)
    for attempt_id in list(live.values_list("pk", flat=True)):
        attempt_end(attempt_id, state=Attempt.State.LEFT, reason="The job was deleted.", now=timezone.now())


def job_restore(user_id: int, job_id: UUID) -> Job:
    """Undo the deletion: the job is this person's again, and whoever took part takes part again, unless they went on to
    another job. Raises `NotFound` once it is purged, or if it was somebody else's."""
    with transaction.atomic():
        found = Job.objects.select_for_update(no_key=True).filter(pk=job_id, deleted_by=user_id).first()
        if found is None:
            raise NotFound("There is no such deleted job of yours; after a while it is gone for good.", field="jobId")
        remembered = json.loads(found.deleted_members_text)
        found.owner_id, found.deleted_by_id, found.deleted_at = user_id, None, None
        found.deleted_members_text = ""
        found.save(update_fields=["owner", "deleted_by", "deleted_at", "deleted_members_text"])
        _members_return(found, remembered)
        job_event(found.pk, "job.restored")
        tell_members(found.pk)
    return found


def _members_return(job: Job, remembered: list[dict[str, Any]]) -> None:
    ids = [UUID(member["peer"]) for member in remembered]
    there = set(Peer.objects.filter(pk__in=ids).values_list("pk", flat=True))
    busy = set(Membership.objects.filter(peer__in=ids, current=True).values_list("peer_id", flat=True))
    again = set(Membership.objects.filter(job=job).values_list("peer_id", flat=True))
    links = {str(pk) for pk in job.invitations.values_list("pk", flat=True)}
    made = []
    for member in remembered:
        peer_id = UUID(member["peer"])
        if peer_id not in there or peer_id in again:
            continue
        row = Membership(peer_id=peer_id, job=job, **{name: member[name] for name in REMEMBERED})
        row.accepted_at = datetime.fromisoformat(member["accepted_at"]) if member["accepted_at"] else None
        row.invitation_id = UUID(member["invitation"]) if member["invitation"] in links else None
        if row.state in (State.MODEL_LOADED, State.MODEL_LOAD_FAILED):
            row.state = State.APPROVED
        if row.current and peer_id in busy:
            row.state, row.current, row.trains, row.accepted_link = State.LEFT, False, False, False
        made.append(row)
    try:
        with transaction.atomic():
            Membership.objects.bulk_create(made)
    except IntegrityError as error:
        raise Conflict("A participant joined another job at this moment. Try again.", code="try_again") from error


def jobs_purge(now: datetime) -> None:
    """Remove for good what was deleted longer ago than an undo is offered for."""
    due = Job.objects.filter(deleted_at__lt=now - settings.UNDO_DELETE)
    for job_id in list(due.values_list("pk", flat=True)):
        with transaction.atomic():
            held = due.select_for_update().filter(pk=job_id).first()
            if held is not None:
                job_delete(held)
                logger.info("the deleted job %s is purged", job_id)
