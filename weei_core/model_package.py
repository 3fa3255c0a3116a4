"""The model package (`weei-model-package`): a module, its data or its kind of experience, and how it may run.

A package passes every check that needs only its own text in `parse_package`, those on selected files in
`check_selected_module` and `check_validation_file`, and those that need the loaded module in
`check_package_against_module`. Each rule is one function.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

from weei_core import js_json
from weei_core.dataset_manifest import (
    MAX_CHUNKS,
    MAX_MANIFEST_BYTES,
    DatasetManifest,
    FoundFile,
    check_manifest_against_model,
    load_manifest,
    manifest_from,
    parse_manifest,
)
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, check_slot_sizes
from weei_core.package_schema import CPU_FEATURES, GPU_FEATURES, Compatibility, PackageFile
from weei_core.schema_types import FileRef, Loose, validate
from weei_core.strict_json import JsonValue, shown

MAX_PACKAGE_BYTES = 2 * MAX_MANIFEST_BYTES  # the chunk list stands inside, indented further


class AuxiliaryFile(NamedTuple):
    """A file to select together with the chunks."""

    id: str
    file_name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ModelPackage:
    """A package that passed every check on its own text. `text` is that text as received."""

    file: PackageFile
    manifest: DatasetManifest
    text: str

    @property
    def is_experience(self) -> bool:
        return self.file.work_source is not None

    @property
    def auxiliary_files(self) -> tuple[AuxiliaryFile, ...]:
        """Slots filled from checkpoints have no file."""
        return _auxiliary_files(self.file)


def parse_any_manifest(data: bytes) -> DatasetManifest | ModelPackage:
    """Read whatever was selected as the manifest: a plain list of chunks or a model package."""
    value = load_manifest(data, MAX_PACKAGE_BYTES)
    return _package(value, data.decode()) if isinstance(value, dict) else parse_manifest(data, None)


def parse_package(data: bytes) -> ModelPackage:
    value = load_manifest(data, MAX_PACKAGE_BYTES)
    if isinstance(value, list):
        raise Invalid(
            "The manifest must be a model package's manifest.json here; found a plain list of chunks.",
            field="manifest",
            code="package_needed",
        )
    return _package(value, data.decode())


def _package(value: JsonValue, text: str) -> ModelPackage:
    file = validate(PackageFile, value, "package")
    check_backend_ids(file)
    check_cpu_backend(file)
    check_gpu_backends(file)
    check_required_features(file)
    check_inline_file(file, "compatibility")
    check_compatibility(file)
    check_inline_file(file, "datasetManifest")
    chunks = file.inline_json[file.execution.dataset_manifest.file_name]
    manifest = manifest_from(chunks, js_json.inline_text(chunks).decode(), f"package.{_inline_path(file)}")
    check_data_fits_inputs(file, manifest)
    check_auxiliary_names(file, manifest)
    check_slot_sizes(file.auxiliary_weights, file.execution.weight_bytes, "package")
    return ModelPackage(file, manifest, text)


# --- Checks on the package's own text ---


def check_backend_ids(file: PackageFile) -> None:
    """Backends have ids of their own, and the preference names only them."""
    ids = [backend.id for backend in file.execution.backends]
    if len(set(ids)) < len(ids):
        raise _wrong("execution.backends", "have ids that differ", ", ".join(ids))
    for index, preferred in enumerate(file.execution.policy.preference):
        if preferred not in ids:
            raise _wrong(f"execution.policy.preference[{index}]", f"be one of {', '.join(ids)}", shown(preferred))


def check_cpu_backend(file: PackageFile) -> None:
    """There is a CPU backend, and the package's module is an artifact of every one."""
    if all(backend.kind != "cpu" for backend in file.execution.backends):
        raise _wrong("execution.backends", "hold one of kind cpu", "none")
    for index, backend in enumerate(file.execution.backends):
        if backend.kind == "cpu" and file.wasm not in backend.artifacts:
            raise _wrong(
                f"execution.backends[{index}].artifacts",
                f"hold the package's wasm, {_described(file.wasm)}",
                "; ".join(map(_described, backend.artifacts)) or "none",
            )


def check_gpu_backends(file: PackageFile) -> None:
    """A GPU backend comes with a shaderArchive, and not for experience over records."""
    for index, backend in enumerate(file.execution.backends):
        if backend.kind != "gpu":
            continue
        path = f"execution.backends[{index}]"
        if file.shader_archive is None:
            raise _wrong(path, "come with a shaderArchive, its kind being gpu", "none")
        if file.work_source and file.work_source.inputs != "none":
            raise _wrong(path, 'come with workSource.inputs "none", its kind being gpu', '"dataset"')


