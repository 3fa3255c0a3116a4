"""Merging a round into its checkpoint. A pure function to a content-addressed file, so two runs make the same file;
one of them wins the compare-and-swap of the round, inserts the checkpoint and deals the next round."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_new_file, artifact_source, job_artifact_add
from jobs.domain.rounds import After, Position, after_checkpoint, validation_due
from jobs.models import Attempt, Job, Requeued, Round, Slot
from jobs.services.dealing import pass_next, progress_of, round_open
from jobs.services.events import enqueue, job_event
from jobs.services.lease import kept_alive
from jobs.services.ledger import ledger_text
from jobs.services.lifecycle import parse_settings_text
from jobs.services.settling import round_settle, slot_stop
from jobs.services.status import job_complete, job_pause_with_error, tell_members
from peers.outbox import hint_job
from weei_core import js_json, strict_json
from weei_core.aggregation import MergeResult, NonFiniteStep, WeightedSource, average_metrics, merge, method_named
from weei_core.errors import WeeiError
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.training_settings import TrainingSettings
from weei_core.weights import Source


class LostUpdate(Exception):
    """A stored update is missing, or is not what was accepted."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot.pk)
        self.slot = slot


@dataclass(frozen=True)
class Merged:
    result: MergeResult
    weights: Artifact
    state: Artifact | None


