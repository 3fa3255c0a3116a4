"""The checks of a new job, in order: its files, then its module in the jail. What passes is a `Plan`."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils import timezone

from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_bytes, artifact_new_file
from jobs.services import modules
from jobs.services.auxiliary import FilledSlot, file_slots
from jobs.services.continuing import Beginning, Origin, Place, origin_of, put_range
from jobs.services.modules import Start
from jobs.services.selection import Selection, selection_of
from weei_core import js_json, seeds, strict_json
from weei_core.dataset_manifest import (
    DatasetManifest,
    check_manifest_against_model,
    check_needs_no_package,
    check_plain_validation,
    match_files,
    parse_manifest,
)
from weei_core.errors import Invalid, ModelError
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, check_against_weights
from weei_core.model_package import (
    MAX_PACKAGE_BYTES,
    ModelPackage,
    check_package_against_module,
    check_selected_module,
    check_validation_file,
    parse_any_manifest,
)
from weei_core.training_settings import TrainingSettings, parse_settings
from weei_core.wgsl_archive import MAX_ARCHIVE_BYTES, check_archive_file, check_archive_modules, parse_wgsl_archive

_EMPTY_LIST = re.compile(rb"\s*\[\s*\]\s*")

Step = Callable[..., None]
"""`step(what, done=0, total=0)` says where the work is."""


@dataclass(frozen=True)
class Model:
    """What the module said when it was run, and the weights that it starts from."""

    info: ModelInfo
    weights: Artifact
    warnings: list[str]


@dataclass(frozen=True)
class Plan:
    """Everything a job is made of, checked."""

    name: str
    files: Selection
    manifest: DatasetManifest
    package: ModelPackage | None
    settings: TrainingSettings
    info: ModelInfo
    weights: Artifact
    job_seed: int
    next_unit: int | None = None
    """Of an experience job."""
    origin: Origin | None = None
    state: Artifact | None = None
    """The aggregation state that a continued job goes on with."""
    place: Place = field(default_factory=Place)
    validation_format: str = ""
    warnings: list[str] = field(default_factory=list)


def prepare(request: dict[str, Any], step: Step) -> Plan:
    """Check files, run the module in the jail. Raises the first thing that is wrong; of files, all that are."""
    step("Checking files")
    files = selection_of(request)
    manifest, package = _manifest(files)
    _check_execution_files(files, package)
    origin = origin_of(files, request.get("datasetMode"))
    beginning = _beginning(request["settings"], package, origin)
    step("Reading the model")
    with modules.open_jail(files.module.sha256, package.file.auxiliary_weights if package else ()) as jail:
        model = _model(jail, beginning.job_seed, origin)
        plan = _plan(request, files, manifest, package, origin, model, beginning)
        start = Start(plan.weights.sha256, _slots(plan.info, plan.weights))
        if start.slots:
            step("Loading the auxiliary weights")
            modules.load_slots(jail, start)
        return replace(plan, warnings=[*plan.warnings, *_inspect_data(plan, jail, start, step)])


def _manifest(files: Selection) -> tuple[DatasetManifest, ModelPackage | None]:
    """The chunk list, plain or from a package, compared with the files that were selected."""
    data = artifact_bytes(files.manifest.sha256, MAX_PACKAGE_BYTES)
    if _EMPTY_LIST.fullmatch(data):
        # What is missing depends on the model: chunks, or a package.
        return DatasetManifest((), data.decode()), None
    parsed = parse_any_manifest(data)
    if isinstance(parsed, DatasetManifest):
        match_files(parsed, files.data)
        return parsed, None
    check_selected_module(parsed, files.module)
    check_validation_file(parsed, files.validation)
    match_files(parsed.manifest, files.data, also=parsed.auxiliary_files)
    return parsed.manifest, parsed


def _check_execution_files(files: Selection, package: ModelPackage | None) -> None:
    """A selected WGSL file is the package's own archive, checked module by module."""
    if not files.execution:
        return
    if len(files.execution) > 1:
        raise Invalid(
            f"executionFiles may hold one WGSL archive; found {len(files.execution)} files.", field="executionFiles"
        )
    declared = package.file.shader_archive if package else None
    check_archive_file(files.execution[0], declared)
    assert declared is not None
    check_archive_modules(parse_wgsl_archive(artifact_bytes(files.execution[0].sha256, MAX_ARCHIVE_BYTES)), declared)


def _beginning(settings: object, package: ModelPackage | None, origin: Origin | None) -> Beginning:
    """A resumed experience job goes on with the checkpoint's seed and units. Every other job has `settings.seed`, else
    64 random bits, and begins at unit 0."""
    text = settings.get("seed") if isinstance(settings, dict) else None
    given = None if text is None else seeds.parse_seed(text, "settings.seed")
    if origin is not None and origin.resume and package is not None and package.is_experience:
        return origin.restored_beginning(given)
    return Beginning(secrets.randbits(64) if given is None else given, 0)


