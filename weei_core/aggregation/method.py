"""What an aggregation method is: its options, how much state it keeps, and one pure step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Option:
    """A number from `low` to `high`; `high` itself is allowed only with `high_included`."""

    id: str
    default: float
    high: float
    low: float = 0.0
    high_included: bool = True


class Method(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def options(self) -> tuple[Option, ...]: ...

    @property
    def state_vectors(self) -> int:
        """How many values the method remembers per weight from round to round: 0, 1 or 2."""

    @property
    def uses_start(self) -> bool:
        """Whether `step` looks at `start`; without it, `start` is not read and holds anything."""

    def step(
        self,
        start: Vector,
        average: Vector,
        state: tuple[Vector, ...],
        step: int,
        options: Mapping[str, float],
        scratch: Vector,
    ) -> tuple[Vector, tuple[Vector, ...]]:
        """New weights and state, not yet rounded to float32.

        All vectors are float64 of one length; `start` (see `uses_start`) and `average` hold float32 values. `step` is
        1 in the first round with this state. Every operation is rounded once, in the order the formula is written in;
        numpy fuses nothing, so that the result is the same bits everywhere. All but `start` may be overwritten, and the
        results lie in them: fresh arrays cost more than the arithmetic.
        """