def check_required_features(file: PackageFile) -> None:
    """Features that this product does not know cannot be looked for on a device."""
    for index, backend in enumerate(file.execution.backends):
        known = CPU_FEATURES if backend.kind == "cpu" else CPU_FEATURES + GPU_FEATURES
        for feature in backend.required_features:
            if feature not in known:
                path = f"execution.backends[{index}].requiredFeatures"
                raise _wrong(path, f"hold only {', '.join(known)}", shown(feature))


def check_inline_file(file: PackageFile, which: Literal["compatibility", "datasetManifest"]) -> None:
    """The inline value has the size and hash of its text: `JSON.stringify(value, null, 2)` and a newline or a space."""
    execution = file.execution
    declared = execution.compatibility if which == "compatibility" else execution.dataset_manifest
    path = f"execution.{which}"
    if declared.file_name not in file.inline_json:
        raise _wrong(f"{path}.fileName", "be a file of inlineJson", shown(declared.file_name))
    text = js_json.inline_text(file.inline_json[declared.file_name])
    if declared.bytes != len(text):
        raise _wrong(f"{path}.bytes", f"be {len(text)}, the size of the inline file", str(declared.bytes))
    hashes = [hashlib.sha256(form).hexdigest() for form in (text, text[:-1] + b" ")]
    if declared.sha256 not in hashes:
        raise _wrong(f"{path}.sha256", f"be {hashes[0]}, the hash of the inline file", declared.sha256)


def check_compatibility(file: PackageFile) -> None:
    """The compatibility file names the package's model and weight size."""
    execution = file.execution
    path = f"inlineJson[{shown(execution.compatibility.file_name)}]"
    value = file.inline_json[execution.compatibility.file_name]
    found = validate(Compatibility, value, f"package.{path}")
    if found.identity.model_id != execution.model_id:
        raise _wrong(f"{path}.identity.modelId", f"be {shown(execution.model_id)}", shown(found.identity.model_id))
    if found.weight_bytes != execution.weight_bytes:
        raise _wrong(f"{path}.weightBytes", f"be {execution.weight_bytes}", str(found.weight_bytes))
    if found.weight_count * 4 != found.weight_bytes:
        raise _wrong(f"{path}.weightCount", f"be a quarter of {found.weight_bytes}", str(found.weight_count))


def check_data_fits_inputs(file: PackageFile, manifest: DatasetManifest) -> None:
    """Without inputs there are neither chunks nor a validation file; every other package lists chunks."""
    path = _inline_path(file)
    if file.reads_data:
        if not manifest.chunks:
            raise _wrong(path, f"list 1 to {MAX_CHUNKS} chunks", "an empty list")
        return
    if manifest.chunks:
        raise _wrong(path, 'be empty, workSource.inputs being "none"', f"{len(manifest.chunks)} chunks")
    if file.validation is not None:
        raise _wrong("validation", 'be absent, workSource.inputs being "none"', shown(file.validation.file_name))


def check_auxiliary_names(file: PackageFile, manifest: DatasetManifest) -> None:
    """Slots have ids of their own, and their files, selected together with the chunks, names of their own."""
    ids = [slot.id for slot in file.auxiliary_weights]
    if len(set(ids)) < len(ids):
        raise _wrong("auxiliaryWeights", "have ids that differ", ", ".join(ids))
    names = {chunk.file_name for chunk in manifest.chunks}
    for slot in _auxiliary_files(file):
        if slot.file_name in names:
            raise _wrong("auxiliaryWeights", "have file names that differ, also from chunks", shown(slot.file_name))
        names.add(slot.file_name)


# --- Checks on selected files ---


def check_selected_module(package: ModelPackage, module: FoundFile) -> None:
    """The selected module is the package's wasm, by name, size and SHA-256."""
    wasm = package.file.wasm
    if module != (wasm.file_name, wasm.bytes, wasm.sha256):
        found = f"{shown(module.name)} of {module.bytes} bytes, SHA-256 {module.sha256}"
        raise Invalid(f"The module must be the package's wasm, {_described(wasm)}; found {found}.", field="wasm")


