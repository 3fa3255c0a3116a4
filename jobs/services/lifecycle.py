"""What a coordinator does with a job. Each function is one short transaction; the order of locks is dealing.py's."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.services.rows import only_row
from jobs.domain.queue import reshuffled
from jobs.models import Attempt, Job, Requeued, Round
from jobs.services.dealing import deal_round, job_locked, order_of, order_store, round_open
from jobs.services.events import enqueue, job_event
from jobs.services.settling import attempt_end
from jobs.services.status import job_complete, status_move, tell_members
from jobs.services.texts import info_of, settings_in, settings_of
from peers.models import Membership
from peers.outbox import hint_job
from weei_core import seeds
from weei_core.errors import Conflict, Invalid, NotFound
from weei_core.training_settings import TrainingSettings, changed


def job_start(job: Job) -> None:
    """ready → running, and the first round. Refused while nobody can ever train."""
    if job.status != Job.Status.READY:
        raise Conflict(
            f"The job is {job.status}; only a ready job can be started.", field="job.status", code="wrong_status"
        )
    if not Membership.objects.filter(job=job, trains=True, current=True).exists():
        raise Conflict(
            "Nobody can train yet: invite a participant and let them accept, or let this browser take part "
            "(coordinatorParticipates).",
            field="participants",
            code="nobody_trains",
        )
    with transaction.atomic():
        status_move(job, Job.Status.RUNNING, started_at=timezone.now(), last_error="")
        round_open(job, job.round_no + 1, timezone.now())


def job_pause(job: Job) -> None:
    """Slots at work may finish and their round is merged; nothing new is dealt."""
    with transaction.atomic():
        status_move(job, Job.Status.PAUSED)


def job_resume(job: Job) -> None:
    """paused → running. Items held for their errors are tried again, a failed merge with the current settings."""
    if job.status != Job.Status.PAUSED:
        raise Conflict(
            f"The job is {job.status}; only a paused job can be resumed.", field="job.status", code="wrong_status"
        )
    now = timezone.now()
    with transaction.atomic():
        status_move(job, Job.Status.RUNNING, last_error="", failed_deals=0)
        Requeued.objects.filter(job=job, held=True).update(held=False, errors=0)
    for round_id in Round.objects.filter(job=job, state=Round.State.CLOSING).values_list("pk", flat=True):
        _merge_again(round_id, Round.State.CLOSING, now)
    job_go_on(job.pk, now)


def _merge_again(round_id: int, state: Round.State, now: datetime, **fields: object) -> None:
    """A round whose merge failed or was tried too often gets all its tries back."""
    with transaction.atomic():
        moved = Round.objects.filter(pk=round_id, state=state).update(
            state=Round.State.CLOSING, tries=0, merging_at=now, **fields
        )
        if moved:
            enqueue("jobs.tasks.merge", round_id)


def _merge_failed_again(job: Job, at: Round, now: datetime) -> None:
    """With the method and options of this moment. What its slots were trained with stays as it was."""
    chosen = replace(settings_in(job, at.settings_text), aggregation=settings_of(job).aggregation)
    _merge_again(at.pk, Round.State.FAILED, now, settings_text=chosen.text, closing_at=now)


def round_at_work(job: Job) -> Round | None:
    if job.round_no <= job.first_round:
        return None
    return only_row(Round.objects.filter(job=job, number=job.round_no))


def job_go_on(job_id: UUID, now: datetime) -> None:
    """Do what the database says is next for a running job. Safe to call at any time, by anybody, twice.

    A round that is being merged is left alone: the sweeper knows whether its merge is still alive.
    """
    job = Job.objects.get(pk=job_id)
    if job.status != Job.Status.RUNNING:
        return
    if job.finishing:
        _finish(job, now)
        return
    at = round_at_work(job)
    if at is None or at.state == Round.State.DONE:
        with transaction.atomic():
            round_open(job, job.round_no + 1, now)
    elif at.state == Round.State.FAILED:
        _merge_failed_again(job, at, now)
    elif at.state == Round.State.OPEN:
        with transaction.atomic():
            deal_round(at.pk, now)


def job_finish(job: Job) -> None:
    """End the job early: merge what was received, stop the rest."""
    if job.status == Job.Status.READY:
        raise Conflict("The job has not been started; delete it instead.", field="job.status", code="wrong_status")
    now = timezone.now()
    with transaction.atomic():
        moved = Job.objects.filter(pk=job.pk, deleted_at=None).exclude(status=Job.Status.COMPLETED)
        if not moved.update(finishing=True, status=Job.Status.RUNNING, last_error=""):
            return
        job_event(job.pk, "job.finishing")
    Round.objects.filter(job=job, state=Round.State.CLOSING).update(tries=0)
    _finish(job, now)
    job.refresh_from_db()
    tell_members(job.pk)


def _finish(job: Job, now: datetime) -> None:
    """Stop what is at work. What was received closes the round, and its merge completes the job; else it ends here."""
    live = Attempt.objects.filter(slot__round__job=job, state=Attempt.State.LIVE)
    for attempt_id in list(live.values_list("pk", flat=True)):
        attempt_end(attempt_id, state=Attempt.State.LEFT, reason="The coordinator finished the job.", now=now)
    job.refresh_from_db()
    at = round_at_work(job)
    if at is not None and at.state == Round.State.FAILED:
        _merge_failed_again(job, at, now)
    elif at is None or at.state == Round.State.DONE or (at.state == Round.State.OPEN and at.live == 0):
        with transaction.atomic():
            job_complete(job, now, incomplete=True)


def job_update_settings(job: Job, patch: dict[str, Any]) -> TrainingSettings:
    """Settings that count from the next round. `patch` may be whole settings; the seed cannot change."""
    info = info_of(job)
    new = changed(settings_of(job), patch, for_experience=info.is_experience, info=info, weight_bytes=job.weight_bytes)
    with transaction.atomic():
        _coordinator_trains(job, new.coordinator_participates)
        _refuse_past_end(job_locked(job.pk), new)
        moved = Job.objects.filter(pk=job.pk, settings_text=job.settings_text).exclude(status=Job.Status.COMPLETED)
        if moved.update(settings_text=new.text) != 1:
            raise Conflict("The settings changed meanwhile, or the job is completed. Look again.", code="try_again")
        job.settings_text = new.text
        job_event(job.pk, "job.settings", settings=new.to_json())
        tell_members(job.pk)
        hint_job(job.pk, "settings")
    return new


def _refuse_past_end(job: Job, new: TrainingSettings) -> None:
    """The pass or round at work may be made the last one. Between two rounds that is the next: a paused job goes on."""
    if info_of(job).is_experience:
        at = round_at_work(job)
        between = at is None or at.state == Round.State.DONE
        name, least = "round", job.round_no + between
    else:
        name, least, between = "pass", job.pass_no + 1, False
    if new.epochs < least and job.status != Job.Status.COMPLETED:
        raise Invalid(
            f"settings.epochs: {new.epochs} given, but {name} {least} {'comes next' if between else 'is at work'}; "
            "finish the job instead.",
            field="settings.epochs",
        )


def _coordinator_trains(job: Job, participates: bool) -> None:
    """coordinatorParticipates speaks of the device that last opened the job; who accepted a link trains anyway."""
    if job.coordinator_peer_id is not None:
        devices = Membership.objects.filter(job=job, role="coordinator", current=True, accepted_link=False)
        devices.filter(peer_id=job.coordinator_peer_id).update(trains=participates)


def job_shuffle(job: Job) -> None:
    """Reorder what is left of this pass, and all later passes, by the job's next shuffle."""
    with transaction.atomic():
        held = job_locked(job.pk)
        if held.dataset is None:
            raise Conflict("This job has no chunks to shuffle.", field="job", code="wrong_kind")
        if held.status == Job.Status.COMPLETED:
            raise Conflict("The job is completed.", field="job.status", code="wrong_status")
        count, n = held.dataset.count, held.shuffles + 1
        full = seeds.shuffle_order(seeds.parse_seed(held.job_seed, "job_seed"), n, range(count))
        this_pass = reshuffled(order_of(held.pass_order, count), held.cursor, full)
        Job.objects.filter(pk=held.pk).update(
            shuffles=n, pass_order=order_store(this_pass), next_order=order_store(full)
        )
        job_event(job.pk, "job.shuffled", n=n)
        hint_job(job.pk, "status", "round")
    job.refresh_from_db()


