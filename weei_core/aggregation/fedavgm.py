"""FedAvg with plain server momentum (neither damped nor Nesterov). Hsu et al., arXiv 1909.06335."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weei_core.aggregation.method import Option, Vector


class FedAvgM:
    id = "fedavgm"
    label = "FedAvgM"
    options = (
        Option("serverLearningRate", default=1.0, high=10.0),
        Option("momentum", default=0.9, high=1.0, high_included=False),
    )
    state_vectors = 1
    uses_start = True

    def step(
        self,
        start: Vector,
        average: Vector,
        state: tuple[Vector, ...],
        step: int,
        options: Mapping[str, float],
        scratch: Vector,
    ) -> tuple[Vector, tuple[Vector, ...]]:
        # velocity = momentum * velocity + (average - start); weights = start + rate * velocity
        (velocity,) = state
        velocity *= options["momentum"]
        average -= start
        velocity += average
        weights = np.multiply(velocity, options["serverLearningRate"], out=scratch)
        weights += start
        return weights, (velocity,)
