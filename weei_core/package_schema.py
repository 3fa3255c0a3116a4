"""The manifest.json of a model package, field by field. The checks across fields are in model_package.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from weei_core.model_info import MAX_AUXILIARY_SLOTS, AuxiliarySlot, WorkSource
from weei_core.schema_types import Count, FileName, FileRef, Loose, One, Positive, Text
from weei_core.strict_json import shown
from weei_core.wgsl_archive import ShaderArchive

MAX_BACKENDS = 16

CPU_FEATURES = (
    "wasm-simd128",
    "wasm-bulk-memory",
    "wasm-sign-extension",
    "wasm-nontrapping-fptoint",
    "wasm-multi-value",
    "wasm-reference-types",
    "wasm-extended-const",
)
GPU_FEATURES = ("webgpu", "shader-f16", "subgroups", "timestamp-query")
RUNTIMES = {"cpu": "weei-wasm-abi1", "gpu": "weei-device-program-v1"}


class HostRuntime(Loose):
    id: Literal["weei-device-program-v1"]
    delivery: Literal["installed-in-host"]


class PackageSlot(AuxiliarySlot):
    """An auxiliary slot, with the file that fills it."""

    file_name: FileName | None = None

    @model_validator(mode="after")
    def _file_for_hash(self) -> PackageSlot:
        if (self.file_name is None) != (self.sha256 is None):
            raise ValueError("must have fileName with sha256, and only then")
        return self


class Backend(Loose):
    id: Text
    kind: Literal["cpu", "gpu"]
    runtime: Text
    artifacts: tuple[FileRef, ...]
    required_features: tuple[Text, ...] = ()
    minimum_device_limits: dict[str, Count] = {}
    estimated_working_bytes: Count | None = None

    @model_validator(mode="after")
    def _runtime_of_kind(self) -> Backend:
        expected = RUNTIMES[self.kind]
        if self.runtime != expected:
            raise ValueError(f"must have runtime {expected}, its kind being {self.kind}; found {shown(self.runtime)}")
        return self


class Policy(Loose):
    preference: tuple[Text, ...]
    cpu_fallback: Literal["restart-assignment"]
    aggregation_owner: Literal["peer"]
    assignment_execution: Literal["exclusive"]


class Execution(Loose):
    schema_name: Annotated[Literal["weei-model-execution"], Field(alias="schema")]
    schema_version: One
    model_id: Text
    weight_format: Literal["float32-le"]
    weight_bytes: Positive
    compatibility: FileRef
    dataset_manifest: FileRef
    backends: Annotated[tuple[Backend, ...], Field(min_length=1, max_length=MAX_BACKENDS)]
    policy: Policy


class ValidationFile(FileRef):
    format: Text
    example_count: Positive


class Identity(Loose):
    model_id: Text


class Compatibility(Loose):
    """The inline file that names the model the package was made for."""

    identity: Identity
    weight_count: Positive
    weight_bytes: Positive


class PackageFile(Loose):
    """The manifest.json of a package, field by field."""

    schema_name: Annotated[Literal["weei-model-package"], Field(alias="schema")]
    schema_version: One
    host_runtime: HostRuntime
    wasm: FileRef
    work_source: WorkSource | None = None
    auxiliary_weights: Annotated[tuple[PackageSlot, ...], Field(max_length=MAX_AUXILIARY_SLOTS)] = ()
    execution: Execution
    validation: ValidationFile | None = None
    shader_archive: ShaderArchive | None = None
    inline_json: dict[str, Any]

    @property
    def reads_data(self) -> bool:
        """Whether it lists chunks: dataset packages, and experience over records."""
        return self.work_source is None or self.work_source.inputs == "dataset"
