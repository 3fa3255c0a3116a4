"""Federated averaging: the weighted mean is the next checkpoint. McMahan et al., arXiv 1602.05629."""

from __future__ import annotations

from collections.abc import Mapping

from weei_core.aggregation.method import Option, Vector


class FedAvg:
    id = "fedavg"
    label = "FedAvg"
    options: tuple[Option, ...] = ()
    state_vectors = 0
    uses_start = False

    def step(
        self,
        start: Vector,
        average: Vector,
        state: tuple[Vector, ...],
        step: int,
        options: Mapping[str, float],
        scratch: Vector,
    ) -> tuple[Vector, tuple[Vector, ...]]:
        return average, ()
