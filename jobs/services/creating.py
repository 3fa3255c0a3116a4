"""Rows of a new job: its dataset by batches, before it appears, then everything else in one short transaction."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from checkpoints.models import Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_reference, job_artifact_add
from jobs.domain.progress import trained_share
from jobs.models import Chunk, Dataset, Job, Requeued
from jobs.services.auxiliary import file_slots
from jobs.services.dealing import order_store, requeued_row
from jobs.services.events import enqueue, job_event
from jobs.services.ledger import first_ledger_text
from jobs.services.preparing import Plan, ready_key
from weei_core import js_json, seeds

BATCH = 500
ORPHAN_KEPT = timedelta(hours=1)
"""Far longer than the moment between a dataset and its job."""


def datasets_clean(now: datetime) -> int:
    """Remove what runs that were killed between the two steps left behind."""
    orphans = Dataset.objects.filter(jobs__isnull=True, created__lt=now - ORPHAN_KEPT)
    return orphans.delete()[0]


def dataset_create(plan: Plan) -> Dataset:
    """The chunk list, in transactions short enough for other writers."""
    dataset = Dataset.objects.create(
        manifest_text=plan.manifest.text,
        count=len(plan.manifest.chunks),
        bytes=plan.manifest.total_bytes,
        examples=plan.manifest.total_examples,
    )
    try:
        rows = _chunk_rows(plan, dataset)
        for start in range(0, len(rows), BATCH):
            with transaction.atomic():
                now = timezone.now()
                for row in rows[start : start + BATCH]:
                    artifact_reference(row.artifact_id, now)
                Chunk.objects.bulk_create(rows[start : start + BATCH])
    except BaseException:
        dataset.delete()
        raise
    return dataset


def _chunk_rows(plan: Plan, dataset: Dataset) -> list[Chunk]:
    rows: list[Chunk] = []
    first = 0
    for index, chunk in enumerate(plan.manifest.chunks):
        rows.append(
            Chunk(
                dataset=dataset,
                index=index,
                chunk_id=chunk.id,
                file_name=chunk.file_name,
                artifact_id=chunk.sha256,
                bytes=chunk.bytes,
                format=chunk.format,
                example_count=chunk.example_count,
                first_example=first,
            )
        )
        first += chunk.example_count
    return rows


def job_create(plan: Plan, owner: Any, dataset: Dataset | None) -> Job:
    """The job with its first checkpoint; `dataset` is None for a model that reads no data. Call it inside a
    transaction."""
    files, origin = plan.files, plan.origin
    job = Job(
        owner=owner,
        name=plan.name,
        module_id=files.module.sha256,
        module_file_name=files.module.name,
        model_id=plan.info.id,
        model_name=plan.info.name,
        model_info_text=plan.info.text,
        package_text=plan.package.text if plan.package else "",
        ready_key=ready_key(files.module.sha256, file_slots(plan.info)),
        weight_bytes=plan.weights.bytes,
        settings_text=plan.settings.text,
        job_seed=seeds.format_seed(plan.job_seed),
        dataset=dataset,
        validation_file_id=files.validation.sha256 if files.validation else None,
        validation_format=plan.validation_format,
        next_unit=plan.next_unit or 0,
    )
    if origin is not None:
        job.first_round = job.round_no = origin.round
    _queue(job, plan)
    _references(job, plan)
    checkpoint = _first_checkpoint(job, plan)
    job_event(job.pk, "job.created", warnings=plan.warnings, **({"continuedFrom": origin.facts()} if origin else {}))
    if checkpoint.validation == Checkpoint.Validation.DUE:
        enqueue("jobs.tasks.evaluate", checkpoint.pk)
    return job


def _queue(job: Job, plan: Plan) -> None:
    """Where the queue starts: at the beginning, or where a resumed checkpoint stood."""
    place = plan.place
    job.pass_order = order_store(place.order) if place.order is not None else None
    job.next_order = order_store(place.later) if place.later is not None else None
    job.cursor = place.progress.cursor
    job.save(force_insert=True)
    Requeued.objects.bulk_create([requeued_row(job, item) for item in place.progress.requeued])


def _references(job: Job, plan: Plan) -> None:
    kinds, files = JobArtifact.Kind, plan.files
    job_artifact_add(job, files.module.sha256, kinds.MODULE, files.module.name)
    job_artifact_add(job, files.manifest.sha256, kinds.MANIFEST, files.manifest.name)
    for archive in files.execution:
        job_artifact_add(job, archive.sha256, kinds.ARCHIVE, archive.name)
    for slot in plan.package.auxiliary_files if plan.package else ():
        job_artifact_add(job, slot.sha256, kinds.AUXILIARY, slot.file_name)
    if files.validation is not None:
        job_artifact_add(job, files.validation.sha256, kinds.VALIDATION, files.validation.name)
    # The chunks' artifacts were touched, and are referred to, since `dataset_create`.
    JobArtifact.objects.bulk_create(
        [
            JobArtifact(job=job, artifact_id=chunk.sha256, kind=kinds.CHUNK, file_name=chunk.file_name)
            for chunk in plan.manifest.chunks
        ],
        ignore_conflicts=True,
        batch_size=BATCH,
    )
    job_artifact_add(job, plan.weights.sha256, kinds.WEIGHTS)
    if plan.state is not None:
        job_artifact_add(job, plan.state.sha256, kinds.STATE)


def _first_checkpoint(job: Job, plan: Plan) -> Checkpoint:
    origin, schedule, place = plan.origin, plan.settings.validation_schedule, plan.place
    has_file = plan.files.validation is not None
    due = bool(schedule and schedule.enabled and plan.info.can_evaluate(validation_file=has_file))
    seed = None if origin else seeds.format_seed(seeds.initial_weights_seed(plan.job_seed))
    total = len(plan.manifest.chunks)
    return Checkpoint.objects.create(
        job=job,
        round=job.first_round,
        weights=plan.weights,
        state=plan.state,
        aggregation_method=plan.settings.aggregation.method if plan.state else "",
        aggregation_step=origin.step if origin and plan.state else 0,
        progress_text=place.progress.to_text(),
        pass_order=job.pass_order,
        next_order=job.next_order,
        metrics_text=js_json.dumps(origin.metrics if origin else {}),
        examples_processed=origin.examples_processed if origin else 0,
        settings_text=job.settings_text,
        ledger_text=first_ledger_text(job, seed, plan.weights.sha256, origin.facts() if origin else None),
        remaining_items=total - place.progress.cursor + len(place.progress.requeued),
        dataset_epoch=0 if total else job.first_round,
        dataset_progress=trained_share(place.progress, total) if total else job.first_round,
        next_unit=plan.next_unit,
        validation=Checkpoint.Validation.DUE if due else Checkpoint.Validation.NONE,
        created=timezone.now(),
    )
