"""How the updates of a round become the next checkpoint: the methods, their settings and the exact merge."""

from weei_core.aggregation.engine import MAX_STEP, MergeResult, NonFiniteStep, WeightedSource, merge
from weei_core.aggregation.method import Method, Option
from weei_core.aggregation.metrics import average_metrics
from weei_core.aggregation.registry import (
    METHOD_IDS,
    METHODS,
    STATEFUL_METHOD_IDS,
    AggregationSettings,
    method_named,
    parse_aggregation,
)

__all__ = [
    "MAX_STEP",
    "METHODS",
    "METHOD_IDS",
    "STATEFUL_METHOD_IDS",
    "AggregationSettings",
    "MergeResult",
    "Method",
    "NonFiniteStep",
    "Option",
    "WeightedSource",
    "average_metrics",
    "merge",
    "method_named",
    "parse_aggregation",
]
