"""Training and validation metrics by checkpoint round, for the charts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.db.models import Sum

from checkpoints.models import Checkpoint
from jobs.models import Job, Round
from jobs.selectors.kind import checks_of, kind_of
from jobs.selectors.pages import Metric, metrics_of

MAX_POINTS = 2_000

Values = Sequence[float | None]
Row = tuple[int, datetime, int, str, str]
"""Round, when it was saved, examples in it, metrics_text, validation_text."""


@dataclass(frozen=True)
class Series:
    """`values[i]` belongs to `rounds[i]`; None is a gap: not measured, never 0."""

    metric: str
    label: str
    direction: str
    kind: str
    """"training" or "validation"."""
    values: list[float | None]


@dataclass(frozen=True)
class ChartData:
    """Every list but `series` has one entry for each of `rounds`."""

    rounds: list[int]
    series: list[Series]
    check: str
    """What the values of kind "validation" are called for this job."""
    times: list[int]
    """When the checkpoint was saved, in milliseconds since 1970."""
    started: int | None
    """When the job was started, likewise; None: never."""
    examples: list[int]
    """Trained since the job's first checkpoint."""
    participants: list[int | None]
    """Whose update was merged; None for a checkpoint that no round made."""
    unit: str
    """What `examples` counts, inside a sentence."""
    found: int
    """Checkpoints in the range that was asked for; more than there are `rounds` when it was thinned."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chart_data(job: Job, first: int | None = None, last: int | None = None) -> ChartData:
    """Checkpoints of rounds `first` to `last`, thinned to at most MAX_POINTS. Series without any value are left out."""
    every = Checkpoint.objects.filter(job=job)
    within = {key: value for key, value in (("round__gte", first), ("round__lte", last)) if value is not None}
    columns = ("round", "created", "examples_processed", "metrics_text", "validation_text")
    rows: list[Row] = list(every.filter(**within).order_by("round").values_list(*columns))
    before = every.filter(round__lt=first).aggregate(n=Sum("examples_processed"))["n"] if first is not None else 0
    examples = list(accumulate((row[2] for row in rows), initial=before or 0))[1:]
    series = [line for line in _all_series(job, rows) if any(value is not None for value in line.values)]
    kept = thinned(len(rows), [line.values for line in series])
    merged = dict(Round.objects.filter(job=job, state=Round.State.DONE).values_list("number", "received"))
    return ChartData(
        rounds=[rows[at][0] for at in kept],
        series=[Series(s.metric, s.label, s.direction, s.kind, [s.values[at] for at in kept]) for s in series],
        check=checks_of(job).noun,
        times=[_milliseconds(rows[at][1]) for at in kept],
        started=_milliseconds(job.started_at) if job.started_at else None,
        examples=[examples[at] for at in kept],
        participants=[merged.get(rows[at][0]) for at in kept],
        unit=kind_of(job).units_in_text,
        found=len(rows),
    )


def _all_series(job: Job, rows: Sequence[Row]) -> Iterator[Series]:
    training = [json.loads(text) for *_, text, _ in rows]
    validated = [json.loads(text)["metrics"] if text else {} for *_, text in rows]
    for metric in metrics_of(job):
        yield _series(metric, "training", training)
        yield _series(metric, "validation", validated)


def _series(metric: Metric, kind: str, values: list[dict[str, float]]) -> Series:
    return Series(metric.id, metric.label, metric.direction, kind, [value.get(metric.id) for value in values])


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def thinned(count: int, columns: Sequence[Values], most: int = MAX_POINTS) -> list[int]:
    """Which of `count` rows to keep, at most `most`: the first and the last, and of every bucket, for every column, its
    lowest and its highest value and its first gap. So no peak, no dip and no hole of the whole picture is lost."""
    if count <= most:
        return list(range(count))
    buckets = max(1, (most - 2) // max(1, 3 * len(columns)))
    kept = {0, count - 1}
    for bucket in range(buckets):
        rows = range(bucket * count // buckets, (bucket + 1) * count // buckets)
        for column in columns:
            valued = [row for row in rows if column[row] is not None]
            if valued:
                kept |= {min(valued, key=column.__getitem__), max(valued, key=column.__getitem__)}  # type: ignore[arg-type]
            if len(valued) < len(rows):
                kept.add(next(row for row in rows if column[row] is None))
    return sorted(kept)
