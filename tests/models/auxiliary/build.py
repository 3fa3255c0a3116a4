"""Writes `reward.bin`, `aux-echo.wasm` and `package.json`: `python -m tests.models.auxiliary.build`.

Run it after a change of `echo.c` or of what it uses of the reference models' library; a test compares.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver
from weei_core import js_json

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "reference_models"
REWARD = struct.pack("<2f", 0.625, -3)
MEMORY = 1 << 20


def compiled() -> bytes:
    """The module, made by the reference models' compiler with their flags."""
    flags = runpy.run_path(str(MODELS / "build.py"))
    own = [f'-DREWARD_SHA256="{hashlib.sha256(REWARD).hexdigest()}"', "-Ilib", f"-Wl,--max-memory={MEMORY}"]
    library = sorted(path.relative_to(MODELS).as_posix() for path in MODELS.glob("lib/*.c"))
    with tempfile.TemporaryDirectory(prefix="weei-build-") as folder:
        target = Path(folder, "aux-echo.wasm")
        compiler = [sys.executable, "-m", "ziglang", "cc", *flags["COMPILE"], *flags["LINK"], *own]
        command = [*compiler, *library, os.path.relpath(HERE / "echo.c", MODELS), "-o", str(target)]
        environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": folder, "ZIG_GLOBAL_CACHE_DIR": folder}
        subprocess.run(command, cwd=MODELS, env=environment, check=True)
        return target.read_bytes()


def described(name: str, content: bytes) -> dict[str, Any]:
    return {"fileName": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def package(wasm: bytes) -> dict[str, Any]:
    """What the module says of itself, with the files that belong to it."""
    engine = Engine()
    info = Driver(engine, Module(engine, wasm)).run("getModelInfo", {})
    slots = [
        {**slot, "fileName": "reward.bin"} if slot["id"] == "reward" else slot for slot in info["auxiliaryWeights"]
    ]
    weight_bytes = slots[1]["bytes"]
    compatibility = {
        "schemaVersion": 1,
        "identity": {"modelId": info["id"]},
        "weightCount": weight_bytes // 4,
        "weightBytes": weight_bytes,
    }
    module = described("aux-echo.wasm", wasm)
    backend = {
        "id": "cpu-wasm-simd",
        "kind": "cpu",
        "runtime": "weei-wasm-abi1",
        "environments": ["browser", "agent"],
        "operations": ["train", "evaluate"],
        "artifacts": [module],
        "requiredFeatures": ["wasm-simd128"],
        "minimumDeviceLimits": {},
        "estimatedWorkingBytes": MEMORY,
        "numericalMode": "fp32-standard",
    }
    policy = {
        "preference": ["cpu-wasm-simd"],
        "cpuFallback": "restart-assignment",
        "aggregationOwner": "peer",
        "assignmentExecution": "exclusive",
        "progressUnit": "step",
        "optimizerUnit": "step",
    }
    return {
        "schema": "weei-model-package",
        "schemaVersion": 1,
        "hostRuntime": {"id": "weei-device-program-v1", "delivery": "installed-in-host"},
        "wasm": module,
        "workSource": info["workSource"],
        "auxiliaryWeights": slots,
        "execution": {
            "schema": "weei-model-execution",
            "schemaVersion": 1,
            "modelId": info["id"],
            "weightFormat": "float32-le",
            "weightBytes": weight_bytes,
            "compatibility": described("compatibility.json", js_json.inline_text(compatibility)),
            "datasetManifest": described("dataset-manifest.json", js_json.inline_text([])),
            "backends": [backend],
            "policy": policy,
        },
        "inlineJson": {"compatibility.json": compatibility, "dataset-manifest.json": []},
    }


def files() -> dict[str, bytes]:
    wasm = compiled()
    return {"reward.bin": REWARD, "aux-echo.wasm": wasm, "package.json": js_json.inline_text(package(wasm))}


if __name__ == "__main__":
    for name, content in files().items():
        HERE.joinpath(name).write_bytes(content)
