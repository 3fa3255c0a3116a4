"""The Execution diagnostics card: each participant's latest snapshot as rows of the page. What a peer could not
determine ("unknown") is None here and a dash on the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.selectors.status import ParticipantRow

STALE_MS = 10_000


@dataclass(frozen=True)
class DiagnosticsRow:
    peer_id: str
    label: str
    connected: bool
    age_ms: float | None
    stale: bool
    environment: dict[str, Any]
    execution: dict[str, Any]
    gpu: dict[str, Any]
    model: dict[str, Any]
    assignment: dict[str, Any]
    stage: str | None
    error: str | None
    timings: dict[str, Any]
    performance: dict[str, Any]


@dataclass(frozen=True)
class Diagnosis:
    """`same_settings` and `same_model` compare those that said so; None: fewer than two did."""

    rows: Sequence[DiagnosticsRow]
    silent: int
    """Participants that have not sent a snapshot."""
    same_settings: bool | None
    same_model: bool | None


def diagnosis(participants: Iterable[ParticipantRow]) -> Diagnosis:
    everyone = list(participants)
    rows = [_row(participant, participant.snapshot) for participant in everyone if participant.snapshot]
    settings = [
        tuple(row.assignment.get(name) for name in ("batchSize", "localEpochs", "learningRate"))
        for row in rows
        if row.assignment
    ]
    models = [row.model.get("wasmSha256") for row in rows if row.model]
    return Diagnosis(rows, len(everyone) - len(rows), _all_same(settings), _all_same(models))


def _row(participant: ParticipantRow, snapshot: dict[str, Any]) -> DiagnosticsRow:
    age = participant.age_ms
    return DiagnosticsRow(
        peer_id=str(participant.peer_id),
        label=participant.label,
        connected=participant.connected,
        age_ms=age,
        stale=not participant.connected or age is None or age > STALE_MS,
        environment=_part(snapshot, "environment"),
        execution=_part(snapshot, "execution"),
        gpu=_part(snapshot, "gpu"),
        model=_part(snapshot, "model"),
        assignment=_part(snapshot, "assignment"),
        stage=snapshot.get("stage"),
        error=snapshot.get("error"),
        timings=_part(snapshot, "timings"),
        performance=_part(snapshot, "performance"),
    )


def _part(snapshot: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of the snapshot without what is unknown; empty when the whole part is."""
    part = snapshot.get(name)
    return {key: value for key, value in part.items() if value != "unknown"} if isinstance(part, dict) else {}


def _all_same(values: Sequence[object]) -> bool | None:
    return len(set(values)) == 1 if len(values) > 1 else None
