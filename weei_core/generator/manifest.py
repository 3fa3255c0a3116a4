"""The manifest.json of a made package (`weei-model-package`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from weei_core import js_json
from weei_core.dataset_manifest import ChunkEntry
from weei_core.generator.architectures import Configurable
from weei_core.strict_json import JsonValue

Members = dict[str, JsonValue]


@dataclass(frozen=True)
class WrittenFile:
    """A file of records: name, size, lower-case SHA-256 and how many records it has."""

    name: str
    bytes: int
    sha256: str
    records: int


def described(name: str, content: bytes) -> Members:
    return {"fileName": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def entry(file: WrittenFile, data_format: str) -> Members:
    """A file as the chunk list names it. Its id is the name without the ending."""
    return {"id": file.name.removesuffix(".bin"), **_held(file, data_format)}


def _held(file: WrittenFile, data_format: str) -> Members:
    size: Members = {"fileName": file.name, "bytes": file.bytes, "sha256": file.sha256}
    return {**size, "format": data_format, "exampleCount": file.records}


def manifest(
    architecture: Configurable,
    *,
    model_id: str,
    module: Members,
    chunks: Sequence[ChunkEntry],
    validation: WrittenFile | None,
    data_format: str,
    memory_bytes: int,
    experience: Members | None = None,
    progress_unit: str = "record",
) -> bytes:
    """`module`: its file as `described`. `memory_bytes`: what a training on the largest chunk takes. `experience`:
    `workSource` and `auxiliaryWeights` of a model that makes its own data."""
    entries: list[JsonValue] = [chunk.model_dump(mode="json", by_alias=True) for chunk in chunks]
    compatibility: Members = {
        "schemaVersion": 1,
        "identity": {"modelId": model_id},
        "weightCount": architecture.parameter_count,
        "weightBytes": architecture.weight_bytes,
    }
    execution: Members = {
        "schema": "weei-model-execution",
        "schemaVersion": 1,
        "modelId": model_id,
        "weightFormat": "float32-le",
        "weightBytes": architecture.weight_bytes,
        "compatibility": described("compatibility.json", js_json.inline_text(compatibility)),
        "datasetManifest": described("dataset-manifest.json", js_json.inline_text(entries)),
        "backends": [_backend(module, memory_bytes)],
        "policy": {
            "preference": ["cpu-wasm-simd"],
            "cpuFallback": "restart-assignment",
            "aggregationOwner": "peer",
            "assignmentExecution": "exclusive",
            "progressUnit": progress_unit,
            "optimizerUnit": "batch",
        },
    }
    package: Members = {
        "schema": "weei-model-package",
        "schemaVersion": 1,
        "hostRuntime": {"id": "weei-device-program-v1", "delivery": "installed-in-host"},
        "wasm": module,
        **(experience or {}),
        **({} if validation is None else {"validation": _held(validation, data_format)}),
        "execution": execution,
        "inlineJson": {"compatibility.json": compatibility, "dataset-manifest.json": entries},
    }
    return js_json.inline_text(package)


def _backend(module: Members, memory_bytes: int) -> Members:
    return {
        "id": "cpu-wasm-simd",
        "kind": "cpu",
        "runtime": "weei-wasm-abi1",
        "environments": ["browser", "agent"],
        "operations": ["train", "evaluate"],
        "artifacts": [module],
        "requiredFeatures": ["wasm-simd128"],
        "minimumDeviceLimits": {},
        "estimatedWorkingBytes": memory_bytes,
        "numericalMode": "fp32-standard",
    }
