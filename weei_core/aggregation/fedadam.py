"""Adam on the server, with bias correction and epsilon outside the root. Reddi et al., arXiv 2003.00295."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from weei_core.aggregation.method import Option, Vector


class FedAdam:
    id = "fedadam"
    label = "FedAdam"
    options = (
        Option("serverLearningRate", default=0.01, high=10.0),
        Option("beta1", default=0.9, high=1.0, high_included=False),
        Option("beta2", default=0.99, high=1.0, high_included=False),
        Option("epsilon", default=0.001, high=1.0),
    )
    state_vectors = 2
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
        # A sum or product of two is the same in either order.
        first, second = state
        beta1, beta2 = options["beta1"], options["beta2"]
        change = average
        change -= start
        first *= beta1
        first += np.multiply(change, 1 - beta1, out=scratch)
        second *= beta2
        change *= change
        change *= 1 - beta2
        second += change
        weights = np.divide(first, 1 - _power(beta1, step), out=scratch)
        weights *= options["serverLearningRate"]
        spread = np.divide(second, 1 - _power(beta2, step), out=change)
        np.sqrt(spread, out=spread)
        spread += options["epsilon"]
        weights /= spread
        weights += start
        return weights, (first, second)


@lru_cache(maxsize=8)
def _power(beta: float, step: int) -> float:
    """`beta` multiplied `step` times, left to right: `**` is not rounded the same way on every platform."""
    power = 1.0
    for _ in range(step):
        power *= beta
    return power
