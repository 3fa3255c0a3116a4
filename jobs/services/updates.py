"""Accepting updates: fenced by the attempt, counted once, kept with their hash."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.artifacts import NewArtifact, artifact_insert, artifact_reference, job_artifact_add
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.settling import attempt_end, round_settle
from peers.models import Peer
from peers.outbox import hint_job, hint_peers
from weei_core import strict_json
from weei_core.errors import Conflict, Invalid, NotFound, WeeiError
from weei_core.model_info import parse_model_info
from weei_core.results import UpdateReport, parse_report


def attempt_of(peer: Peer, attempt_id: UUID) -> Attempt:
    """The peer's own attempt; another peer's does not exist for it."""
    found = Attempt.objects.select_related("slot__round__job", "slot__chunk").filter(pk=attempt_id, peer=peer).first()
    if found is None:
        raise NotFound("There is no such attempt of this peer.", field="attempt")
    return found


def stale(attempt: Attempt) -> Conflict:
    """What a sender of outdated work is told: the round and the checkpoint that it may work for next."""
    job = attempt.slot.round.job
    now_open = Round.objects.filter(job=job).order_by("-number").values("number", "start_weights").first()
    return Conflict(
        f"This attempt is over ({attempt.reason or attempt.state}); its update is discarded.",
        field="attempt",
        code="stale_attempt",
        round=now_open and now_open["number"],
        checkpoint=now_open and now_open["start_weights"],
    )


def update_precheck(*, peer: Peer, attempt_id: UUID, length: int, sha256: str) -> str:
    """Refuse what cannot be accepted before a byte of it is read. "live", or "duplicate" for bytes accepted before."""
    attempt = attempt_of(peer, attempt_id)
    if attempt.state == Attempt.State.RECEIVED:
        return _duplicate(attempt, sha256)
    if attempt.state != Attempt.State.LIVE:
        raise stale(attempt)
    job = attempt.slot.round.job
    if length != job.weight_bytes:
        error = Invalid(
            f"The update has {length} bytes, the weights have {job.weight_bytes}.", field="length", code="wrong_size"
        )
        update_refused(peer=peer, attempt_id=attempt_id, error=error)
        raise error
    return "live"


def _duplicate(attempt: Attempt, sha256: str) -> str:
    if attempt.sha256 != sha256:
        raise Conflict(
            "An update of this attempt was accepted before, with other bytes; the first is kept.",
            field="sha256",
            code="already_received",
        )
    return "duplicate"


def update_accept(*, peer: Peer, attempt_id: UUID, artifact: Artifact | NewArtifact, report_text: str) -> bool:
    """Count the update once. True: it was accepted before. Hash, length and finiteness were checked by the caller."""
    attempt = attempt_of(peer, attempt_id)
    try:
        report = _report(attempt, report_text)
    except Invalid as error:
        update_refused(peer=peer, attempt_id=attempt_id, error=error)
        raise
    with transaction.atomic():
        if not _receive(attempt, artifact, report, report_text):
            attempt.refresh_from_db()
            if attempt.state != Attempt.State.RECEIVED:
                raise stale(attempt)
            return _duplicate(attempt, artifact.sha256) == "duplicate"
        round_settle(attempt.slot.round_id, timezone.now())
        hint_peers([peer.pk])
        hint_job(attempt.slot.round.job_id, "round", "participants")
    return False


def _receive(attempt: Attempt, artifact: Artifact | NewArtifact, report: UpdateReport, report_text: str) -> bool:
    """The compare-and-swap of the attempt and its round's counters. False: another outcome was first."""
    now = timezone.now()
    weight = report.unique_examples
    moved = Attempt.objects.filter(pk=attempt.pk, state=Attempt.State.LIVE).update(
        state=Attempt.State.RECEIVED,
        sha256=artifact.sha256,
        unique_examples=weight,
        report_text=report_text,
        finished_at=now,
    )
    if moved != 1:
        return False
    counted = Round.objects.filter(pk=attempt.slot.round_id, state=Round.State.OPEN).update(
        live=F("live") - 1, received=F("received") + (weight > 0)
    )
    if counted != 1:
        raise stale(attempt)
    Slot.objects.filter(pk=attempt.slot_id).update(status=Slot.Status.RECEIVED, finished_at=now)
    job = attempt.slot.round.job
    if isinstance(artifact, NewArtifact):
        artifact_insert(artifact, now)
    else:
        artifact_reference(artifact.sha256, now)
    job_artifact_add(job, artifact.sha256, JobArtifact.Kind.UPDATE, "")
    return True


def _report(attempt: Attempt, report_text: str) -> UpdateReport:
    job: Job = attempt.slot.round.job
    info = parse_model_info(job.model_info_text.encode())
    report = parse_report(
        strict_json.loads(report_text, what="report"),
        assigned=attempt.slot.record_count,
        experience=info.is_experience,
        declared_metrics=info.metric_ids,
    )
    if report.round != attempt.slot.round.number:
        raise Invalid(
            f"report.round is {report.round}, the attempt's is {attempt.slot.round.number}.",
            field="report.round",
            code="invalid_report",
        )
    return report


def update_refused(*, peer: Peer, attempt_id: UUID, error: WeeiError) -> None:
    """An invalid update ends its live attempt: one error for the item."""
    attempt_of(peer, attempt_id)
    attempt_end(attempt_id, state=Attempt.State.FAILED, reason=error.message, now=timezone.now())


def attempt_failed(*, peer: Peer, attempt_id: UUID, reason: str) -> None:
    """The peer says that its attempt ended in an error. Idempotent."""
    attempt_of(peer, attempt_id)
    attempt_end(
        attempt_id, state=Attempt.State.FAILED, reason=reason or "The participant gave no reason.", now=timezone.now()
    )
