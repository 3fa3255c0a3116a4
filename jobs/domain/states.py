"""States of a job, and the participant state that people see, as plain rules."""

from __future__ import annotations

from dataclasses import dataclass

from weei_core.errors import Conflict

READY, RUNNING, PAUSED, COMPLETED = "ready", "running", "paused", "completed"

LEGAL = frozenset(
    {
        (READY, RUNNING),
        (RUNNING, PAUSED),
        (PAUSED, RUNNING),
        (READY, COMPLETED),
        (RUNNING, COMPLETED),
        (PAUSED, COMPLETED),
    }
)


def check_transition(old: str, new: str) -> None:
    if (old, new) not in LEGAL:
        raise Conflict(f"The job is {old}: it cannot become {new}.", field="job.status", code="wrong_status")


@dataclass(frozen=True)
class ParticipantFacts:
    """What the participant state follows from. `slot_status` is that of its slot in the round at work, if any;
    `stage` the one of its latest snapshot, if that speaks of the live attempt."""

    membership: str
    connected: bool
    heard_from: bool
    paused: bool
    slot_status: str | None = None
    stage: str | None = None


def participant_state(facts: ParticipantFacts) -> str:
    """The wire value of `ParticipantState.state`: the first of these that holds."""
    if facts.membership in ("invited", "declined", "modelLoadFailed"):
        return facts.membership
    if facts.membership in ("left", "removed"):
        return "disconnected"
    if not facts.heard_from:
        return "unknown"
    if not facts.connected:
        return "disconnected"
    if facts.paused:
        return "stopped"
    if facts.slot_status in ("loading", "training"):
        return {"training": "training", "uploading": "updateReady"}.get(facts.stage or "", "assigned")
    if facts.slot_status == "received":
        return "resultReceived"
    if facts.slot_status == "stopped":
        return "stopped"
    return facts.membership