class HashingSource:
    """Reads like its source, front to back, and knows the SHA-256 of what it read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._hash = hashlib.sha256()

    @property
    def size(self) -> int:
        return self._source.size

    def readinto(self, offset: int, buffer: memoryview) -> None:
        self._source.readinto(offset, buffer)
        self._hash.update(buffer)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def round_merge(round_id: int) -> None:
    """Make the checkpoint of a closing round. May run twice, anywhere, and be killed at any point."""
    now = timezone.now()
    taken = Round.objects.filter(pk=round_id, state=Round.State.CLOSING, tries__lt=settings.MERGE_TRIES).update(
        tries=F("tries") + 1, merging_at=now
    )
    if not taken:
        _give_up(round_id)
        return
    at = Round.objects.select_related("job__module", "job__dataset").get(pk=round_id)
    try:
        with kept_alive(lambda: Round.objects.filter(pk=round_id).update(merging_at=timezone.now())):
            slots = received_slots(at)
            merged = merge_slots(at, slots)
    except LostUpdate as lost:
        _return_to_open(at, lost.slot)
    except NonFiniteStep as error:
        _fail(at, error)
    else:
        _commit(at, slots, merged)


def _give_up(round_id: int) -> None:
    stuck = Round.objects.filter(pk=round_id, state=Round.State.CLOSING).first()
    if stuck is not None:
        job_pause_with_error(
            stuck.job_id, f"Round {stuck.number} could not be merged in {stuck.tries} tries. Resume to try again."
        )


def received_slots(at: Round) -> list[tuple[Slot, Attempt]]:
    """The slots that count, in merge order: position in the pass, first record."""
    attempts = (
        Attempt.objects.filter(slot__round=at, state=Attempt.State.RECEIVED)
        .select_related("slot__chunk")
        .order_by("slot__position", "slot__record_start", "slot__unit_start")
    )
    return [(attempt.slot, attempt) for attempt in attempts]


def merge_slots(at: Round, slots: Sequence[tuple[Slot, Attempt]]) -> Merged:
    """Files in, one or two content-addressed files out."""
    chosen = parse_settings_text(at.settings_text).aggregation
    info = parse_model_info(at.job.model_info_text.encode())
    before = Checkpoint.objects.select_related("state").get(job=at.job, round=at.number - 1)
    keeps = before.state if before.aggregation_method == chosen.method else None
    counted = [(slot, attempt) for slot, attempt in slots if attempt.unique_examples > 0]
    sources = [(slot, attempt, _update_source(slot, attempt)) for slot, attempt in counted]
    with artifact_new_file() as weights_out, artifact_new_file() as state_out:
        result = merge(
            start=artifact_source(at.start_weights),
            updates=[
                WeightedSource(source, attempt.unique_examples, (slot.position, slot.record_start))
                for slot, attempt, source in sources
            ],
            state=artifact_source(keeps.sha256) if keeps else None,
            step=before.aggregation_step + 1 if keeps else 1,
            method=chosen,
            average_only=average_only_ranges(info),
            weights_out=weights_out.file,
            state_out=state_out.file if method_named(chosen.method).state_vectors else None,
        )
        for slot, attempt, source in sources:
            if source.hexdigest() != attempt.sha256:
                raise LostUpdate(slot)
        now = timezone.now()
        return Merged(
            result,
            weights_out.commit(result.weights_sha256, now),
            state_out.commit(result.state_sha256, now) if result.state_sha256 else None,
        )


def average_only_ranges(info: ModelInfo) -> list[tuple[int, int]]:
    ranges = info.aggregation.average_only if info.aggregation and info.aggregation.average_only else ()
    return [(r.offset, r.bytes) for r in ranges]


def _update_source(slot: Slot, attempt: Attempt) -> HashingSource:
    try:
        return HashingSource(artifact_source(attempt.sha256))
    except (WeeiError, OSError) as error:
        raise LostUpdate(slot) from error


def _return_to_open(at: Round, slot: Slot) -> None:
    """One stored update cannot be used: the round opens again without it, and its item goes back."""
    now = timezone.now()
    with transaction.atomic():
        moved = Round.objects.filter(pk=at.pk, state=Round.State.CLOSING).update(
            state=Round.State.OPEN, received=F("received") - 1
        )
        if moved != 1:
            return
        reason = "The stored update is missing or damaged."
        Attempt.objects.filter(slot=slot, state=Attempt.State.RECEIVED).update(
            state=Attempt.State.EXPIRED, reason=reason
        )
        slot_stop(slot, reason=reason, is_error=False, now=now)
        round_settle(at.pk, now)


def _fail(at: Round, error: NonFiniteStep) -> None:
    """The step is not finite: nothing changes, the job pauses, and resume merges the same updates again."""
    with transaction.atomic():
        if Round.objects.filter(pk=at.pk, state=Round.State.CLOSING).update(state=Round.State.FAILED) == 1:
            job_event(at.job_id, "aggregation.failed", round=at.number, reason=error.message)
            job_pause_with_error(at.job_id, f"Round {at.number} was not merged: {error.message}")


def _commit(at: Round, slots: Sequence[tuple[Slot, Attempt]], merged: Merged) -> None:
    now = timezone.now()
    with transaction.atomic():
        done = Round.objects.filter(pk=at.pk, state=Round.State.CLOSING).update(state=Round.State.DONE, done_at=now)
        if done != 1:
            return
        job = Job.objects.select_for_update().select_related("dataset", "pass_order", "next_order").get(pk=at.job_id)
        info = parse_model_info(job.model_info_text.encode())
        made = _checkpoint(at, job, info, slots, merged, now)
        _advance(job, made, parse_settings_text(job.settings_text), now)
        if not settings.KEEP_UPDATES:
            shas = [attempt.sha256 for _, attempt in slots]
            JobArtifact.objects.filter(job=job, kind=JobArtifact.Kind.UPDATE, artifact__in=shas).delete()
        hint_job(job.pk, "checkpoints", "status", "round")


def _checkpoint(
    at: Round, job: Job, info: ModelInfo, slots: Sequence[tuple[Slot, Attempt]], merged: Merged, now: datetime
) -> Checkpoint:
    reports = [(attempt.unique_examples, _report(attempt)) for _, attempt in slots if attempt.unique_examples > 0]
    metrics = average_metrics(sorted(info.metric_ids), [(n, report["metrics"]) for n, report in reports])
    progress = progress_of(job)
    left = job_left(job)
    total = job.dataset.count if job.dataset else 0
    made = Checkpoint.objects.create(
        job=job,
        round=at.number,
        weights=merged.weights,
        state=merged.state,
        aggregation_method=parse_settings_text(at.settings_text).aggregation.method if merged.state else "",
        aggregation_step=merged.result.step,
        progress_text=progress.to_text(),
        pass_order=job.pass_order,
        next_order=job.next_order,
        metrics_text=js_json.dumps(metrics),
        examples_processed=sum(report["examplesProcessed"] for _, report in reports),
        settings_text=at.settings_text,
        ledger_text=ledger_text(at, job, slots, merged.result),
        dataset_epoch=job.pass_no + (left == 0),
        dataset_progress=job.pass_no + (1 - left / total if total else 0),
        remaining_items=left,
        created=now,
    )
    job_artifact_add(job, merged.weights.sha256, JobArtifact.Kind.WEIGHTS, "")
    if merged.state is not None:
        job_artifact_add(job, merged.state.sha256, JobArtifact.Kind.STATE, "")
    job_event(job.pk, "checkpoint.saved", round=at.number, sha256=merged.weights.sha256)
    return made


def _report(attempt: Attempt) -> Any:
    return strict_json.loads(attempt.report_text)


def job_left(job: Job) -> int:
    """Items of this pass that no checkpoint counts yet (held ones too)."""
    assert job.dataset is not None
    return job.dataset.count - job.cursor + Requeued.objects.filter(job=job).count()


def _advance(job: Job, made: Checkpoint, chosen: TrainingSettings, now: datetime) -> None:
    """What comes after a checkpoint: the same pass, the next one, or the end."""
    left = made.remaining_items
    what = after_checkpoint(Position(job.pass_no, left, chosen.epochs), finishing=job.finishing)
    schedule = chosen.validation_schedule
    due = schedule is not None and validation_due(
        enabled=schedule.enabled,
        unit=schedule.unit,
        every=schedule.every,
        round_no=made.round,
        first=made.round == job.first_round,
        last=what == After.COMPLETED,
        ends_pass=left == 0,
        passes=job.pass_no + 1,
    )
    if due and job.validation_file_id:
        Checkpoint.objects.filter(pk=made.pk).update(validation=Checkpoint.Validation.DUE)
        enqueue("jobs.tasks.evaluate", made.pk)
    if what == After.COMPLETED:
        job_complete(job, now, incomplete=job.incomplete or left > 0)
        return
    if what == After.NEXT_PASS:
        pass_next(job)
    if round_open(job, made.round + 1, now) is None:
        tell_members(job.pk)
