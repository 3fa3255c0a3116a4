"""The file of a debug log: events, and what the finished phases among them say. Twin of static/weei/api/log-file.js;
tests/golden/debug_log.json holds both to the same answers.

An event is a dict `{"at": ISO 8601 with milliseconds, "event": name, "details": {…}}`; without details the key is left
out.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from weei_core import js_json

CAPACITY = 1000
PHASE_FINISHED = "phase.finished"
MAX_TEXT = 300
MAX_NESTED = 1000
MAX_DETAILS = 20
_SECRET = re.compile(r"[\w-]{43,}", re.ASCII)
"""All tokens here, those of invitation links too, have so many random characters or more; a SHA-256 is none."""
_SHA256 = re.compile("[0-9a-f]{64}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Event = dict[str, Any]


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event_of(at: str, name: str, details: Mapping[str, Any]) -> Event:
    """Texts come from modules, files and other people: they are cut, and what looks like a secret is left out."""
    kept = {key: _short(value) for key, value in list(details.items())[:MAX_DETAILS]}
    return {"at": at, "event": name, **({"details": kept} if kept else {})}


def log_file(events: Sequence[Event], exported_at: str) -> dict[str, Any]:
    """TrainingDebugLogFile of the founding text."""
    baseline = {"phases": phase_statistics(events), "idle": idle_statistics(events)}
    return {"schemaVersion": 2, "exportedAt": exported_at, "baseline": baseline, "events": list(events)}


def phase_statistics(events: Sequence[Event]) -> dict[str, dict[str, float]]:
    """By the name of the phase. `p50Ms` is a duration that was measured: the least one that half of all do not exceed
    (of an even number the lower of the two in the middle)."""
    durations: dict[str, list[float]] = defaultdict(list)
    for details in _phases(events):
        durations[details["phase"]].append(details["ms"])
    return {name: _statistics(sorted(durations[name])) for name in sorted(durations)}


def _statistics(ms: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(ms),
        "minMs": ms[0],
        "avgMs": _rounded(sum(ms) / len(ms)),
        "p50Ms": ms[(len(ms) - 1) // 2],
        "maxMs": ms[-1],
    }


def idle_statistics(events: Sequence[Event]) -> dict[str, float]:
    """Time between the phases of a round in which none of them ran. Clocks of two machines are never compared: what
    the server measured of a round and what a browser did are looked at apart. Times are whole milliseconds, so up to
    one of them is no gap."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for details in _phases(events):
        if _is_number(details.get("round")):
            place = js_json.dumps([details.get("from"), details.get("jobId"), details["round"]])
            spans[place].append((details["end"] - details["ms"], details["end"]))
    gaps = [gap for key in spans for gap in _gaps(sorted(spans[key])) if gap > 1]
    total = sum(gaps)
    return {
        "samples": len(gaps),
        "totalMs": _rounded(total),
        "avgMs": _rounded(total / len(gaps)) if gaps else 0,
    }


def _gaps(spans: Sequence[tuple[float, float]]) -> Iterator[float]:
    until = spans[0][1]
    for start, end in spans[1:]:
        yield start - until
        until = max(until, end)


def _phases(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Details of the finished phases, with the `end` of each in milliseconds."""
    found = []
    for event in events:
        details = event.get("details", {})
        ms, phase = details.get("ms"), details.get("phase")
        if event["event"] == PHASE_FINISHED and isinstance(phase, str) and _is_number(ms) and ms >= 0:
            end = (datetime.fromisoformat(event["at"]) - _EPOCH) / timedelta(milliseconds=1)
            found.append({**details, "end": end})
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _rounded(value: float) -> float:
    """To microseconds, as JavaScript does it."""
    return math.floor(value * 1000 + 0.5) / 1000


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(_masked(value))
    if not isinstance(value, (dict, list)):
        return value
    text = js_json.dumps(_masked(value))
    return _masked(value) if len(text) <= MAX_NESTED else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET.sub(lambda run: run[0] if _SHA256.fullmatch(run[0]) else "…", value)
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return value
