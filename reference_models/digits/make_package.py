"""Write `data/package.json`: module, chunk list and validation file in one `weei-model-package` manifest.

Run after `build.py` or `make_data.py` changed something: the package states sizes and hashes of both.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WEIGHT_COUNT = 2410


def inline_text(value: object) -> bytes:
    """The bytes whose hash stands for an inline file. Texts and integers alone: here JavaScript writes the same."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def described(name: str, content: bytes) -> dict[str, Any]:
    return {"fileName": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def package() -> dict[str, Any]:
    wasm = described("digits.wasm", HERE.joinpath("digits.wasm").read_bytes())
    chunks = json.loads(HERE.joinpath("data", "manifest.json").read_text())
    validation = HERE.joinpath("data", "validation.bin").read_bytes()
    count = int.from_bytes(validation[8:12], "little")
    compatibility = {
        "schemaVersion": 1,
        "identity": {"modelId": "digits"},
        "weightCount": WEIGHT_COUNT,
        "weightBytes": 4 * WEIGHT_COUNT,
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
        "estimatedWorkingBytes": 8 << 20,
        "numericalMode": "fp32-standard",
    }
    policy = {
        "preference": ["cpu-wasm-simd"],
        "cpuFallback": "restart-assignment",
        "aggregationOwner": "peer",
        "assignmentExecution": "exclusive",
        "progressUnit": "record",
        "optimizerUnit": "batch",
    }
    return {
        "schema": "weei-model-package",
        "schemaVersion": 1,
        "hostRuntime": {"id": "weei-device-program-v1", "delivery": "installed-in-host"},
        "wasm": wasm,
        "validation": {**described("validation.bin", validation), "format": chunks[0]["format"], "exampleCount": count},
        "execution": {
            "schema": "weei-model-execution",
            "schemaVersion": 1,
            "modelId": "digits",
            "weightFormat": "float32-le",
            "weightBytes": 4 * WEIGHT_COUNT,
            "compatibility": described("compatibility.json", inline_text(compatibility)),
            "datasetManifest": described("dataset-manifest.json", inline_text(chunks)),
            "backends": [backend],
            "policy": policy,
        },
        "inlineJson": {"compatibility.json": compatibility, "dataset-manifest.json": chunks},
    }


if __name__ == "__main__":
    HERE.joinpath("data", "package.json").write_bytes(inline_text(package()))
