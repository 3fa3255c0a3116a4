"""Merging a round into its checkpoint. A pure function to a content-addressed file, so two runs make the same file;
one of them wins the compare-and-swap of the round, inserts the checkpoint and deals the next round."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import (
    artifact_new_file,
    artifact_source,
    artifacts_get,
    job_artifact_add,
    source_of,
    synced_meanwhile,
)
from jobs.domain.progress import Progress, trained_share
from jobs.domain.rounds import After
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.dealing import after_round, job_left, job_locked, pass_next, progress_of, round_open, unit_after_pass
from jobs.services.events import Phase, PhaseClock, job_event, phases_finished
from jobs.services.lease import kept_alive
from jobs.services.ledger import ledger_text
from jobs.services.settling import round_settle, slot_stop
from jobs.services.status import job_complete, job_pause_with_error, tell_members, validation_schedule
from jobs.services.texts import info_of, settings_in, settings_of
from peers.outbox import hint_job
from weei_core import js_json, strict_json
from weei_core.aggregation import MergeResult, NonFiniteStep, WeightedSource, average_metrics, merge, method_named
from weei_core.errors import WeeiError
from weei_core.log_context import note
from weei_core.model_info import ModelInfo
from weei_core.weights import Source

logger = logging.getLogger(__name__)


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
    merging: Phase
    saving: PhaseClock
    """Has run since the merge ended: the checkpoint's files are a part of saving it."""


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
    note(job=at.job_id, round=at.number)
    try:
        with kept_alive(lambda: Round.objects.filter(pk=round_id).update(merging_at=timezone.now())):
            slots = received_slots(at)
            merged = merge_slots(at, slots)
    except LostUpdate as lost:
        _return_to_open(at, lost.slot)
    except NonFiniteStep as error:
        _fail(at, error)
    except (WeeiError, OSError) as error:
        _tried(at, error)
    else:
        _commit(at, slots, merged)


def _tried(at: Round, error: Exception) -> None:
    """Something else is in the way (the start is damaged, the disk is full): the sweeper tries again, a few times."""
    logger.warning("round %s of job %s was not merged: %s", at.number, at.job_id, error)
    job_event(at.job_id, "aggregation.failed", round=at.number, tries=at.tries, reason=str(error)[:500])
    if at.tries >= settings.MERGE_TRIES:
        _give_up(at.pk, f" The last reason was: {error}")


def _give_up(round_id: int, why: str = "") -> None:
    """All tries are used up. Nothing to do if another process has merged the round meanwhile."""
    stuck = Round.objects.filter(pk=round_id, state=Round.State.CLOSING).first()
    if stuck is not None:
        job_pause_with_error(
            stuck.job_id, f"Round {stuck.number} could not be merged in {stuck.tries} tries. Resume to try again.{why}"
        )


def _closing(at: Round) -> QuerySet[Round]:
    """The round, if it is still closing over the updates that this merge has read."""
    return Round.objects.filter(pk=at.pk, state=Round.State.CLOSING, closing_at=at.closing_at)


def received_slots(at: Round) -> list[tuple[Slot, Attempt]]:
    """The slots that were received, in merge order: position in the pass, first record or unit. Those of an experience
    job may hold no finished unit; they do not count."""
    attempts = (
        Attempt.objects.filter(slot__round=at, state=Attempt.State.RECEIVED)
        .select_related("slot__chunk")
        .order_by("slot__position", "slot__record_start", "finished_at")
    )
    return [(attempt.slot, attempt) for attempt in attempts]


def merge_slots(at: Round, slots: Sequence[tuple[Slot, Attempt]]) -> Merged:
    """Files in, one or two content-addressed files out."""
    clock = PhaseClock()
    with artifact_new_file() as weights_out, artifact_new_file() as state_out:
        with synced_meanwhile(weights_out, state_out):
            result = merge_into(at, slots, weights_out.file, state_out.file)
        merging, now = clock.finished(settings_in(at.job, at.settings_text).aggregation.method), timezone.now()
        return Merged(
            result,
            weights_out.commit(result.weights_sha256, now),
            state_out.commit(result.state_sha256, now) if result.state_sha256 else None,
            merging,
            clock,
        )


def merge_into(
    at: Round, slots: Sequence[tuple[Slot, Attempt]], weights_out: BinaryIO, state_out: BinaryIO
) -> MergeResult:
    """Merge the stored updates into two empty files; that of the state stays empty with a method that keeps none."""
    chosen = settings_in(at.job, at.settings_text).aggregation
    before = Checkpoint.objects.select_related("state").get(job=at.job, round=at.number - 1)
    keeps = before.state if before.aggregation_method == chosen.method else None
    counted = [(slot, attempt) for slot, attempt in slots if attempt.unique_examples > 0]
    stored = artifacts_get([attempt.sha256 for _, attempt in counted])
    sources = [(slot, attempt, _update_source(slot, stored.get(attempt.sha256))) for slot, attempt in counted]
    return merge(
        start=artifact_source(at.start_weights),
        updates=[
            WeightedSource(source, attempt.unique_examples, (slot.position, slot.record_start))
            for slot, attempt, source in sources
        ],
        state=source_of(keeps) if keeps else None,
        step=before.aggregation_step + 1 if keeps else 1,
        method=chosen,
        average_only=info_of(at.job).average_only_ranges,
        weights_out=weights_out,
        state_out=state_out if method_named(chosen.method).state_vectors else None,
    )


