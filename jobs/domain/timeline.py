"""Where the time of a round went, as plain arithmetic: parts of an attempt, and who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import mean


@dataclass(frozen=True)
class Span:
    """`kind`: "prepare", "work", "train", "upload", "wait", "merge", "save" or "evaluate"."""

    kind: str
    start: datetime
    end: datetime


def attempt_spans(
    dealt: datetime, training: datetime | None, uploading: datetime | None, ended: datetime, *, until: datetime
) -> list[Span]:
    """What a device did from the deal to the end of its attempt, and that it waited then, `until` the round closed.

    Without a time of training it is one span of "work": which part of it was preparing nobody told.
    """
    sent = min(max(uploading, dealt), ended) if uploading else ended
    began = min(max(training, dealt), sent) if training else None
    first = [Span("prepare", dealt, began), Span("train", began, sent)] if began else [Span("work", dealt, sent)]
    spans = [*first, Span("upload", sent, ended), Span("wait", ended, max(ended, until))]
    return [span for span in spans if span.end > span.start]


@dataclass(frozen=True)
class Waiting:
    """`alone` is how long (seconds) everybody else waited for the last one, `last` its place among those that ended;
    `idle` is the part of the round (0 to 1) that a participant had nothing to do, on average."""

    alone: float
    total: float
    idle: float
    last: int

    @property
    def alone_ms(self) -> float:
        return self.alone * 1000

    @property
    def total_ms(self) -> float:
        return self.total * 1000

    @property
    def alone_percent(self) -> int:
        return round(100 * self.alone / self.total)

    @property
    def idle_percent(self) -> int:
        return round(100 * self.idle)


def waiting(opened: datetime, ends: Sequence[datetime]) -> Waiting | None:
    """From the moments at which the participants ended. None: there were not two of them, or no time went by."""
    last = max(ends, default=opened)
    total = (last - opened).total_seconds()
    if len(ends) < 2 or total <= 0:
        return None
    before = sorted(ends)[-2]
    idle = mean((last - end).total_seconds() for end in ends) / total
    return Waiting((last - before).total_seconds(), total, idle, list(ends).index(last))


def ticks(seconds: float, most: int = 6) -> list[float]:
    """Round times from 0 to `seconds` for an axis, at most `most` of them behind 0."""
    steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
    hours = tuple(3600 * n for n in (1, 2, 4, 6, 12, 24))
    step = next(
        (step for step in (*steps, *hours) if seconds / step <= most), 86_400 * max(1, round(seconds / 86_400 / most))
    )
    return [round(step * at, 6) for at in range(int(seconds / step) + 1)]
