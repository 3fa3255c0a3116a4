"""Training and validation metrics by checkpoint round, for the chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from checkpoints.models import Checkpoint
from jobs.models import Job
from jobs.selectors.kind import checks_of
from jobs.selectors.pages import Metric, metrics_of

MAX_POINTS = 2_000


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
    rounds: list[int]
    series: list[Series]
    check: str
    """What the values of kind "validation" are called for this job."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chart_data(job: Job) -> ChartData:
    """Series without any value are left out."""
    found = Checkpoint.objects.filter(job=job).order_by("round")
    rows = thinned(list(found.values_list("round", "metrics_text", "validation_text")))
    rounds = [round_no for round_no, _, _ in rows]
    training = [json.loads(text) for _, text, _ in rows]
    validated = [json.loads(text)["metrics"] if text else {} for _, _, text in rows]
    both = [
        _series(metric, kind, values)
        for metric in metrics_of(job)
        for kind, values in (("training", training), ("validation", validated))
    ]
    shown = [series for series in both if any(value is not None for value in series.values)]
    return ChartData(rounds, shown, checks_of(job).noun)


def _series(metric: Metric, kind: str, values: list[dict[str, float]]) -> Series:
    return Series(metric.id, metric.label, metric.direction, kind, [value.get(metric.id) for value in values])


def thinned(rows: Sequence[tuple[int, str, str]]) -> Sequence[tuple[int, str, str]]:
    """At most about MAX_POINTS rows: every n-th, the last, and none that was validated is lost while there is room."""
    if len(rows) <= MAX_POINTS:
        return rows
    stride = -(-len(rows) // MAX_POINTS)
    validated = sum(1 for row in rows if row[2])
    keep_validated = validated <= MAX_POINTS
    last = len(rows) - 1
    return [
        row
        for index, row in enumerate(rows)
        if index % stride == 0 or index == last or (keep_validated and bool(row[2]))
    ]
