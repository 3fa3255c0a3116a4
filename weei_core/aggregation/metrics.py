"""The metrics of a round: the mean of what its participants reported, weighted like the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence


def average_metrics(
    declared_ids: Iterable[str], reports: Sequence[tuple[int, Mapping[str, object]]]
) -> dict[str, float]:
    """Per declared id the mean over the updates that reported it. `reports` are (weight, values) in slot order.

    Values that are not finite numbers count as not reported, and so does an update of weight 0. An id that nobody
    reported is absent, never 0; so is one whose mean overflows.
    """
    means: dict[str, float] = {}
    for metric_id in declared_ids:
        total = 0.0
        weights = 0.0
        for weight, values in reports:
            value = values.get(metric_id)
            if weight and isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                total += float(weight) * float(value)
                weights += float(weight)
        if weights and math.isfinite(total):
            means[metric_id] = total / weights
    return means
