"""Tiny dataset models assembled from the parts of the hosts' test modules: any ModelInfo, any fault."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.hosts.modules.wat import Case, answer, operation

INFO: dict[str, Any] = {
    "id": "tiny",
    "version": "1",
    "name": "Tiny",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 1,
    "dataFormats": [{"id": "tiny", "label": "Tiny", "acceptedMimeTypes": []}],
    "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
}
LOOKS = {"capabilities": {"inspection": True}}
"""ModelInfo of a model that has inspectData."""
DATA = b"eight examples"


def model(info: dict[str, Any] | None = None, *, of: Case | None = None, **parts: Any) -> bytes:
    """The honest module with a whole ModelInfo, `info` over it (None takes a field away), and parts replaced.

    A fault that `of` has in `train` is moved to `inspectData`, which is where making a job would meet it.
    """
    told = {key: value for key, value in {**INFO, **(info or {})}.items() if value is not None}
    data, body = answer(json.dumps(told).encode(), 4096)
    ours = {"getModelInfo": operation("getModelInfo", body), "told": data, **(of.parts if of else {})}
    if "train" in ours:
        ours["inspectData"] = ours.pop("train").replace('(export "train")', '(export "inspectData")')
    return Case("tiny", "", None, None, {**ours, **parts}).wasm()


def counting(count: int) -> dict[str, Any]:
    """An inspectData that finds so many examples in every file."""
    data, body = answer(f'{{"exampleCount":{count}}}'.encode(), 3584)
    return {"counted": data, "inspectData": operation("inspectData", body)}


def chunk(number: int = 1, data: bytes = DATA, **changes: Any) -> dict[str, Any]:
    entry = {
        "id": f"c{number}",
        "fileName": f"c{number}.bin",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "format": "tiny",
        "exampleCount": 8,
    }
    return {**entry, **changes}


def tiny(module: bytes, *chunks: dict[str, Any]) -> dict[str, Any]:
    """Arguments for `request`: the module with one file for each chunk."""
    entries = chunks or (chunk(),)
    files = {entry["fileName"]: DATA for entry in entries}
    return {"module": module, "manifest": list(entries), "chunks": files}
