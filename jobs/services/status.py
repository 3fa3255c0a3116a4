"""Changes of a job's status: compare-and-swap plus a line of history."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from jobs.domain.states import check_transition
from jobs.models import Job
from jobs.services.events import job_event
from peers.models import Membership
from peers.outbox import hint_job, hint_peers
from weei_core.errors import Conflict


def status_move(job: Job, new: Job.Status, **fields: object) -> None:
    """Move the job to `new` if it still stands where the caller saw it; raises Conflict otherwise."""
    check_transition(job.status, new)
    if Job.objects.filter(pk=job.pk, status=job.status).update(status=new, **fields) != 1:
        raise Conflict("The job's status changed meanwhile. Look again.", field="job.status", code="wrong_status")
    job_event(job.pk, f"job.{new.value}", before=job.status, error=fields.get("last_error") or None)
    job.refresh_from_db()
    tell_members(job.pk)


def job_pause_with_error(job_id: UUID, error: str) -> bool:
    """Pause a running job because something needs its coordinator. False: it was not running."""
    moved = Job.objects.filter(pk=job_id, status=Job.Status.RUNNING).update(
        status=Job.Status.PAUSED, last_error=error, failed_deals=0
    )
    if moved:
        job_event(job_id, "job.paused", before="running", error=error)
        tell_members(job_id)
    return moved == 1


def job_complete(job: Job, now: datetime, *, incomplete: bool) -> bool:
    """End the job. Idempotent."""
    moved = (
        Job.objects.filter(pk=job.pk)
        .exclude(status=Job.Status.COMPLETED)
        .update(status=Job.Status.COMPLETED, completed_at=now, incomplete=incomplete)
    )
    if moved:
        job_event(job.pk, "job.completed", incomplete=incomplete)
        tell_members(job.pk)
    return moved == 1


def tell_members(job_id: UUID) -> None:
    """Everybody who takes part, and every page that watches, looks again."""
    hint_peers(list(Membership.objects.filter(job_id=job_id, current=True).values_list("peer_id", flat=True)))
    hint_job(job_id, "status", "round", "participants")
