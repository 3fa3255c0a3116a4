"""What an aggregation method is: its options, how much state it keeps, and the constants of its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Option:
    """A number from `low` to `high`; `high` itself is allowed only with `high_included`."""

    id: str
    default: float
    high: float
    low: float = 0.0
    high_included: bool = True


class Method(Protocol):
    """The step itself is the function of merge.c that has the method's id: per weight, in float64, every operation
    rounded once in the order the formula is written in, the results rounded to float32 at the end."""

    @property
    def id(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def options(self) -> tuple[Option, ...]: ...

    @property
    def state_vectors(self) -> int:
        """How many values the method remembers per weight from round to round: 0, 1 or 2. Without any, its step does
        not look at the weights that the round started from either."""

    def constants(self, options: Mapping[str, float], step: int) -> tuple[float, ...]:
        """What the step calculates with, for all weights alike; at most 8. `step` is 1 in the first round with this
        state."""