def job_delete(job: Job) -> None:
    """Remove the job and everything only it refers to (the collector frees the files). There is no undo: people's
    deletions are `jobs.services.deleting.job_discard`."""
    if job.status == Job.Status.RUNNING:
        raise Conflict("Pause or finish the job before deleting it.", field="job.status", code="wrong_status")
    with transaction.atomic():
        tell_members(job.pk)
        dataset = job.dataset
        Checkpoint.objects.filter(job=job).delete()
        Round.objects.filter(job=job).delete()
        job.delete()
        if dataset is not None and not dataset.jobs.exists():
            dataset.delete()


def item_retry(job: Job, requeued_id: int) -> None:
    """Try a held item again, and go on."""
    _held(job, requeued_id).update(held=False, errors=0)
    job_event(job.pk, "item.retried", item=requeued_id)
    _resume_when_nothing_is_held(job)


def item_skip(job: Job, requeued_id: int) -> None:
    """Leave a held item out of this pass: the job will be `incomplete`, and checkpoints say that the item remains."""
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(incomplete=True, skipped_items=F("skipped_items") + 1)
        if _held(job, requeued_id).update(held=False, skipped=True) != 1:
            raise Conflict("The item was decided before.", field="item", code="decided")
        job_event(job.pk, "item.skipped", item=requeued_id)
    _resume_when_nothing_is_held(job)


def _held(job: Job, requeued_id: int) -> QuerySet[Requeued]:
    found = Requeued.objects.filter(job=job, pk=requeued_id, held=True)
    if not found.exists():
        raise NotFound("This job holds no such item.", field="item")
    return found


def _resume_when_nothing_is_held(job: Job) -> None:
    job.refresh_from_db()
    if job.status == Job.Status.PAUSED and not Requeued.objects.filter(job=job, held=True).exists():
        job_resume(job)
