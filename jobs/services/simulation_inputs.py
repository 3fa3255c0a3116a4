"""What a simulation is made of, out of a package folder or a job: every file checked against what names it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_path
from jobs.models import Chunk, Job
from jobs.services.auxiliary import file_slots
from jobs.services.simulated_work import ChunkFile
from jobs.services.texts import info_of, settings_of
from weei_core import seeds, strict_json
from weei_core.dataset_manifest import (
    DatasetManifest,
    FoundFile,
    check_manifest_against_model,
    check_needs_no_package,
    check_plain_validation,
    manifest_from,
    match_files,
)
from weei_core.errors import Conflict, Invalid
from weei_core.model_info import ModelInfo
from weei_core.model_package import (
    MAX_PACKAGE_BYTES,
    ModelPackage,
    check_package_against_module,
    check_selected_module,
    check_validation_file,
    parse_any_manifest,
    parse_package,
)

PRESET = "preset.json"
MANIFEST = "manifest.json"
DEFAULTS = {"epochs": 1, "localEpochs": 1, "batchSize": 16, "coordinatorParticipates": False}
"""Where nothing else says: the settings that must be given."""


@dataclass(frozen=True)
class Inputs:
    """`seed` is None where none is given yet. `files` fill auxiliary slots by id."""

    job_id: str
    name: str
    module: Path
    module_file: FoundFile
    manifest: DatasetManifest
    package: ModelPackage | None
    settings: dict[str, Any]
    chunks: Sequence[ChunkFile] = ()
    validation: ChunkFile | None = None
    validation_file: FoundFile | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    seed: int | None = None

    @property
    def slot_bytes(self) -> int:
        return sum(slot.bytes for slot in self.package.file.auxiliary_weights) if self.package else 0


def check_inputs(inputs: Inputs, info: ModelInfo, weight_bytes: int) -> None:
    """What the module says of itself is what the package says, and it can read the chunks."""
    if inputs.package is not None:
        check_package_against_module(inputs.package, info, weight_bytes, inputs.module_file)
        return
    check_needs_no_package(info)
    check_manifest_against_model(inputs.manifest, info)
    if inputs.validation_file is not None:
        check_plain_validation(inputs.validation_file, info)


def inputs_of_folder(folder: Path) -> Inputs:
    """A folder with a package's manifest.json and its files beside it, or one with a preset.json that names them."""
    preset = _preset(folder)
    manifest_path = folder / str(preset.get("manifest", MANIFEST))
    parsed = parse_any_manifest(_read(manifest_path, MAX_PACKAGE_BYTES))
    package = parsed if isinstance(parsed, ModelPackage) else None
    manifest = parsed.manifest if isinstance(parsed, ModelPackage) else parsed
    module = folder / _module_name(preset, package)
    validation = _validation_path(folder, preset, package)
    auxiliary = package.auxiliary_files if package else ()
    names = [chunk.file_name for chunk in manifest.chunks] + [slot.file_name for slot in auxiliary]
    data = _data_paths(folder, preset, names)
    module_file = found_file(module)
    match_files(manifest, [found_file(path) for path in data.values() if path.is_file()], also=auxiliary)
    validation_file = None if validation is None else found_file(validation)
    if package is not None:
        check_selected_module(package, module_file)
        check_validation_file(package, validation_file)
    return Inputs(
        job_id="simulation",
        name=str(preset.get("name", folder.resolve().name)),
        module=module,
        module_file=module_file,
        manifest=manifest,
        package=package,
        settings={**DEFAULTS, **strict_json.as_object(preset.get("settings", {}), "settings")},
        chunks=_chunk_files(manifest, data),
        validation=_validation_of(validation, manifest, package),
        validation_file=validation_file,
        files={slot.id: data[slot.file_name] for slot in auxiliary},
    )


