"""Accepting updates: fenced by the attempt, counted once, kept with their hash."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import NewArtifact, artifact_insert, job_artifact_add, job_artifact_use
from checkpoints.services.rows import only_row
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.dealing import deal_round
from jobs.services.settling import attempt_end, round_settle, slot_stop
from jobs.services.texts import info_of
from peers.models import Peer
from peers.outbox import hint_job, hint_peers
from weei_core import js_json, strict_json
from weei_core.errors import Conflict, Invalid, NotFound, WeeiError
from weei_core.results import UpdateReport, module_error_text, parse_report


def attempt_of(peer: Peer, attempt_id: UUID) -> Attempt:
    """The peer's own attempt; another peer's does not exist for it."""
    found = only_row(Attempt.objects.select_related("slot__round__job", "slot__chunk").filter(pk=attempt_id, peer=peer))
    if found is None:
        raise NotFound("There is no such attempt of this peer.", field="attempt")
    return found


def stale(attempt: Attempt) -> Conflict:
    """What a sender of outdated work is told: the round and the checkpoint that it may work for next."""
    job = attempt.slot.round.job
    job.refresh_from_db(fields=["status"])  # it may have been read when a long upload began
    latest = Checkpoint.objects.filter(job=job).order_by("-round").values_list("round", "weights_id").first()
    next_round, weights = (latest[0] + 1, latest[1]) if latest and job.status != Job.Status.COMPLETED else (None, None)
    return Conflict(
        f"This attempt is over ({attempt.reason or attempt.state}); its update is discarded.",
        field="attempt",
        code="stale_attempt",
        round=next_round,
        checkpoint=weights,
    )


def update_precheck(*, peer: Peer, attempt_id: UUID, length: int, sha256: str) -> Attempt | None:
    """Refuse what cannot be accepted before a byte of it is read. The live attempt; None for bytes accepted before."""
    attempt = attempt_of(peer, attempt_id)
    if _known(attempt, sha256):
        return None
    job = attempt.slot.round.job
    if length != job.weight_bytes:
        error = Invalid(
            f"The update has {length} bytes, the weights have {job.weight_bytes}.", field="length", code="wrong_size"
        )
        update_refused(peer=peer, attempt_id=attempt_id, error=error)
        raise error
    return attempt


def _known(attempt: Attempt, sha256: str) -> bool:
    """False for a live attempt, True for the bytes that it was accepted with; raises Conflict for everything else."""
    if attempt.state == Attempt.State.LIVE:
        return False
    if attempt.state != Attempt.State.RECEIVED:
        raise stale(attempt)
    if attempt.sha256 != sha256:
        raise Conflict(
            "An update of this attempt was accepted before, with other bytes; the first is kept.",
            field="sha256",
            code="already_received",
        )
    return True


def update_accept(
    *,
    peer: Peer,
    attempt_id: UUID,
    artifact: Artifact | NewArtifact,
    report_text: str,
    uploading_at: datetime | None = None,
    prechecked: Attempt | None = None,
) -> bool:
    """Count the update once. True: it was accepted before. Hash, length and finiteness were checked by the caller.
    `uploading_at` is when its bytes began to come, as far as the caller knows; `prechecked` what `update_precheck`
    found. It may be over by now: that is decided by the compare-and-swap."""
    attempt = prechecked or attempt_of(peer, attempt_id)
    if _known(attempt, artifact.sha256):
        return True
    try:
        report = _report(attempt, report_text)
    except Invalid as error:
        update_refused(peer=peer, attempt_id=attempt_id, error=error)
        raise
    with transaction.atomic():
        if not _receive(attempt, artifact, report, uploading_at):
            attempt.refresh_from_db()
            return _known(attempt, artifact.sha256)
        now = timezone.now()
        round_settle(attempt.slot.round_id, now, received=report.unique_examples > 0)
        if report.unique_examples == 0:
            # An item that went back may be for somebody who joined late and waits.
            deal_round(attempt.slot.round_id, now)
        hint_peers([peer.pk], soon=True)
        hint_job(attempt.slot.round.job_id, "round", "participants")
    return False


def _receive(
    attempt: Attempt, artifact: Artifact | NewArtifact, report: UpdateReport, uploading_at: datetime | None
) -> bool:
    """The compare-and-swap of the attempt and its round's counters. False: another outcome was first."""
    now = timezone.now()
    weight = report.unique_examples
    moved = Attempt.objects.filter(pk=attempt.pk, state=Attempt.State.LIVE).update(
        state=Attempt.State.RECEIVED,
        sha256=artifact.sha256,
        unique_examples=weight,
        report_text=_stored(report),
        uploading_at=uploading_at,
        finished_at=now,
    )
    if moved != 1:
        return False
    counted = Round.objects.filter(pk=attempt.slot.round_id, state=Round.State.OPEN).update(
        live=F("live") - 1, received=F("received") + int(weight > 0)
    )
    if counted != 1:
        raise stale(attempt)
    slot, job = attempt.slot, attempt.slot.round.job
    if weight == 0 and slot.chunk is not None:
        # An error of the item, or a job whose last item never ends would deal it for ever.
        slot_stop(slot, reason="No unit of it was finished.", is_error=True, now=now)
    else:
        Slot.objects.filter(pk=slot.pk).update(status=Slot.Status.RECEIVED, finished_at=now)
    if isinstance(artifact, NewArtifact):
        artifact_insert(artifact, now)
        job_artifact_use(job, artifact.sha256, JobArtifact.Kind.UPDATE)
    else:
        job_artifact_add(job, artifact.sha256, JobArtifact.Kind.UPDATE, "", now=now)
    return True


