"""The checks of a new job, in order, and the short transaction that makes it."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_bytes, artifact_path, artifact_reference, job_artifact_add
from jobs.domain.progress import Progress
from jobs.models import Chunk, Dataset, Job, JobDraft
from jobs.services import modules
from jobs.services.continuing import Origin, origin_of, put_file
from jobs.services.dealing import order_store
from jobs.services.events import enqueue, job_event
from jobs.services.ledger import first_ledger_text
from weei_core import js_json, seeds, strict_json
from weei_core.dataset_manifest import (
    MAX_MANIFEST_BYTES,
    ChunkEntry,
    DatasetManifest,
    FoundFile,
    check_manifest_against_model,
    check_plain_validation,
    match_files,
)
from weei_core.errors import Conflict, Invalid
from weei_core.jail.parent import Jail
from weei_core.model_info import ModelInfo, check_against_weights
from weei_core.model_package import (
    ModelPackage,
    check_package_against_module,
    check_selected_module,
    check_validation_file,
    parse_any_manifest,
)
from weei_core.training_settings import TrainingSettings, parse_settings

BATCH = 500
Step = Callable[..., None]


@dataclass
class Plan:
    """What is known of the job so far."""

    draft: JobDraft
    request: dict[str, Any]
    module: FoundFile
    manifest: DatasetManifest
    package: ModelPackage | None
    validation: FoundFile | None
    settings: TrainingSettings
    info: ModelInfo
    weights: Artifact
    origin: Origin | None
    job_seed: int
    validation_format: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def chunks(self) -> tuple[ChunkEntry, ...]:
        return self.manifest.chunks


def prepare(draft: JobDraft, step: Step) -> Job:
    """Check files, run the module in the jail, and make the job. Raises the first thing that is wrong."""
    request = strict_json.as_object(strict_json.loads(draft.request_text), "request")
    step("Checking files")
    module, validation = _found(request["module"]), _found_or_none(request.get("validation"))
    manifest, package = _manifest(request, module, validation)
    step("Reading the model")
    with modules.open_jail(module.sha256) as jail:
        plan = _with_model(draft, request, jail, module, manifest, package, validation)
        _inspect_data(plan, jail, step)
    step("Saving")
    dataset = _dataset_create(plan)
    try:
        return _job_create(plan, dataset)
    except BaseException:
        dataset.delete()
        raise


def _found(value: Any) -> FoundFile:
    return FoundFile(value["fileName"], value["bytes"], strict_json.as_sha256(value["sha256"], "sha256"))


def _found_or_none(value: Any) -> FoundFile | None:
    return None if value is None else _found(value)


def _manifest(
    request: dict[str, Any], module: FoundFile, validation: FoundFile | None
) -> tuple[DatasetManifest, ModelPackage | None]:
    """The chunk list, plain or from a package, compared with the files that were selected."""
    parsed = parse_any_manifest(artifact_bytes(_found(request["manifest"]).sha256, MAX_MANIFEST_BYTES))
    files = [_found(file) for file in request["files"]]
    if isinstance(parsed, DatasetManifest):
        match_files(parsed, files)
        return parsed, None
    check_selected_module(parsed, module)
    check_validation_file(parsed, validation)
    match_files(parsed.manifest, files, also=parsed.auxiliary_files)
    return parsed.manifest, parsed


def _with_model(
    draft: JobDraft,
    request: dict[str, Any],
    jail: Jail,
    module: FoundFile,
    manifest: DatasetManifest,
    package: ModelPackage | None,
    validation: FoundFile | None,
) -> Plan:
    """getModelInfo, the first weights, and every check that needs them."""
    origin = origin_of(request)
    job_seed = _job_seed(request, origin)
    with _first_weights(jail, job_seed, origin) as (info, path, warnings):
        size = path.stat().st_size
        check_against_weights(info, size)
        if info.is_experience:
            raise Conflict(
                "The model generates its own data; this version trains dataset models.",
                field="workSource",
                code="wrong_kind",
            )
        if package is None:
            check_manifest_against_model(manifest, info)
        else:
            check_package_against_module(package, info, size, module)
        chosen = parse_settings(request["settings"], for_experience=info.is_experience, info=info, weight_bytes=size)
        if origin is not None:
            origin.check_resume(chosen, manifest)
        weights = put_file(path)
    return Plan(
        draft=draft,
        request=request,
        module=module,
        manifest=manifest,
        package=package,
        validation=validation,
        settings=chosen,
        info=info,
        weights=weights,
        origin=origin,
        job_seed=job_seed,
        warnings=warnings,
    )


def _job_seed(request: dict[str, Any], origin: Origin | None) -> int:
    """`settings.seed`, else 64 random bits. The file's own seed belongs to a resumed experience job only."""
    given = request["settings"].get("seed") if isinstance(request["settings"], dict) else None
    return secrets.randbits(64) if given is None else seeds.parse_seed(given, "settings.seed")


