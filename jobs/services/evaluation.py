"""Validation of checkpoints: its own task, which never delays a round. What is due stands in the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from jobs.services import modules
from jobs.services.auxiliary import filled_slots
from jobs.services.events import Phase, PhaseClock, enqueue, job_event, phases_finished
from jobs.services.lease import kept_alive
from jobs.services.modules import Start
from jobs.services.texts import info_of, settings_in
from peers.outbox import hint_job
from weei_core import js_json, seeds
from weei_core.errors import Conflict, NotFound, WeeiError
from weei_core.log_context import note
from weei_core.model_package import parse_package

Validation = Checkpoint.Validation
MAX_REASON_CHARACTERS = 500


def validation_request(job: Job, round_no: int | None = None) -> Checkpoint:
    """Evaluate a checkpoint (the latest by default) on demand. Asked for twice, it runs once."""
    info = info_of(job)
    if not info.capabilities.evaluation:
        raise Conflict("The model does not declare evaluation.", field="capabilities.evaluation", code="no_evaluation")
    if not info.reads_data and not info.evaluation_units:
        raise Conflict(
            "The model declares no evaluation units (workSource.evaluationUnits is 0).",
            field="workSource.evaluationUnits",
            code="no_evaluation",
        )
    if info.reads_data and job.validation_file_id is None:
        raise Conflict("The job was created without a validation file.", field="validation", code="no_validation_file")
    found = Checkpoint.objects.filter(job=job)
    checkpoint = found.order_by("-round").first() if round_no is None else found.filter(round=round_no).first()
    if checkpoint is None:
        raise NotFound(f"The job has no checkpoint of round {round_no}.", field="round")
    moved = Checkpoint.objects.filter(pk=checkpoint.pk).exclude(validation__in=[Validation.DUE, Validation.RUNNING])
    if moved.update(validation=Validation.DUE, validation_tries=0, validation_error=""):
        enqueue("jobs.tasks.evaluate", checkpoint.pk)
        hint_job(job.pk, "checkpoints")
    checkpoint.refresh_from_db()
    return checkpoint


def validation_run(checkpoint_id: int) -> None:
    """Evaluate one checkpoint if it is due, or if whoever had it is gone. A failure is noted; the job goes on."""
    row = Checkpoint.objects.filter(pk=checkpoint_id)
    now = timezone.now()
    due = Q(validation=Validation.DUE) | Q(validation=Validation.RUNNING, validation_lease__lt=now)
    taken = row.filter(due).update(
        validation=Validation.RUNNING, validation_lease=_lease(now), validation_tries=F("validation_tries") + 1
    )
    checkpoint = row.select_related("job").first() if taken else None
    if checkpoint is None:
        return
    note(job=checkpoint.job_id, round=checkpoint.round)
    # `tries` fences: once another run has begun, this one writes nothing any more.
    mine = row.filter(validation=Validation.RUNNING, validation_tries=checkpoint.validation_tries)
    try:
        if checkpoint.validation_tries > settings.TASK_TRIES:
            raise Conflict("The evaluation ended without an answer each time; the module may need too much memory.")
        clock = PhaseClock()
        with kept_alive(lambda: mine.update(validation_lease=_lease(timezone.now()))):
            text = _evaluate(checkpoint)
    except WeeiError as error:
        reason = error.message.replace("\0", "\ufffd")[:MAX_REASON_CHARACTERS]
        _ended(checkpoint, mine, Validation.FAILED, validation_error=reason)
    else:
        phase = clock.finished("validation")
        _ended(checkpoint, mine, Validation.DONE, phase, validation_text=text, validation_error="")


def _ended(
    checkpoint: Checkpoint, mine: QuerySet[Checkpoint], outcome: str, phase: Phase | None = None, **fields: str
) -> None:
    with transaction.atomic():
        if mine.update(validation=outcome, validation_lease=None, **fields) != 1:
            return
        reason = {"reason": fields["validation_error"]} if outcome == Validation.FAILED else {}
        event = "validation.failed" if reason else "validation.finished"
        job_event(checkpoint.job_id, event, round=checkpoint.round, **reason)
        if phase is not None:
            phases_finished(checkpoint.job_id, checkpoint.round, [phase])
        hint_job(checkpoint.job_id, "checkpoints")


def _lease(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.MERGE_LEASE_SECONDS)


def _evaluate(checkpoint: Checkpoint) -> str:
    job = checkpoint.job
    info, file = info_of(job), job.validation_file_id
    start = Start(checkpoint.weights_id, filled_slots(job, checkpoint.round))
    with modules.open_jail(job.module_id, info.auxiliary_weights) as jail:
        data = artifact_path(file) if file else None
        found = modules.evaluate(jail, info, start, _work(job, checkpoint), data)
    return js_json.dumps({"metrics": found.metrics, "examplesProcessed": found.examples_processed})


def _work(job: Job, checkpoint: Checkpoint) -> dict[str, Any]:
    """What `evaluate` is asked for: of an experience job the same units with the same seed at every checkpoint."""
    work: dict[str, Any] = {"settings": settings_in(job, checkpoint.settings_text).train_text}
    if job.validation_file_id is not None:
        work["data"] = {"format": job.validation_format}
    if info_of(job).is_experience:
        seed = seeds.evaluation_seed(seeds.parse_seed(job.job_seed, "jobSeed"))
        work["units"] = {"seed": seeds.format_seed(seed), "unit_start": 0, "unit_count": _units(job)}
    return work


def _units(job: Job) -> int:
    """Units that the model generates, or the records of the validation file, which the package counts."""
    generated = info_of(job).evaluation_units
    if generated:
        return generated
    declared = parse_package(job.package_text.encode()).file.validation
    assert declared is not None
    return declared.example_count