def _update_source(slot: Slot, artifact: Artifact | None) -> Source:
    """The update's bytes, verified: updates are not synced to the disk when they come."""
    if artifact is None:
        raise LostUpdate(slot)
    try:
        return source_of(artifact)
    except (WeeiError, OSError) as error:
        raise LostUpdate(slot) from error


def _return_to_open(at: Round, slot: Slot) -> None:
    """One stored update cannot be used: the round opens again without it, and its item goes back."""
    now = timezone.now()
    reason = "The stored update is missing or damaged."
    with transaction.atomic():
        lost = Attempt.objects.filter(slot=slot, state=Attempt.State.RECEIVED)
        if lost.update(state=Attempt.State.EXPIRED, reason=reason) != 1:
            return
        if _closing(at).update(state=Round.State.OPEN, received=F("received") - 1, tries=0) != 1:
            transaction.set_rollback(True)
            return
        slot_stop(slot, reason=reason, is_error=False, now=now)
        round_settle(at.pk, now)


def _fail(at: Round, error: NonFiniteStep) -> None:
    """The step is not finite: nothing changes, the job pauses, and resume merges the same updates again.

    A job that is finishing ends instead: it has tried with the settings that it has now.
    """
    with transaction.atomic():
        if _closing(at).update(state=Round.State.FAILED) != 1:
            return
        job_event(at.job_id, "aggregation.failed", round=at.number, reason=error.message)
        job = job_locked(at.job_id)
        if job.finishing:
            job_complete(job, timezone.now(), incomplete=True)
        else:
            job_pause_with_error(at.job_id, f"Round {at.number} was not merged: {error.message}")


def _commit(at: Round, slots: Sequence[tuple[Slot, Attempt]], merged: Merged) -> None:
    now = timezone.now()
    with transaction.atomic():
        if _closing(at).update(state=Round.State.DONE, done_at=now) != 1:
            return
        job = job_locked(at.job_id)
        made = _checkpoint(at, job, info_of(job), slots, merged, now)
        phases_finished(job.pk, at.number, [merged.merging, merged.saving.finished("checkpoint-save")])
        if not settings.KEEP_UPDATES:
            # All of them, the discarded ones too: the next round's cannot have come before this commit deals it.
            JobArtifact.objects.filter(job=job, kind=JobArtifact.Kind.UPDATE).delete()
        _advance(job, made, now)
        hint_job(job.pk, "checkpoints", "status", "round")


def _checkpoint(
    at: Round, job: Job, info: ModelInfo, slots: Sequence[tuple[Slot, Attempt]], merged: Merged, now: datetime
) -> Checkpoint:
    reports = [(attempt.unique_examples, _report(attempt)) for _, attempt in slots if attempt.unique_examples > 0]
    metrics = average_metrics(sorted(info.metric_ids), [(n, report["metrics"]) for n, report in reports])
    progress, left = progress_of(job), job_left(job)
    made = Checkpoint.objects.create(
        job=job,
        round=at.number,
        weights=merged.weights,
        state=merged.state,
        aggregation_method=settings_in(job, at.settings_text).aggregation.method if merged.state else "",
        aggregation_step=merged.result.step,
        progress_text=progress.to_text(),
        pass_order=job.pass_order,
        next_order=job.next_order,
        metrics_text=js_json.dumps(metrics),
        examples_processed=sum(report["examplesProcessed"] for _, report in reports),
        settings_text=at.settings_text,
        ledger_text=ledger_text(at, job, slots, merged.result),
        **_passes(job, at, progress, left),
        remaining_items=left,
        next_unit=_next_unit(job, info, left),
        created=now,
    )
    job_artifact_add(job, merged.weights.sha256, JobArtifact.Kind.WEIGHTS, "")
    if merged.state is not None:
        job_artifact_add(job, merged.state.sha256, JobArtifact.Kind.STATE, "")
    job_event(job.pk, "checkpoint.saved", round=at.number, sha256=merged.weights.sha256)
    return made


def _passes(job: Job, at: Round, progress: Progress, left: int) -> dict[str, float]:
    """Completed passes, and with the fraction of the one at work; rounds for a job without data."""
    if job.dataset is None:
        return {"dataset_epoch": at.number, "dataset_progress": at.number}
    share = 1.0 if left == 0 else trained_share(progress, job.dataset.count)
    return {"dataset_epoch": job.pass_no + (left == 0), "dataset_progress": job.pass_no + share}


def _next_unit(job: Job, info: ModelInfo, left: int) -> int | None:
    """Units that were dealt count as used. Where records are units, it is the first one of the pass that goes on."""
    if not info.is_experience:
        return None
    return unit_after_pass(job) if job.dataset is not None and left == 0 else job.next_unit


def _report(attempt: Attempt) -> Any:
    return strict_json.loads(attempt.report_text)


def _advance(job: Job, made: Checkpoint, now: datetime) -> None:
    """What comes after a checkpoint: the same pass, the next one, or the end."""
    left, epochs = made.remaining_items, settings_of(job).epochs
    what = after_round(job, made.round, left)
    validation_schedule(job, made, ends_pass=left == 0)
    if what == After.COMPLETED:
        experience = info_of(job).is_experience
        planned = made.round >= epochs if experience else left == 0 and job.pass_no + 1 >= epochs
        job_complete(job, now, incomplete=job.incomplete or not planned)
        return
    if what == After.NEXT_PASS:
        pass_next(job)
    if round_open(job, made.round + 1, now) is None:
        tell_members(job.pk)