@contextlib.contextmanager
def _first_weights(jail: Jail, job_seed: int, origin: Origin | None) -> Iterator[tuple[ModelInfo, Path, list[str]]]:
    """The first weights as a file: the module's own, or the checkpoint's if `loadModel` takes them."""
    if origin is not None:
        with origin.weights() as path:
            info, _, warnings = modules.describe(jail, seed=None, weights=path)
            yield info, path, warnings
        return
    seed = seeds.format_seed(seeds.initial_weights_seed(job_seed))
    info, fresh, warnings = modules.describe(jail, seed=seed, weights=None)
    assert fresh is not None
    try:
        yield info, fresh, warnings
    finally:
        fresh.unlink()


def _inspect_data(plan: Plan, jail: Jail, step: Step) -> None:
    """Let the module read every chunk and the validation file, if it can look at them."""
    info = plan.info
    files = [(artifact_path(c.sha256), c.format) for c in plan.chunks]
    if plan.validation is not None:
        plan.validation_format = _validation_format(plan)
        files.append((artifact_path(plan.validation.sha256), plan.validation_format))
    if not info.capabilities.inspection:
        return
    step("Reading the data", 0, len(files))
    counts = modules.inspect(
        jail, artifact_path(plan.weights.sha256), files, lambda done: step("Reading the data", done, len(files))
    )
    for chunk, count in zip(plan.chunks, counts, strict=False):
        if (
            count < 1
            or count > chunk.example_count
            or (count != chunk.example_count and info.capabilities.record_ranges)
        ):
            raise Invalid(
                f"Chunk {strict_json.shown(chunk.id)}: exampleCount is {chunk.example_count}, found {count}.",
                field=f"chunks.{chunk.id}.exampleCount",
            )


def _validation_format(plan: Plan) -> str:
    """A package declares it; beside a plain chunk list it is the first chunk's."""
    assert plan.validation is not None
    if plan.package is not None and plan.package.file.validation is not None:
        return plan.package.file.validation.format
    check_plain_validation(plan.validation, plan.info)
    return plan.chunks[0].format


def _dataset_create(plan: Plan) -> Dataset:
    """Chunks go in by batches, before the job appears, so that no transaction is long."""
    dataset = Dataset.objects.create(
        manifest_text=plan.manifest.text,
        count=len(plan.chunks),
        bytes=plan.manifest.total_bytes,
        examples=plan.manifest.total_examples,
    )
    first = 0
    rows = []
    for index, chunk in enumerate(plan.chunks):
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
    for start in range(0, len(rows), BATCH):
        with transaction.atomic():
            now = timezone.now()
            for row in rows[start : start + BATCH]:
                artifact_reference(row.artifact_id, now)
            Chunk.objects.bulk_create(rows[start : start + BATCH])
    return dataset


