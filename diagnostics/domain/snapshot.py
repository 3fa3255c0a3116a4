"""What a peer may say of itself, checked at the edge. Odd values are dropped or shortened, never refused whole: a
snapshot that is half usable still tells more than none."""

from __future__ import annotations

import math
from typing import Any

from weei_core.errors import Invalid

STAGES = frozenset(
    {"waiting", "receiving", "preparing", "compiling", "training", "uploading", "awaitingAggregation", "error"}
)
SECTIONS = ("environment", "execution", "gpu", "model", "assignment", "timings", "performance")
MAX_TEXT = 300
MAX_DEPTH = 4
MAX_MEMBERS = 64
UNKNOWN = "unknown"


def clean_snapshot(value: dict[str, Any]) -> dict[str, Any]:
    """The snapshot as it is kept and relayed. Raises `Invalid` only if it is no snapshot at all."""
    sequence = value.get("sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= 2**53:
        raise Invalid("snapshot.sequence: must be a count.", field="snapshot.sequence")
    stage = value.get("stage")
    if not isinstance(stage, str) or stage not in STAGES:
        raise Invalid(f"snapshot.stage: must be one of {', '.join(sorted(STAGES))}.", field="snapshot.stage")
    return {
        "schemaVersion": 1,
        "sequence": sequence,
        "measuredAt": _clean(value.get("measuredAt"), 1),
        **{name: _section(name, value.get(name)) for name in SECTIONS},
        "stage": stage,
        "error": _clean(value.get("error"), 1),
    }


def _section(name: str, value: Any) -> Any:
    """An object, or `unknown`; for the assignment an object or None."""
    if isinstance(value, dict):
        return _clean(value, 1)
    return None if name == "assignment" else UNKNOWN


def _clean(value: Any, depth: int) -> Any:
    """Plain JSON of bounded size; what a page or a database cannot hold becomes `unknown`."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_TEXT]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value if math.isfinite(value) else UNKNOWN
    if depth >= MAX_DEPTH:
        return UNKNOWN
    if isinstance(value, dict):
        return {str(_clean(key, depth)): _clean(item, depth + 1) for key, item in list(value.items())[:MAX_MEMBERS]}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value[:MAX_MEMBERS]]
    return UNKNOWN