def _stored(report: UpdateReport) -> str:
    """What is kept of a report: checked values only."""
    steps = {} if report.optimizer_steps is None else {"optimizerSteps": report.optimizer_steps}
    return js_json.dumps(
        {
            "round": report.round,
            "examplesProcessed": report.examples_processed,
            "uniqueExamples": report.unique_examples,
            "metrics": {name: report.metrics[name] for name in sorted(report.metrics)},
            **steps,
        }
    )


def _report(attempt: Attempt, report_text: str) -> UpdateReport:
    """The checked report. Raises Conflict for work on another round or checkpoint, Invalid for values out of range."""
    at = attempt.slot.round
    try:
        members = strict_json.as_object(strict_json.loads(report_text, what="report"), "report")
    except Invalid as error:
        raise Invalid(error.message, field=error.field, code="invalid_report") from None
    base = members.pop("checkpoint", at.start_weights)
    if members.get("round") != at.number or base != at.start_weights:
        raise Conflict(
            f"The report speaks of round {strict_json.shown(members.get('round'))}, the attempt belongs to round "
            f"{at.number} on checkpoint {at.start_weights}; its update is discarded.",
            field="report.round",
            code="stale_attempt",
            round=at.number,
            checkpoint=at.start_weights,
        )
    info = info_of(at.job)
    return parse_report(
        members,
        assigned=attempt.slot.record_count,
        experience=info.is_experience,
        declared_metrics=info.metric_ids,
    )


def update_refused(*, peer: Peer, attempt_id: UUID, error: WeeiError) -> None:
    """An invalid update ends its live attempt: one error for the item."""
    attempt_of(peer, attempt_id)
    attempt_end(attempt_id, state=Attempt.State.FAILED, reason=error.message, now=timezone.now())


def attempt_failed(*, peer: Peer, attempt_id: UUID, reason: str) -> None:
    """The peer says that its attempt ended in an error. Idempotent."""
    attempt = attempt_of(peer, attempt_id)
    said = module_error_text(reason, operation="train", model_id=attempt.slot.round.job.model_id)
    attempt_end(attempt_id, state=Attempt.State.FAILED, reason=said, now=timezone.now())


def attempt_trains(*, peer: Peer, attempt_id: UUID, now: datetime) -> None:
    """The peer was heard training for the first time: for the timeline of the round only, nothing is decided by it."""
    mine = Attempt.objects.filter(pk=attempt_id, peer=peer, state=Attempt.State.LIVE, training_at=None)
    mine.update(training_at=now)
