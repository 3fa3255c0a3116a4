"""Packages of experience models and of models with auxiliary weights: `aux-echo`, and tiny ones of any ModelInfo."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from tests.creation.models import INFO, model
from tests.hosts.modules.wat import EMPTY, operation
from tests.models.auxiliary import MODULE, PACKAGE, REWARD
from weei_core import js_json

ECHO = "aux-echo.wasm"
WORK: dict[str, Any] = {
    "kind": "experience",
    "inputs": "none",
    "unit": {"id": "episode", "label": "Episodes"},
    "unitsPerAssignment": {"default": 32, "minimum": 2, "maximum": 4096},
    "evaluationUnits": 0,
}
PLAYS: dict[str, Any] = {"workSource": WORK, "dataFormats": []}
"""ModelInfo of a tiny model that makes its own data."""
READS: dict[str, Any] = {"workSource": {**WORK, "inputs": "dataset"}}
"""The same over records."""
LOADS = {"loadAuxiliary": operation("loadAuxiliary", EMPTY)}
"""The part of a tiny module that takes whatever fills its slots."""


def described(name: str, data: bytes) -> dict[str, Any]:
    return {"fileName": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def echo_package() -> Any:
    return json.loads(PACKAGE.read_bytes())


def echo(package: Any = None) -> dict[str, Any]:
    """Arguments for `request`: the echo model with its auxiliary file."""
    return {
        "module": MODULE.read_bytes(),
        "module_name": ECHO,
        "manifest": echo_package() if package is None else package,
        "chunks": {"reward.bin": REWARD.read_bytes()},
    }


def echo_weights(first: float) -> bytes:
    """Weights of the echo model, told apart by the first value."""
    return struct.pack("<7f", first, *range(6))


def played(info: dict[str, Any] = PLAYS, *entries: Any, **changes: Any) -> dict[str, Any]:
    """Arguments for `request`: a tiny model of that ModelInfo, and its package over chunks of 14 bytes.

    `changes`: `module` in place of the tiny one, `slots` in place of the model's own, and top-level fields of the
    package; None takes a field away.
    """
    told = {**INFO, **info}
    module = changes.pop("module", None) or model(info, **(LOADS if "auxiliaryWeights" in info else {}))
    package = package_of(told, module, list(entries), changes.pop("slots", told.get("auxiliaryWeights", [])))
    package = {key: value for key, value in {**package, **changes}.items() if value is not None}
    return {"module": module, "module_name": "model.wasm", "manifest": package, "chunks": {}}


def package_of(told: dict[str, Any], module: bytes, chunks: list[Any], slots: list[Any]) -> dict[str, Any]:
    """The manifest.json of a module with 16 bytes of weights."""
    wasm = described("model.wasm", module)
    identity = {"identity": {"modelId": told["id"]}, "weightCount": 4, "weightBytes": 16}
    backend = {"id": "cpu", "kind": "cpu", "runtime": "weei-wasm-abi1", "artifacts": [wasm]}
    policy = {
        "preference": ["cpu"],
        "cpuFallback": "restart-assignment",
        "aggregationOwner": "peer",
        "assignmentExecution": "exclusive",
    }
    package = {
        "schema": "weei-model-package",
        "schemaVersion": 1,
        "hostRuntime": {"id": "weei-device-program-v1", "delivery": "installed-in-host"},
        "wasm": wasm,
        "workSource": told.get("workSource"),
        "auxiliaryWeights": slots,
        "execution": {
            "schema": "weei-model-execution",
            "schemaVersion": 1,
            "modelId": told["id"],
            "weightFormat": "float32-le",
            "weightBytes": 16,
            "backends": [backend],
            "policy": policy,
        },
        "inlineJson": {"compatibility.json": identity, "dataset-manifest.json": chunks},
    }
    return described_inline(package)


def described_inline(package: dict[str, Any]) -> dict[str, Any]:
    """Sizes and hashes of the inline files, after a change of them."""
    for field, name in (("compatibility", "compatibility.json"), ("datasetManifest", "dataset-manifest.json")):
        package["execution"][field] = described(name, js_json.inline_text(package["inlineJson"][name]))
    return package


MODELS = Path(__file__).resolve().parents[2] / "reference_models"
HELD_OUT = (MODELS / "bandit" / "data" / "validation.bin").read_bytes()
"""The bandit's validation file: 120 records."""


def reference(name: str) -> dict[str, Any]:
    """Arguments for `request`: `cartpole`, or `bandit`, which plays over the records of four chunks."""
    folder = MODELS / name
    return {
        "module": (folder / f"{name}.wasm").read_bytes(),
        "module_name": f"{name}.wasm",
        "manifest": (folder / "data" / "package.json").read_bytes(),
        "chunks": {path.name: path.read_bytes() for path in sorted((folder / "data").glob("train-*.bin"))},
    }
