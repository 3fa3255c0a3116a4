"""What the models' `make_package.py` scripts share: the parts of a `weei-model-package` that every CPU model has."""

import hashlib
import json
from pathlib import Path
from typing import Any

MIB = 1 << 20


def inline_text(value: object) -> bytes:
    """The bytes whose hash stands for an inline file. Texts and integers alone: here JavaScript writes the same."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def described(name: str, content: bytes) -> dict[str, Any]:
    return {"fileName": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def cpu_package(
    module: Path,
    model_id: str,
    weight_count: int,
    *,
    chunks: list[dict[str, Any]],
    extra: dict[str, Any],
    working_bytes: int,
    progress_unit: str,
    optimizer_unit: str,
) -> dict[str, Any]:
    """The manifest of a model that trains on the CPU. `extra` are the members between module and execution."""
    wasm = described(module.name, module.read_bytes())
    compatibility = {
        "schemaVersion": 1,
        "identity": {"modelId": model_id},
        "weightCount": weight_count,
        "weightBytes": 4 * weight_count,
    }
    backend = {
        "id": "cpu-wasm-simd",
        "kind": "cpu",
        "runtime": "weei-wasm-abi1",
        "environments": ["browser", "agent"],
        "operations": ["train", "evaluate"],
        "artifacts": [wasm],
        "requiredFeatures": ["wasm-simd128"],
        "minimumDeviceLimits": {},
        "estimatedWorkingBytes": working_bytes,
        "numericalMode": "fp32-standard",
    }
    policy = {
        "preference": ["cpu-wasm-simd"],
        "cpuFallback": "restart-assignment",
        "aggregationOwner": "peer",
        "assignmentExecution": "exclusive",
        "progressUnit": progress_unit,
        "optimizerUnit": optimizer_unit,
    }
    return {
        "schema": "weei-model-package",
        "schemaVersion": 1,
        "hostRuntime": {"id": "weei-device-program-v1", "delivery": "installed-in-host"},
        "wasm": wasm,
        **extra,
        "execution": {
            "schema": "weei-model-execution",
            "schemaVersion": 1,
            "modelId": model_id,
            "weightFormat": "float32-le",
            "weightBytes": 4 * weight_count,
            "compatibility": described("compatibility.json", inline_text(compatibility)),
            "datasetManifest": described("dataset-manifest.json", inline_text(chunks)),
            "backends": [backend],
            "policy": policy,
        },
        "inlineJson": {"compatibility.json": compatibility, "dataset-manifest.json": chunks},
    }
