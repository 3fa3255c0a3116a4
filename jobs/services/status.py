"""Changes of a job's status: compare-and-swap plus a line of history."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from checkpoints.models import Checkpoint
from jobs.domain.rounds import validation_due
from jobs.domain.states import check_transition
from jobs.models import Job
from jobs.services.events import enqueue, job_event
from jobs.services.texts import info_of, settings_of
from peers.models import Membership
from peers.outbox import hint_job, hint_peers
from weei_core.errors import Conflict


def status_move(job: Job, new: Job.Status, **fields: object) -> None:
    """Move the job to `new` if it still stands where the caller saw it; raises Conflict otherwise."""
    check_transition(job.status, new)
    if Job.objects.filter(pk=job.pk, status=job.status, deleted_at=None).update(status=new, **fields) != 1:
        raise Conflict("The job's status changed meanwhile. Look again.", field="job.status", code="wrong_status")
    job_event(job.pk, f"job.{new.value}", before=job.status, error=fields.get("last_error") or None)
    job.refresh_from_db()
    tell_members(job.pk)


def job_pause_with_error(job_id: UUID, error: str) -> bool:
    """Stop dealing because something needs the coordinator; a job that is paused already shows the error too.

    False: the job is neither running nor paused.
    """
    moved = Job.objects.filter(pk=job_id, status__in=[Job.Status.RUNNING, Job.Status.PAUSED]).update(
        status=Job.Status.PAUSED, last_error=error, failed_deals=0
    )
    if moved:
        job_event(job_id, "job.paused", error=error)
        tell_members(job_id)
    return moved == 1


def job_complete(job: Job, now: datetime, *, incomplete: bool) -> bool:
    """End the job. Idempotent. Its latest checkpoint is the last one, so the schedule may ask for its validation."""
    moved = (
        Job.objects.filter(pk=job.pk)
        .exclude(status=Job.Status.COMPLETED)
        .update(status=Job.Status.COMPLETED, completed_at=now, incomplete=incomplete)
    )
    if moved:
        latest = Checkpoint.objects.filter(job=job).order_by("-round").first()
        if latest is not None:
            validation_schedule(job, latest, last=True)
        job_event(job.pk, "job.completed", incomplete=incomplete)
        tell_members(job.pk)
    return moved == 1


def validation_schedule(job: Job, made: Checkpoint, *, last: bool = False, ends_pass: bool = False) -> None:
    """Ask for the validation of a checkpoint if the job's schedule says so. Its own task: no round waits for it."""
    schedule = settings_of(job).validation_schedule
    if schedule is None or not can_validate(job):
        return
    due = validation_due(
        enabled=schedule.enabled,
        unit=schedule.unit,
        every=schedule.every,
        round_no=made.round,
        first=made.round == job.first_round,
        last=last,
        ends_pass=ends_pass,
        passes=made.dataset_epoch,
    )
    none = Checkpoint.objects.filter(pk=made.pk, validation=Checkpoint.Validation.NONE)
    if due and none.update(validation=Checkpoint.Validation.DUE):
        enqueue("jobs.tasks.evaluate", made.pk)


def can_validate(job: Job) -> bool:
    """Whether a checkpoint can be evaluated: on the validation file, or on units that the model generates."""
    return info_of(job).can_evaluate(validation_file=job.validation_file_id is not None)


def tell_members(job_id: UUID) -> None:
    """Everybody who takes part, and every page that watches, looks again."""
    hint_peers(list(Membership.objects.filter(job_id=job_id, current=True).values_list("peer_id", flat=True)))
    hint_job(job_id, "status", "round", "participants")