def inputs_of_job(job: Job) -> Inputs:
    """A job of this server as it was created, with its settings and seed as they are now."""
    first = Checkpoint.objects.get(job=job, round=job.first_round)
    if "initialSeed" not in strict_json.as_object(strict_json.loads(first.ledger_text), "ledger"):
        raise Conflict(
            "This job goes on from a checkpoint file; only a job that begins with its model's initial weights can be "
            "simulated.",
            code="wrong_kind",
        )
    package = parse_package(job.package_text.encode()) if job.package_text else None
    text = job.dataset.manifest_text if job.dataset else "[]"
    manifest = package.manifest if package else manifest_from(strict_json.loads(text), text)
    module = artifact_path(job.module_id)
    rows = {row.index: row for row in Chunk.objects.filter(dataset=job.dataset)} if job.dataset else {}
    validation, validation_file = None, None
    if job.validation_file_id is not None:
        path = artifact_path(job.validation_file_id)
        declared = package.file.validation if package else None
        records = declared.example_count if declared else 0
        validation = ChunkFile("validation", path, job.validation_format, records)
        validation_file = FoundFile("validation", path.stat().st_size, job.validation_file_id)
    return Inputs(
        job_id=str(job.pk),
        name=job.name,
        module=module,
        module_file=FoundFile(job.module_file_name, job.module.bytes, job.module_id),
        manifest=manifest,
        package=package,
        settings=dict(settings_of(job).to_json()),
        chunks=[
            ChunkFile(row.chunk_id, artifact_path(row.artifact_id), row.format, row.example_count)
            for _, row in sorted(rows.items())
        ],
        validation=validation,
        validation_file=validation_file,
        files={slot: artifact_path(sha256) for slot, sha256 in file_slots(info_of(job)).items()},
        seed=seeds.parse_seed(job.job_seed, "job_seed"),
    )


def found_file(path: Path) -> FoundFile:
    with _opened(path) as file:
        return FoundFile(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _preset(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise Invalid(f"A package folder or the id of a job must be given; found {folder}.", field="source")
    path = folder / PRESET
    if not path.is_file():
        return {}
    return dict(strict_json.as_object(strict_json.loads(_read(path, MAX_PACKAGE_BYTES), what=PRESET), PRESET))


def _module_name(preset: Mapping[str, Any], package: ModelPackage | None) -> str:
    if "module" in preset:
        return str(preset["module"])
    if package is None:
        raise Invalid(
            f"{MANIFEST} must be a model package, which names its module, unless {PRESET} names one; found a plain "
            "list of chunks.",
            field="manifest",
            code="package_needed",
        )
    return package.file.wasm.file_name


def _validation_path(folder: Path, preset: Mapping[str, Any], package: ModelPackage | None) -> Path | None:
    if "validation" in preset:
        return folder / str(preset["validation"])
    declared = package.file.validation if package else None
    return folder / declared.file_name if declared else None


def _validation_of(path: Path | None, manifest: DatasetManifest, package: ModelPackage | None) -> ChunkFile | None:
    """A package declares format and records; beside a plain list of chunks the format is that of the first."""
    if path is None:
        return None
    declared = package.file.validation if package else None
    if declared is not None:
        return ChunkFile("validation", path, declared.format, declared.example_count)
    return ChunkFile("validation", path, manifest.chunks[0].format, 0)


def _data_paths(folder: Path, preset: Mapping[str, Any], names: Sequence[str]) -> dict[str, Path]:
    """By bare name: what a preset lists, which may lie deeper, else what lies in the folder."""
    if "files" in preset:
        listed = strict_json.as_list(preset["files"], f"{PRESET}.files")
        return {Path(str(name)).name: folder / str(name) for name in listed}
    return {name: folder / name for name in names}


def _chunk_files(manifest: DatasetManifest, data: Mapping[str, Path]) -> list[ChunkFile]:
    return [ChunkFile(chunk.id, data[chunk.file_name], chunk.format, chunk.example_count) for chunk in manifest.chunks]


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.", field="source") from None


def _read(path: Path, limit: int) -> bytes:
    with _opened(path) as file:
        return bytes(file.read(limit + 1))
