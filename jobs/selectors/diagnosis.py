"""The Execution diagnostics card: each participant's latest snapshot as the texts of a row. What a peer could not
determine is a dash. The page writes the same texts while it listens (static/pages/diagnostics/cells.js);
tests/golden/card.json holds both to the same words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.selectors.comparing import Comparison, compare, facts_of
from jobs.selectors.status import ParticipantRow
from jobs.templatetags.weei import DASH, bytes_text, count, duration, is_missing, speed, state_word
from weei_core import js_json

STALE_MS = 10_000
AWAY = frozenset({"invited", "declined"})
"""States of people who do not take part."""
_MODES = {"auto": "automatic", "cpu": "CPU", "gpu": "GPU", "hybrid": "GPU with CPU"}

Part = Mapping[str, Any]


@dataclass(frozen=True)
class DiagnosticsRow:
    """`cells` and `tones` by the names that stand in the template as `data-slot`; the numbers are to sort by."""

    peer_id: str
    cells: Mapping[str, str]
    tones: Mapping[str, str]
    speed: float | None
    age_ms: float | None


@dataclass(frozen=True)
class Diagnosis:
    rows: Sequence[DiagnosticsRow]
    comparison: Comparison
    differing: Sequence[str]
    """Who differs in what, one line each."""


def diagnosis(participants: Iterable[ParticipantRow], units: str) -> Diagnosis:
    """`units` is what an assignment counts, inside a sentence."""
    people = [person for person in participants if person.state not in AWAY]
    told = {str(one.peer_id): facts_of(one.snapshot) for one in people if one.snapshot and one.connected}
    comparison = compare(told)
    rows = [_row(person, comparison.differing.get(str(person.peer_id), ""), units) for person in people]
    lines = [f"{row.cells['name']} ({row.cells['id']}): {row.cells['differs']}" for row in rows if row.cells["differs"]]
    return Diagnosis(rows, comparison, lines)


def _row(person: ParticipantRow, differs: str, units: str) -> DiagnosticsRow:
    snapshot = person.snapshot or {}
    state, state_tone = state_word(snapshot["stage"] if snapshot and person.connected else person.state)
    fresh, fresh_tone = _freshness(person)
    cells = {
        "name": person.label or "Unnamed device",
        "id": str(person.peer_id)[:8],
        "differs": differs,
        "state": state,
        "error": str(snapshot.get("error") or person.load_error or ""),
        "fresh": fresh,
        **_device(snapshot, person.label),
        **_work(snapshot, units),
        **_details(snapshot, units),
    }
    performance = _part(snapshot, "performance")
    tones = {"state": state_tone, "fresh": fresh_tone}
    return DiagnosticsRow(str(person.peer_id), cells, tones, performance.get("currentExamplesPerSecond"), person.age_ms)


def _freshness(person: ParticipantRow) -> tuple[str, str]:
    if person.age_ms is None:
        return "No report yet", ""
    if not person.connected:
        return f"Disconnected, {_age(person.age_ms)} old", "warn"
    return (f"Stale, {_age(person.age_ms)} old", "warn") if person.age_ms > STALE_MS else ("Live", "good")


def _age(milliseconds: float) -> str:
    seconds = int(milliseconds // 1000)
    return f"{seconds} s" if seconds < 60 else duration(seconds * 1000)


def _device(snapshot: Part, label: str) -> dict[str, str]:
    environment, execution, gpu = (_part(snapshot, name) for name in ("environment", "execution", "gpu"))
    system = _system(environment)
    reason = execution.get("fallbackReason")
    asked = _MODES.get(str(execution.get("requested")), DASH)
    active, limit = _said(execution.get("activeWorkers")), _said(execution.get("workerLimit"))
    return {
        "system": "" if system == label else system,
        "mode": _MODES.get(str(execution.get("actual")), _said(execution.get("actual"))),
        "why": f"{asked} was asked for: {reason}" if reason else "",
        "workers": DASH if active == limit == DASH else f"{active} of {limit}",
        "gpu": _gpu(gpu),
    }


def _system(environment: Part) -> str:
    browser = " ".join(str(environment[name]) for name in ("browser", "browserVersion") if name in environment)
    system = environment.get("os")
    return f"{browser or DASH} on {system}" if system else browser or DASH


def _gpu(gpu: Part) -> str:
    if gpu.get("webgpu") == "unavailable":
        return "no WebGPU"
    adapter = gpu.get("adapter")
    named = [str(value) for value in adapter.values() if not is_missing(value)] if isinstance(adapter, dict) else []
    return " ".join(dict.fromkeys(named)) or DASH


def _work(snapshot: Part, units: str) -> dict[str, str]:
    assignment, timings, performance = (_part(snapshot, name) for name in ("assignment", "timings", "performance"))
    current = performance.get("currentExamplesPerSecond")
    return {
        "work": f"round {_said(assignment.get('round'))}, {_said(assignment.get('chunkId'))}" if assignment else DASH,
        "done": _done(snapshot["stage"], performance, units) if assignment else "",
        "prepared": duration(timings.get("preparationMs")),
        "compiled": duration(timings.get("compilationMs")),
        "trained": duration(timings.get("trainingMs")),
        "sent": duration(timings.get("uploadMs")),
        "speed": speed(current),
        "average": speed(performance.get("averageExamplesPerSecond")),
    }


def _done(stage: str, performance: Part, units: str) -> str:
    processed, total = performance.get("processedExamples"), performance.get("totalExamples")
    rate = performance.get("currentExamplesPerSecond")
    text = f"{count(processed)} of {count(total)} {units}"
    if stage != "training" or not rate or processed is None or total is None:
        return text
    return f"{text}, about {_age(1000 * (total - processed) / rate)} left"


def _details(snapshot: Part, units: str) -> dict[str, str]:
    environment, execution, gpu = (_part(snapshot, name) for name in ("environment", "execution", "gpu"))
    assignment, performance, model = (_part(snapshot, name) for name in ("assignment", "performance", "model"))
    batch, epochs, rate = (_said(assignment.get(name)) for name in ("batchSize", "localEpochs", "learningRate"))
    cores, budget = environment.get("logicalCores"), gpu.get("memoryBudgetMiB")
    asked = _MODES.get(str(execution.get("requested")), DASH)
    size = f"{count(assignment.get('exampleCount'))} {units}, {bytes_text(assignment.get('bytes'))}"
    return {
        "settings": f"batch size {batch}, local epochs {epochs}, learning rate {rate}" if assignment else DASH,
        "size": size if assignment else DASH,
        "assignment": _said(assignment.get("assignmentId")),
        "attempt": _said(assignment.get("attemptId")),
        "steps": count(performance.get("optimizerSteps")),
        "cores": _said(cores),
        "backend": f"{_said(execution.get('backend'))}, asked for: {asked}" if execution else DASH,
        "webgpu": _said(gpu.get("webgpu")),
        "adapter": _gpu(gpu) if gpu.get("webgpu") == "available" else DASH,
        "budget": DASH if budget is None else f"{budget} MiB",
        "attempted": _attempted(gpu),
        "model": f"{_said(model.get('id'))} {model.get('version', '')}".strip(),
        "module": _said(model.get("wasmSha256")),
        "shaders": _shaders(model.get("wgsl")),
    }


def _attempted(gpu: Part) -> str:
    """How the last attempt to use the GPU ended; None is a success, and what is not there was never tried."""
    if "initializationError" not in gpu:
        return DASH
    return str(gpu["initializationError"] or "ready")


def _shaders(wgsl: Any) -> str:
    if not isinstance(wgsl, dict):
        return DASH
    return ", ".join(wgsl["sha256"]) or "none"


def _part(snapshot: Part, name: str) -> Part:
    """A part of the snapshot without what is unknown; empty when the whole part is."""
    part = snapshot.get(name)
    return {key: value for key, value in part.items() if value != "unknown"} if isinstance(part, dict) else {}


def _said(value: Any) -> str:
    """A text, or a number as JavaScript writes it."""
    if is_missing(value):
        return DASH
    return value if isinstance(value, str) else js_json.dumps(value)
