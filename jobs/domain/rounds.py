"""When a round closes, when a slot's time is up, and what comes after a checkpoint, as plain rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median


class Verdict(StrEnum):
    WAIT = "wait"
    CLOSE = "close"
    DEAL_AGAIN = "deal_again"


def verdict(*, live: int, received: int) -> Verdict:
    """What an open round does next. `received` counts accepted updates with a weight."""
    if live > 0:
        return Verdict.WAIT
    return Verdict.CLOSE if received > 0 else Verdict.DEAL_AGAIN


def straggler_limit(
    *, factor: float, floor: float, round_seconds: Sequence[float], peer_seconds: Sequence[float]
) -> float | None:
    """Seconds after which a slot is a straggler: max(floor, factor × max(median of the round's finished slots, the
    peer's own median)). None: no limit (factor 0, or nobody has finished in this round, so nobody waits for it)."""
    if factor == 0 or not round_seconds:
        return None
    typical = max(median(round_seconds), median(peer_seconds) if peer_seconds else 0.0)
    return max(floor, factor * typical)


class Outcome(StrEnum):
    """How a slot of a deal ended."""

    RECEIVED = "received"
    EMPTY = "empty"
    ERROR = "error"
    LOSS = "loss"


def failed_deals_after(before: int, outcomes: Sequence[Outcome]) -> int:
    """Deals in a row that ended only in errors or zero units. A deal with a loss neither counts nor resets; one with a
    received weight resets."""
    if Outcome.RECEIVED in outcomes:
        return 0
    if not outcomes or Outcome.LOSS in outcomes:
        return before
    return before + 1


@dataclass(frozen=True)
class Position:
    """Where a dataset job stands between two rounds."""

    pass_no: int
    left: int
    epochs: int


class After(StrEnum):
    SAME_PASS = "same_pass"
    NEXT_PASS = "next_pass"
    COMPLETED = "completed"


def after_checkpoint(at: Position, *, finishing: bool) -> After:
    """What follows a checkpoint. `pass_no` counts completed passes of this job before the one at work."""
    if finishing:
        return After.COMPLETED
    if at.left > 0:
        return After.SAME_PASS
    return After.NEXT_PASS if at.pass_no + 1 < at.epochs else After.COMPLETED


def after_experience(*, round_no: int, epochs: int, left: int | None, finishing: bool) -> After:
    """The same for an experience job, whose `epochs` is its last round. `left` are the items of a pass over its
    records; None for a job without records."""
    if finishing or round_no >= epochs:
        return After.COMPLETED
    return After.NEXT_PASS if left == 0 else After.SAME_PASS


def rounds_estimate(
    *, items_left: int, items_per_pass: int, passes_left: int, active: int, rounds_done: int
) -> int | None:
    """About how many rounds the job will have in all; None when nobody is active. `passes_left` are whole passes after
    the one at work."""
    if active < 1:
        return None
    per_pass = -(-items_per_pass // active)
    return rounds_done + -(-items_left // active) + passes_left * per_pass


def validation_due(
    *, enabled: bool, unit: str, every: int, round_no: int, first: bool, last: bool, ends_pass: bool, passes: int
) -> bool:
    """Is a checkpoint evaluated by schedule? The first and the last one always are when the schedule is on."""
    if not enabled:
        return False
    if first or last:
        return True
    if unit == "epoch":
        return ends_pass and passes % every == 0
    return round_no % every == 0