def _job_create(plan: Plan, dataset: Dataset) -> Job:
    request, origin = plan.request, plan.origin
    with transaction.atomic():
        job = Job(
            owner=plan.draft.owner,
            name=str(request.get("name") or plan.info.name)[:120],
            module_id=plan.module.sha256,
            module_file_name=plan.module.name,
            model_id=plan.info.id[:255],
            model_name=plan.info.name[:255],
            model_info_text=plan.info.text,
            package_text=plan.package.text if plan.package else "",
            ready_key=ready_key(plan.module.sha256, {}),
            weight_bytes=plan.weights.bytes,
            settings_text=plan.settings.text,
            job_seed=seeds.format_seed(plan.job_seed),
            dataset=dataset,
            validation_file_id=plan.validation.sha256 if plan.validation else None,
            validation_format=plan.validation_format,
        )
        progress = _place(job, plan)
        job.save(force_insert=True)
        _references(job, plan)
        checkpoint = _first_checkpoint(job, plan, progress)
        job_event(job.pk, "job.created", warnings=plan.warnings)
        if checkpoint.validation == Checkpoint.Validation.DUE:
            enqueue("jobs.tasks.evaluate", checkpoint.pk)
    assert origin is None or job.first_round == origin.round
    return job


def _place(job: Job, plan: Plan) -> Progress:
    """Where the job's queue starts: at the beginning, or where a resumed checkpoint stood."""
    origin = plan.origin
    if origin is None:
        return Progress(0, 0, ())
    job.first_round = job.round_no = origin.round
    place = origin.place(plan.manifest)
    job.pass_order = order_store(place.order) if place.order is not None else None
    job.next_order = order_store(place.later) if place.later is not None else None
    job.cursor = place.progress.cursor
    return place.progress


def _references(job: Job, plan: Plan) -> None:
    kinds = JobArtifact.Kind
    job_artifact_add(job, plan.module.sha256, kinds.MODULE, plan.module.name)
    manifest = _found(plan.request["manifest"])
    job_artifact_add(job, manifest.sha256, kinds.MANIFEST, manifest.name)
    if plan.validation is not None:
        job_artifact_add(job, plan.validation.sha256, kinds.VALIDATION, plan.validation.name)
    JobArtifact.objects.bulk_create(
        [JobArtifact(job=job, artifact_id=c.sha256, kind=kinds.CHUNK, file_name=c.file_name) for c in plan.chunks],
        ignore_conflicts=True,
        batch_size=BATCH,
    )
    job_artifact_add(job, plan.weights.sha256, kinds.WEIGHTS, "")


def _first_checkpoint(job: Job, plan: Plan, progress: Progress) -> Checkpoint:
    origin, schedule = plan.origin, plan.settings.validation_schedule
    state = origin.put_state(job, plan.settings) if origin else None
    due = bool(schedule and schedule.enabled and plan.validation)
    seed = None if origin else seeds.format_seed(seeds.initial_weights_seed(plan.job_seed))
    return Checkpoint.objects.create(
        job=job,
        round=job.first_round,
        weights=plan.weights,
        state=state,
        aggregation_method=plan.settings.aggregation.method if state else "",
        aggregation_step=origin.step if origin and state else 0,
        progress_text=progress.to_text(),
        pass_order=job.pass_order,
        next_order=job.next_order,
        metrics_text=js_json.dumps(origin.metrics if origin else {}),
        settings_text=job.settings_text,
        ledger_text=first_ledger_text(job, seed, plan.weights.sha256, origin.facts() if origin else None),
        remaining_items=len(plan.chunks) - progress.cursor + len(progress.requeued),
        dataset_progress=1 - (len(plan.chunks) - progress.cursor + len(progress.requeued)) / len(plan.chunks),
        validation=Checkpoint.Validation.DUE if due else Checkpoint.Validation.NONE,
        created=timezone.now(),
    )


def ready_key(module_sha256: str, auxiliary: dict[str, str]) -> str:
    """One hash over everything a peer must hold before it can be given work."""
    text = js_json.dumps({"module": module_sha256, "auxiliary": auxiliary})
    return hashlib.sha256(text.encode()).hexdigest()
