"""The form of a figure: what was measured, beside what it is compared with in the same run."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """More is better. `goal` is the least `ratio` of value to peer_value that the project wants."""

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float
    goal: float

    @property
    def ratio(self) -> float:
        return self.value / self.peer_value

    @property
    def line(self) -> str:
        """One line of JSON."""
        members = {
            "name": self.name,
            "value": _shortened(self.value),
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": _shortened(self.peer_value),
            "ratio": _shortened(self.ratio),
            "goal": self.goal,
        }
        return json.dumps(members)


def _shortened(number: float) -> float:
    """Three significant digits: more would be noise."""
    return float(f"{number:.3g}")
