"""What a peer may say of itself, checked at the edge. Odd values become "unknown" (null where a member is a time or a
reason), texts are shortened, and the rest is kept: a snapshot that is half usable still tells more than none. Every
section has all its members afterwards; pages rely on the types that stand here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from weei_core.errors import Invalid
from weei_core.protocol import MAX_SNAPSHOT_METRICS, MAX_SNAPSHOT_TEXT

STAGES = frozenset(
    {"waiting", "receiving", "preparing", "compiling", "training", "uploading", "awaitingAggregation", "error"}
)
MAX_NUMBER = 2.0**53
MAX_HASHES = 64
UNKNOWN = "unknown"
_HASH = re.compile(r"[0-9a-f]{64}")

Clean = Callable[[Any], Any]


def _text(value: Any) -> str:
    """Without what a page or a database cannot hold, and not too long."""
    if not isinstance(value, str):
        return UNKNOWN
    return value.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_SNAPSHOT_TEXT]


def _one_of(*words: str) -> Clean:
    return lambda value: value if isinstance(value, str) and value in words else UNKNOWN


def _is_finite(value: Any) -> bool:
    """Also not a whole number that no double holds: pages could not read it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= MAX_NUMBER if isinstance(value, int) else math.isfinite(value)


def _number(value: Any) -> int | float | str:
    """A count, a duration or a time: finite, not negative."""
    return value if _is_finite(value) and 0 <= value <= MAX_NUMBER else UNKNOWN


def _number_or_none(value: Any) -> int | float | None:
    number = _number(value)
    return None if isinstance(number, str) else number


def _reason(value: Any) -> str | None:
    """A sentence, or None: "unknown" tells nobody why."""
    text = _text(value).strip()
    return None if text in ("", UNKNOWN) else text


def _initialization_error(value: Any) -> str | None:
    return None if value is None else _reason(value) or UNKNOWN


def _adapter(value: Any) -> dict[str, str] | str:
    if not isinstance(value, dict):
        return UNKNOWN
    return {name: _text(value.get(name)) for name in ("vendor", "architecture", "device", "description")}


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _each(clean: Clean, *names: str) -> dict[str, Clean]:
    return dict.fromkeys(names, clean)


SECTIONS: dict[str, dict[str, Clean]] = {
    "environment": {**_each(_text, "browser", "browserVersion", "os"), "logicalCores": _number},
    "execution": {
        "requested": _one_of("auto", "cpu", "gpu", "hybrid"),
        "actual": _one_of("cpu", "gpu", "hybrid"),
        "backend": _text,
        "fallbackReason": _reason,
        **_each(_number, "activeWorkers", "workerLimit"),
    },
    "gpu": {
        "webgpu": _one_of("available", "unavailable"),
        "adapter": _adapter,
        "memoryBudgetMiB": _number,
        "initializationError": _initialization_error,
    },
    "timings": _each(_number_or_none, "preparationMs", "compilationMs", "trainingMs", "uploadMs"),
    "performance": {
        **_each(_number, "processedExamples", "totalExamples", "optimizerSteps"),
        **_each(_number_or_none, "currentExamplesPerSecond", "averageExamplesPerSecond", "lastProgressAt"),
    },
}
ASSIGNMENT: dict[str, Clean] = {
    "jobId": _text,
    "round": _number,
    **_each(_text, "assignmentId", "attemptId", "chunkId"),
    **_each(_number, "bytes", "exampleCount", "batchSize", "localEpochs", "learningRate"),
}


def clean_snapshot(value: dict[str, Any]) -> dict[str, Any]:
    """The snapshot as it is kept and relayed: the members named here and no others. Raises `Invalid` only if it is no
    snapshot at all."""
    sequence = value.get("sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= MAX_NUMBER:
        raise Invalid("snapshot.sequence: must be a count.", field="snapshot.sequence")
    stage = value.get("stage")
    if not isinstance(stage, str) or stage not in STAGES:
        raise Invalid(f"snapshot.stage: must be one of {', '.join(sorted(STAGES))}.", field="snapshot.stage")
    metrics = value.get("metrics")
    return {
        "schemaVersion": 1,
        "sequence": sequence,
        "measuredAt": _number(value.get("measuredAt")),
        **{name: _members(value.get(name), members) for name, members in SECTIONS.items()},
        "model": _model(value.get("model")),
        "assignment": _assignment(value.get("assignment")),
        "stage": stage,
        "error": _reason(value.get("error")),
        "metrics": _metrics(metrics) if isinstance(metrics, dict) else None,
    }


def _members(value: Any, members: dict[str, Clean]) -> dict[str, Any]:
    # null says something, a member that is not there says nothing.
    found = value if isinstance(value, dict) else {}
    return {member: clean(found.get(member, UNKNOWN)) for member, clean in members.items()}


def _model(value: Any) -> dict[str, Any] | str:
    """Participants are compared by these hashes: without them it is not known what the peer trains."""
    if not isinstance(value, dict) or not _is_hash(value.get("wasmSha256")):
        return UNKNOWN
    wgsl = value.get("wgsl")
    if not isinstance(wgsl, dict) or not isinstance(wgsl.get("present"), bool):
        return UNKNOWN
    hashes = wgsl.get("sha256")
    if not isinstance(hashes, list) or len(hashes) > MAX_HASHES or not all(map(_is_hash, hashes)):
        return UNKNOWN
    return {
        "id": _text(value.get("id")),
        "version": _text(value.get("version")),
        "wasmSha256": value["wasmSha256"],
        "wgsl": {"present": wgsl["present"], "sha256": hashes},
    }


def _metrics(values: dict[str, Any]) -> dict[str, float]:
    """A value that is no number is missing, and the others stay (C76)."""
    kept = {_text(name): number for name, number in values.items() if _is_finite(number)}
    return dict(list(kept.items())[:MAX_SNAPSHOT_METRICS])


def _assignment(value: Any) -> dict[str, Any] | None:
    """None also when it does not say of which job it is."""
    if not isinstance(value, dict) or _text(value.get("jobId")) in ("", UNKNOWN):
        return None
    return _members(value, ASSIGNMENT)


def training_attempt(snapshot: dict[str, Any]) -> UUID | None:
    """The attempt that a cleaned snapshot is training for."""
    assignment = snapshot["assignment"]
    if snapshot["stage"] != "training" or not isinstance(assignment, dict):
        return None
    try:
        return UUID(assignment["attemptId"])
    except ValueError:
        return None