def check_validation_file(package: ModelPackage, validation: FoundFile | None) -> None:
    """A selected validation file is the one that the package declares; without inputs there is none. Selecting none is
    allowed."""
    declared = package.file.validation
    if validation is None:
        return
    if not package.file.reads_data:
        raise Invalid(
            'A validation file must not be selected, workSource.inputs being "none"; found '
            f"{shown(validation.name)}. The model evaluates on units that it generates.",
            field="validation",
        )
    if declared is None:
        raise Invalid(f"The package declares no validation file; found {shown(validation.name)}.", field="validation")
    if validation != (declared.file_name, declared.bytes, declared.sha256):
        found = f"{shown(validation.name)} of {validation.bytes} bytes, SHA-256 {validation.sha256}"
        raise Invalid(f"The validation file must be {_described(declared)}; found {found}.", field="validation")


# --- Checks with the module loaded ---


def check_package_against_module(package: ModelPackage, info: ModelInfo, weight_bytes: int, module: FoundFile) -> None:
    """What the package says of its module is what the module says. `weight_bytes`: size of its initial weights."""
    check_selected_module(package, module)
    check_model_id(package, info)
    check_weight_size(package, weight_bytes)
    check_same_work_source(package, info)
    check_same_auxiliary_weights(package, info)
    check_manifest_against_model(package.manifest, info, f"package.{_inline_path(package.file)}")
    check_validation_against_model(package, info)


def check_model_id(package: ModelPackage, info: ModelInfo) -> None:
    expected = package.file.execution.model_id
    if info.id != expected:
        raise _wrong("execution.modelId", f"be the id the module gives, {shown(info.id)}", shown(expected))


def check_weight_size(package: ModelPackage, weight_bytes: int) -> None:
    expected = package.file.execution.weight_bytes
    if weight_bytes != expected:
        raise _wrong("execution.weightBytes", f"be the size of the initial weights, {weight_bytes}", str(expected))


def check_same_work_source(package: ModelPackage, info: ModelInfo) -> None:
    if package.file.work_source != info.work_source:
        raise _wrong("workSource", f"equal the module's, {_json(info.work_source)}", _json(package.file.work_source))


def check_same_auxiliary_weights(package: ModelPackage, info: ModelInfo) -> None:
    """Slot by slot, in the same order; only fileName is the package's own."""
    ours = [slot.model_dump(exclude={"file_name"}) for slot in package.file.auxiliary_weights]
    theirs = [slot.model_dump() for slot in info.auxiliary_weights]
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            raise _wrong(
                f"auxiliaryWeights[{index}]",
                f"equal the module's without fileName, {_json(info.auxiliary_weights[index])}",
                _json(package.file.auxiliary_weights[index]),
            )
    if len(ours) != len(theirs):
        raise _wrong("auxiliaryWeights", f"have {len(theirs)} slots, as the module says", str(len(ours)))


def check_validation_against_model(package: ModelPackage, info: ModelInfo) -> None:
    """A declared validation file needs a model that evaluates and reads its format."""
    validation = package.file.validation
    if validation is None:
        return
    if not info.capabilities.evaluation:
        raise _wrong("validation", "be absent, since the model declares no evaluation", shown(validation.file_name))
    formats = [data_format.id for data_format in info.data_formats]
    if validation.format not in formats:
        raise _wrong("validation.format", f"be one of {', '.join(formats)}", shown(validation.format))
    limit = info.max_chunk_bytes
    if limit is not None and validation.bytes > limit:
        raise _wrong("validation.bytes", f"be at most {limit}", str(validation.bytes))


def _auxiliary_files(file: PackageFile) -> tuple[AuxiliaryFile, ...]:
    return tuple(
        AuxiliaryFile(slot.id, slot.file_name, slot.bytes, slot.sha256)
        for slot in file.auxiliary_weights
        if slot.file_name is not None and slot.sha256 is not None
    )


def _inline_path(file: PackageFile) -> str:
    """Where the chunk list stands."""
    return f"inlineJson[{shown(file.execution.dataset_manifest.file_name)}]"


def _described(file: FileRef) -> str:
    return f"{shown(file.file_name)} of {file.bytes} bytes, SHA-256 {file.sha256}"


def _json(part: Loose | None) -> str:
    if part is None:
        return "none"
    return js_json.dumps(part.model_dump(by_alias=True, exclude_none=True))[:300]


def _wrong(path: str, rule: str, found: str) -> Invalid:
    return Invalid(f"package.{path} must {rule}; found {found}.", field=f"package.{path}"[:200])
