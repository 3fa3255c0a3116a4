"""What a peer may say of itself, checked at the edge. Odd values become "unknown" or are shortened, and the rest is
kept: a snapshot that is half usable still tells more than none. Pages rely on the types that stand here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weei_core.errors import Invalid

STAGES = frozenset(
    {"waiting", "receiving", "preparing", "compiling", "training", "uploading", "awaitingAggregation", "error"}
)
MAX_TEXT = 300
MAX_NUMBER = 2.0**53
MAX_HASHES = 64
UNKNOWN = "unknown"

Clean = Callable[[Any], Any]


def _text(value: Any) -> str:
    """Without what a page or a database cannot hold, and not too long."""
    if not isinstance(value, str):
        return UNKNOWN
    return value.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_TEXT]


def _number(value: Any) -> int | float | str:
    """A count, a duration or a time: finite, not negative."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) and 0 <= value <= MAX_NUMBER else UNKNOWN


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number_or_none(value: Any) -> int | float | str | None:
    return None if value is None else _number(value)


def _adapter(value: Any) -> dict[str, str] | str:
    if not isinstance(value, dict):
        return UNKNOWN
    return {name: _text(value.get(name)) for name in ("vendor", "architecture", "device", "description")}


def _wgsl(value: Any) -> dict[str, Any] | str:
    if not isinstance(value, dict) or not isinstance(value.get("sha256"), list):
        return UNKNOWN
    return {"present": value.get("present") is True, "sha256": [_text(item) for item in value["sha256"][:MAX_HASHES]]}


def _each(clean: Clean, *names: str) -> dict[str, Clean]:
    return dict.fromkeys(names, clean)


SECTIONS: dict[str, dict[str, Clean]] = {
    "environment": {**_each(_text, "browser", "browserVersion", "os"), "logicalCores": _number},
    "execution": {
        **_each(_text, "requested", "actual", "backend"),
        "fallbackReason": _text_or_none,
        **_each(_number, "activeWorkers", "workerLimit"),
    },
    "gpu": {
        "webgpu": _text,
        "adapter": _adapter,
        "memoryBudgetMiB": _number,
        "initializationError": _text_or_none,
    },
    "model": {**_each(_text, "id", "version", "wasmSha256"), "wgsl": _wgsl},
    "assignment": {
        "jobId": _text,
        "round": _number,
        **_each(_text, "assignmentId", "attemptId", "chunkId"),
        **_each(_number, "bytes", "exampleCount", "batchSize", "localEpochs", "learningRate"),
    },
    "timings": _each(_number_or_none, "preparationMs", "compilationMs", "trainingMs", "uploadMs"),
    "performance": {
        **_each(_number, "processedExamples", "totalExamples", "optimizerSteps"),
        **_each(_number_or_none, "currentExamplesPerSecond", "averageExamplesPerSecond", "lastProgressAt"),
    },
}


def clean_snapshot(value: dict[str, Any]) -> dict[str, Any]:
    """The snapshot as it is kept and relayed: the members of SECTIONS and no others. Raises `Invalid` only if it is no
    snapshot at all."""
    sequence = value.get("sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= MAX_NUMBER:
        raise Invalid("snapshot.sequence: must be a count.", field="snapshot.sequence")
    stage = value.get("stage")
    if not isinstance(stage, str) or stage not in STAGES:
        raise Invalid(f"snapshot.stage: must be one of {', '.join(sorted(STAGES))}.", field="snapshot.stage")
    return {
        "schemaVersion": 1,
        "sequence": sequence,
        "measuredAt": _number(value.get("measuredAt")),
        **{name: _section(name, value.get(name)) for name in SECTIONS},
        "stage": stage,
        "error": _text_or_none(value.get("error")),
    }


def _section(name: str, value: Any) -> dict[str, Any] | str | None:
    """An object, or "unknown"; for the assignment an object or None."""
    if isinstance(value, dict):
        return {member: clean(value.get(member)) for member, clean in SECTIONS[name].items()}
    return None if name == "assignment" else UNKNOWN
