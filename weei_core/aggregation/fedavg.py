"""FedAvg: weights = average. McMahan et al., arXiv 1602.05629."""

from __future__ import annotations

from collections.abc import Mapping

from weei_core.aggregation.method import Option


class FedAvg:
    id = "fedavg"
    label = "FedAvg"
    options: tuple[Option, ...] = ()
    state_vectors = 0

    def constants(self, options: Mapping[str, float], step: int) -> tuple[float, ...]:
        return ()
