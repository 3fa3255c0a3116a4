"""From a request and a data file to a model package: what it would be (`preview`), and the package (`make_package`)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from weei_core import js_json
from weei_core.advice import Advice
from weei_core.dataset_manifest import ChunkEntry
from weei_core.errors import Conflict, Invalid
from weei_core.generator.advice import job_warnings
from weei_core.generator.architectures import Architecture
from weei_core.generator.bpe import Ids
from weei_core.generator.chunking import planned
from weei_core.generator.configuration import configured_module, model_info
from weei_core.generator.manifest import WrittenFile, described, entry, manifest
from weei_core.generator.material import Material, Progress, ShownRecord, ShownTable
from weei_core.generator.request import PackageRequest
from weei_core.generator.tables import look_at_table, table_material
from weei_core.generator.texts import look_at_text, text_material
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.schema_types import validate
from weei_core.strict_json import JsonValue
from weei_core.training_settings import TrainingSettings, parse_settings

__all__ = ["MadePackage", "Preview", "Progress", "ShownRecord", "ShownTable", "make_package", "preview", "write_zip"]

MODULE_NAME, MANIFEST_NAME, VALIDATION_NAME = "model.wasm", "manifest.json", "validation.bin"
_HEADER_BYTES = 24
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Preview:
    """What would be made. `exact` False: the file is large, so that counts rest on its size and a sample.

    `records` for text, `table` for tables and pictures. `chunk_bytes` is about a chunk's size, `memory_bytes` what a
    training on one takes.
    """

    records: tuple[ShownRecord, ...]
    table: ShownTable | None
    exact: bool
    record_count: int
    validation_count: int
    chunk_count: int
    chunk_bytes: int
    vocabulary_size: int | None
    parameter_count: int
    weight_bytes: int
    memory_bytes: int
    warnings: tuple[Advice, ...]


@dataclass(frozen=True)
class MadePackage:
    """The files of a package, in manifest order. `settings` are job settings as the API takes them."""

    folder: Path
    module: Path
    manifest: Path
    chunks: tuple[Path, ...]
    validation: Path | None
    entries: tuple[ChunkEntry, ...]
    settings: dict[str, JsonValue]
    warnings: tuple[Advice, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        held_out = () if self.validation is None else (self.validation,)
        return (self.manifest, self.module, *self.chunks, *held_out)


def preview(request: PackageRequest, source: Path, progress: Progress | None = None) -> Preview:
    """Read as much of `source` as is needed to show what `make_package` would do. Writes nothing. `progress` hears of
    the stage "look".

    Raises Invalid for a source that does not fit the request.
    """
    _check_source(source)
    tell = progress or (lambda stage, done, total: None)
    look = (look_at_text if request.reads_text else look_at_table)(request, source, tell)
    plan = planned(request.chunking, look.record_count, look.record_bytes)
    chunk_bytes = _HEADER_BYTES + ceil(look.record_bytes * plan.largest)
    memory_bytes = look.architecture.memory_bytes(request.training.batch_size, chunk_bytes)
    info = model_info(
        look.architecture,
        id="preview",
        name=request.name,
        max_chunk_bytes=chunk_bytes,
        max_examples_per_chunk=plan.largest,
        inference={},
        whole_answers=look.whole_answers,
    )
    chunk = ChunkEntry.model_construct(
        id="of the package",
        file_name="",
        bytes=chunk_bytes,
        sha256="",
        format="",
        example_count=ceil((plan.records - plan.validation) / plan.chunk_count),
    )
    _, found = _settings_and_warnings(
        request,
        parse_model_info(info),
        look.architecture,
        [chunk] * plan.chunk_count,
        has_validation=plan.validation > 0,
        memory_bytes=memory_bytes,
    )
    return Preview(
        records=look.records,
        table=look.table,
        exact=look.exact,
        record_count=plan.records,
        validation_count=plan.validation,
        chunk_count=plan.chunk_count,
        chunk_bytes=chunk_bytes,
        vocabulary_size=look.vocabulary_size,
        parameter_count=look.architecture.parameter_count,
        weight_bytes=look.architecture.weight_bytes,
        memory_bytes=memory_bytes,
        warnings=look.warnings + found,
    )


def make_package(request: PackageRequest, source: Path, folder: Path, progress: Progress | None = None) -> MadePackage:
    """Write the package of `source` into `folder`, which must not exist yet or be empty.

    The same request and data give the same bytes. Files are written aside and renamed, so that nothing half-made is
    left. Raises Invalid, with the first bad lines by number, and Conflict when the folder holds something.
    """
    tell = progress or (lambda stage, done, total: None)
    _check_source(source)
    with _aside(folder) as aside, tempfile.TemporaryDirectory(dir=aside, prefix="spool-") as spool:
        read = text_material if request.reads_text else table_material
        material = read(request, source, Path(spool), tell)
        made = _written(request, material, aside, tell)
    return _moved(made, folder)


def write_zip(made: MadePackage, target: Path) -> None:
    """All files of the package in one zip, stored as they are; equal packages give equal bytes."""
    part = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            for path in made.files:
                member = zipfile.ZipInfo(path.name, _ZIP_TIME)
                member.external_attr = 0o644 << 16
                member.file_size = path.stat().st_size  # Large files need this before they are written.
                with path.open("rb") as content, archive.open(member, "w") as written:
                    shutil.copyfileobj(content, written, 1 << 20)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _check_source(source: Path) -> None:
    if not source.is_file():
        raise Invalid(f"The data must be a file; found none at {source.name}.", field="data")
    if not source.stat().st_size:
        raise Invalid("The data must hold records; found an empty file.", field="data")


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A folder beside `folder`, which takes its place if all goes well and else vanishes."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(
            f"The folder of the package must be new or empty; {folder.name} holds something.", field="folder"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield aside
        mask = os.umask(0)
        os.umask(mask)
        aside.chmod(0o777 & ~mask)
        aside.replace(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _moved(made: MadePackage, folder: Path) -> MadePackage:
    return MadePackage(
        folder=folder,
        module=folder / made.module.name,
        manifest=folder / made.manifest.name,
        chunks=tuple(folder / chunk.name for chunk in made.chunks),
        validation=folder / made.validation.name if made.validation else None,
        entries=made.entries,
        settings=made.settings,
        warnings=made.warnings,
    )


def _written(request: PackageRequest, material: Material, folder: Path, tell: Progress) -> MadePackage:
    plan, architecture, batch_size = material.plan, material.architecture, request.training.batch_size
    # What cannot fit is told before gigabytes are written.
    architecture.memory_bytes(batch_size, ceil(material.record_bytes * plan.largest))
    validation, chunks = _record_files(material, folder, tell)
    entries = [validate(ChunkEntry, entry(chunk, material.format), "chunk") for chunk in chunks]
    max_chunk_bytes = max(file.bytes for file in [*chunks, *([validation] if validation else [])])
    memory_bytes = architecture.memory_bytes(batch_size, max_chunk_bytes)
    tell("module", 0, 1)
    info = model_info(
        architecture,
        id=_model_id(request.name, architecture, material.blob),
        name=request.name,
        max_chunk_bytes=max_chunk_bytes,
        max_examples_per_chunk=plan.largest,
        inference=material.inference,
        whole_answers=material.whole_answers,
    )
    module = configured_module(
        architecture, info, material.blob, batch_size=batch_size, max_chunk_bytes=max_chunk_bytes
    )
    folder.joinpath(MODULE_NAME).write_bytes(module)
    parsed = parse_model_info(info)
    text = manifest(
        architecture,
        model_id=parsed.id,
        module=described(MODULE_NAME, module),
        chunks=entries,
        validation=validation,
        data_format=material.format,
        memory_bytes=memory_bytes,
    )
    folder.joinpath(MANIFEST_NAME).write_bytes(text)
    tell("module", 1, 1)
    settings, found = _settings_and_warnings(
        request, parsed, architecture, entries, has_validation=validation is not None, memory_bytes=memory_bytes
    )
    return MadePackage(
        folder=folder,
        module=folder / MODULE_NAME,
        manifest=folder / MANIFEST_NAME,
        chunks=tuple(folder / chunk.name for chunk in chunks),
        validation=folder / VALIDATION_NAME if validation else None,
        entries=tuple(entries),
        settings=settings.to_json(),
        warnings=material.warnings + found,
    )


def _record_files(material: Material, folder: Path, tell: Progress) -> tuple[WrittenFile | None, list[WrittenFile]]:
    plan, done = material.plan, 0

    def write(name: str, records: Ids) -> WrittenFile:
        nonlocal done
        content = material.file(records)
        folder.joinpath(name).write_bytes(content)
        done += len(records)
        tell("chunks", done, plan.records)
        return WrittenFile(name, len(content), hashlib.sha256(content).hexdigest(), len(records))

    validation = write(VALIDATION_NAME, plan.held_out()) if plan.validation else None
    chunks = [write(f"chunk-{number:05}.bin", records) for number, records in enumerate(plan.chunks(), 1)]
    return validation, chunks


def _model_id(name: str, architecture: Architecture, blob: bytes) -> str:
    """Of the name, and of all that decides whether weights of one package fit another."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub("[^a-z0-9]+", "-", plain).strip("-")[:60] or "model"
    digest = hashlib.sha256(js_json.dumps(architecture.to_json()).encode() + blob).hexdigest()
    return f"{slug}-{digest[:12]}"


def _settings_and_warnings(
    request: PackageRequest,
    info: ModelInfo,
    architecture: Architecture,
    chunks: Sequence[ChunkEntry],
    *,
    has_validation: bool,
    memory_bytes: int,
) -> tuple[TrainingSettings, tuple[Advice, ...]]:
    settings = _settings(request, info, has_validation=has_validation)
    found = job_warnings(
        request,
        info,
        settings,
        chunks,
        has_validation=has_validation,
        weight_bytes=architecture.weight_bytes,
        memory_bytes=memory_bytes,
    )
    return settings, found


def _settings(request: PackageRequest, info: ModelInfo, *, has_validation: bool) -> TrainingSettings:
    training = request.training
    settings: dict[str, JsonValue] = {
        "epochs": training.epochs,
        "localEpochs": training.local_epochs,
        "batchSize": training.batch_size,
        "learningRate": training.module.learning_rate,
        "coordinatorParticipates": True,
        "aggregation": training.aggregation.to_json(),
    }
    if has_validation:
        settings["validationSchedule"] = {"enabled": True, "unit": "round", "every": 1}
    return parse_settings(settings, for_experience=False, info=info)
