"""What a coordinator does with a job. Each function is one short transaction; the order of locks is dealing.py's."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Requeued, Round
from jobs.services.dealing import deal_round, order_of, order_store, round_open
from jobs.services.events import enqueue, job_event
from jobs.services.settling import attempt_end
from jobs.services.status import job_complete, status_move, tell_members
from peers.models import Membership
from peers.outbox import hint_job
from weei_core import seeds
from weei_core.errors import Conflict, Invalid, NotFound
from weei_core.model_info import parse_model_info
from weei_core.training_settings import TrainingSettings, parse_settings


def job_settings(job: Job) -> TrainingSettings:
    info = parse_model_info(job.model_info_text.encode())
    return parse_settings_text(job.settings_text, for_experience=info.is_experience)


def parse_settings_text(text: str, *, for_experience: bool = False) -> TrainingSettings:
    """Settings that were checked when they were stored."""
    from weei_core import strict_json

    return parse_settings(strict_json.loads(text), for_experience=for_experience)


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
    with transaction.atomic():
        status_move(job, Job.Status.RUNNING, last_error="", failed_deals=0)
        Requeued.objects.filter(job=job, held=True).update(held=False, errors=0)
    job_go_on(job.pk, timezone.now())


def job_go_on(job_id: UUID, now: datetime) -> None:
    """Do what the database says is next for a running job. Safe to call at any time, by anybody, twice."""
    job = Job.objects.get(pk=job_id)
    if job.status != Job.Status.RUNNING:
        return
    at = Round.objects.filter(job=job, number=job.round_no).first() if job.round_no > job.first_round else None
    if at is None or at.state == Round.State.DONE:
        with transaction.atomic():
            round_open(job, job.round_no + 1, now)
    elif at.state == Round.State.FAILED:
        with transaction.atomic():
            moved = Round.objects.filter(pk=at.pk, state=Round.State.FAILED).update(
                state=Round.State.CLOSING, tries=0, merging_at=now, settings_text=job.settings_text
            )
            if moved:
                enqueue("jobs.tasks.merge", at.pk)
    elif at.state == Round.State.CLOSING:
        enqueue("jobs.tasks.merge", at.pk)
    else:
        with transaction.atomic():
            deal_round(at.pk, now)


def job_finish(job: Job) -> None:
    """End the job early: merge what was received, stop the rest."""
    if job.status == Job.Status.COMPLETED:
        return
    if job.status == Job.Status.READY:
        raise Conflict("The job has not been started; delete it instead.", field="job.status", code="wrong_status")
    now = timezone.now()
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(finishing=True)
        job_event(job.pk, "job.finishing")
    live = Attempt.objects.filter(slot__round__job=job, state=Attempt.State.LIVE)
    for attempt_id in list(live.values_list("pk", flat=True)):
        attempt_end(attempt_id, state=Attempt.State.LEFT, reason="The coordinator finished the job.", now=now)
    with transaction.atomic():
        # `closing` (something was received) completes with its merge; a failed merge has nothing that could be merged.
        if not Round.objects.filter(job=job, state=Round.State.CLOSING).exists():
            job_complete(job, now, incomplete=True)
        elif job.status == Job.Status.PAUSED:
            Job.objects.filter(pk=job.pk, status=Job.Status.PAUSED).update(status=Job.Status.RUNNING)
            for round_id in Round.objects.filter(job=job, state=Round.State.CLOSING).values_list("pk", flat=True):
                enqueue("jobs.tasks.merge", round_id)
    job.refresh_from_db()
    tell_members(job.pk)


def job_update_settings(job: Job, patch: dict[str, Any]) -> TrainingSettings:
    """Settings that count from the next round. `patch` may be whole settings; the seed cannot change."""
    info = parse_model_info(job.model_info_text.encode())
    old = job_settings(job)
    value = {**old.to_json(), **patch}
    if "rounds" in patch and "epochs" not in patch:
        value.pop("epochs", None)
    new = parse_settings(value, for_experience=info.is_experience, info=info, weight_bytes=job.weight_bytes)
    if new.seed != old.seed:
        raise Invalid("settings.seed: the seed of a job cannot be changed.", field="settings.seed")
    if new.epochs <= job.pass_no and job.status != Job.Status.COMPLETED:
        raise Invalid(
            f"settings.epochs: {new.epochs} given, but pass {job.pass_no + 1} is at work; finish the job instead.",
            field="settings.epochs",
        )
    with transaction.atomic():
        moved = Job.objects.filter(pk=job.pk, settings_text=job.settings_text).exclude(status=Job.Status.COMPLETED)
        if moved.update(settings_text=new.text) != 1:
            raise Conflict("The settings changed meanwhile, or the job is completed. Look again.", code="try_again")
        job.settings_text = new.text
        Membership.objects.filter(job=job, role="coordinator", current=True, accepted_link=False).update(
            trains=new.coordinator_participates
        )
        job_event(job.pk, "job.settings", settings=new.to_json())
        tell_members(job.pk)
        hint_job(job.pk, "settings")
    return new


def job_shuffle(job: Job) -> None:
    """Reorder what is left of this pass, and all later passes, by the job's next shuffle."""
    if job.dataset is None:
        raise Conflict("This job has no chunks to shuffle.", field="job", code="wrong_kind")
    if job.status == Job.Status.COMPLETED:
        raise Conflict("The job is completed.", field="job.status", code="wrong_status")
    from jobs.domain.queue import reshuffled

    count, n = job.dataset.count, job.shuffles + 1
    full = seeds.shuffle_order(seeds.parse_seed(job.job_seed, "job_seed"), n, range(count))
    this_pass = reshuffled(order_of(job.pass_order, count), job.cursor, full)
    with transaction.atomic():
        moved = Job.objects.filter(pk=job.pk, shuffles=n - 1, cursor=job.cursor, pass_no=job.pass_no).update(
            shuffles=n, pass_order=order_store(this_pass), next_order=order_store(full)
        )
        if moved != 1:
            raise Conflict("The queue moved on while it was shuffled. Try again.", code="try_again")
        job_event(job.pk, "job.shuffled", n=n)
        hint_job(job.pk, "status", "round")
    job.refresh_from_db()


def job_delete(job: Job) -> None:
    """Remove the job and everything only it refers to (the collector frees the files)."""
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
    """Leave a held item out of this pass; the job will be `incomplete`."""
    with transaction.atomic():
        _held(job, requeued_id).delete()
        Job.objects.filter(pk=job.pk).update(incomplete=True, skipped_items=job.skipped_items + 1)
        job_event(job.pk, "item.skipped", item=requeued_id)
    _resume_when_nothing_is_held(job)


def _held(job: Job, requeued_id: int) -> Any:
    found = Requeued.objects.filter(job=job, pk=requeued_id, held=True)
    if not found.exists():
        raise NotFound("This job holds no such item.", field="item")
    return found


def _resume_when_nothing_is_held(job: Job) -> None:
    job.refresh_from_db()
    if job.status == Job.Status.PAUSED and not Requeued.objects.filter(job=job, held=True).exists():
        job_resume(job)