def _model(jail: Jail, job_seed: int, origin: Origin | None) -> Model:
    """ModelInfo, and the first weights: the module's own, or the checkpoint's if `loadModel` takes them."""
    if origin is not None:
        header = origin.header
        weights = InputFile(origin.path, header.weights_offset, header.weights_bytes)
        info, warnings = modules.describe_with(jail, weights)
        return Model(info, put_range(origin.path, header.weights_offset, header.weights_bytes), warnings)
    seed = seeds.format_seed(seeds.initial_weights_seed(job_seed))
    with artifact_new_file() as new:
        info, warnings = modules.describe_new(jail, seed=seed, out=new.file)
        with new.path.open("rb") as written:
            sha256 = hashlib.file_digest(written, "sha256").hexdigest()
        return Model(info, new.commit(sha256, timezone.now()), warnings)


def _plan(
    request: dict[str, Any],
    files: Selection,
    manifest: DatasetManifest,
    package: ModelPackage | None,
    origin: Origin | None,
    model: Model,
    beginning: Beginning,
) -> Plan:
    """Every check that needs what the module said of itself."""
    info, size = model.info, model.weights.bytes
    check_against_weights(info, size)
    if package is not None:
        check_package_against_module(package, info, size, files.module)
    elif manifest.chunks:
        check_needs_no_package(info)
        check_manifest_against_model(manifest, info)
    else:
        parse_manifest(manifest.text.encode(), info)  # refuses, and says what is missing
    if origin is not None:
        origin.check_auxiliary(file_slots(info))
    chosen = parse_settings(
        request["settings"],
        for_experience=info.is_experience,
        info=info,
        continued_from=origin.round if origin else None,
        weight_bytes=size,
    )
    return Plan(
        name=(str(request.get("name") or "").strip() or info.name)[:120],
        files=files,
        manifest=manifest,
        package=package,
        settings=chosen,
        info=info,
        weights=model.weights,
        job_seed=beginning.job_seed,
        next_unit=beginning.next_unit if info.is_experience else None,
        origin=origin,
        state=origin.put_state(chosen) if origin else None,
        place=origin.place(manifest, info) if origin else Place(),
        validation_format=_validation_format(files, manifest, package, info),
        warnings=[*model.warnings, *(origin.warnings(manifest) if origin else ())],
    )


def _slots(info: ModelInfo, weights: Artifact) -> list[FilledSlot]:
    """What fills the slots at the first checkpoint: files, and as snapshots its own weights."""
    return [FilledSlot(slot.id, slot.sha256 or weights.sha256, slot.bytes) for slot in info.auxiliary_weights]


def _validation_format(
    files: Selection, manifest: DatasetManifest, package: ModelPackage | None, info: ModelInfo
) -> str:
    """A package declares it; beside a plain chunk list it is the first chunk's."""
    if files.validation is None:
        return ""
    if package is not None and package.file.validation is not None:
        return package.file.validation.format
    check_plain_validation(files.validation, info)
    return manifest.chunks[0].format


def _inspect_data(plan: Plan, jail: Jail, start: Start, step: Step) -> list[str]:
    """Let the module read every chunk and the validation file, if it can look at them. Returns warnings."""
    if not plan.info.capabilities.inspection or not plan.info.reads_data:
        return []
    given = [(chunk.sha256, chunk.format) for chunk in plan.manifest.chunks]
    names = [f"Chunk {strict_json.shown(chunk.id)}" for chunk in plan.manifest.chunks]
    declared: list[int | None] = [chunk.example_count for chunk in plan.manifest.chunks]
    if plan.files.validation is not None:
        given.append((plan.files.validation.sha256, plan.validation_format))
        names.append("The validation file")
        described = plan.package.file.validation if plan.package else None
        declared.append(described.example_count if described else None)
    step("Reading the data", 0, len(given))
    found = modules.inspect(jail, start, given, lambda done: step("Reading the data", done, len(given)))
    exact = plan.info.capabilities.record_ranges or plan.info.is_experience
    return _compare_counts(names, declared, found, exact=exact)


def _compare_counts(
    names: list[str], declared: list[int | None], found: list[int | ModelError], *, exact: bool
) -> list[str]:
    """Refuse what cannot be read and what holds fewer examples than are dealt; all at once. Returns warnings.

    A module may find fewer examples than the manifest says: its own count weighs the update. Where chunks are cut
    into ranges of records, or records are units, both must agree, or a range would end behind the data.
    """
    problems, warnings = [], []
    for name, most, count in zip(names, declared, found, strict=False):
        if isinstance(count, ModelError):
            problems.append(f"{name}: {count.message}")
        elif count < 1 or (most is not None and (count > most or (exact and count != most))):
            problems.append(f"{name}: exampleCount is {most or 'not declared'}, the module finds {count}")
        elif most is not None and count < most:
            warnings.append(f"{name}: exampleCount is {most}, the module finds {count}.")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise Invalid(
            f"The module must be able to read every file: {'; '.join(problems[:5])}{more}.",
            field="files",
            code="unreadable_data",
            files=problems,
        )
    return warnings


def ready_key(module_sha256: str, auxiliary: dict[str, str]) -> str:
    """One hash over everything a peer must hold before it can be given work."""
    text = js_json.dumps({"module": module_sha256, "auxiliary": auxiliary})
    return hashlib.sha256(text.encode()).hexdigest()
