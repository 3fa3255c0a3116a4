"""FedAvg with plain server momentum (neither damped nor Nesterov). Hsu et al., arXiv 1909.06335.

velocity = momentum * velocity + (average - start); weights = start + rate * velocity
"""

from __future__ import annotations

from collections.abc import Mapping

from weei_core.aggregation.method import Option


class FedAvgM:
    id = "fedavgm"
    label = "FedAvgM"
    options = (
        Option("serverLearningRate", default=1.0, high=10.0),
        Option("momentum", default=0.9, high=1.0, high_included=False),
    )
    state_vectors = 1

    def constants(self, options: Mapping[str, float], step: int) -> tuple[float, ...]:
        return options["momentum"], options["serverLearningRate"]
