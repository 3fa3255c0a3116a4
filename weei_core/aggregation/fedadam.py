"""Adam on the server, with bias correction and epsilon outside the root. Reddi et al., arXiv 2003.00295.

first = beta1 * first + (1 - beta1) * change, second = beta2 * second + (1 - beta2) * (change * change), where change =
average - start; weights = start + (rate * (first / (1 - beta1^step))) / (sqrt(second / (1 - beta2^step)) + epsilon)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from weei_core.aggregation.method import Option


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

    def constants(self, options: Mapping[str, float], step: int) -> tuple[float, ...]:
        beta1, beta2 = options["beta1"], options["beta2"]
        corrections = 1 - _power(beta1, step), 1 - _power(beta2, step)
        return beta1, 1 - beta1, beta2, 1 - beta2, *corrections, options["serverLearningRate"], options["epsilon"]


@lru_cache(maxsize=8)
def _power(beta: float, step: int) -> float:
    """`beta` multiplied `step` times, left to right: `**` is not rounded the same way on every platform."""
    power = 1.0
    for _ in range(step):
        power *= beta
    return power
