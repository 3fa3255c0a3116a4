"""The form of a figure: what was measured, beside what it is compared with in the same run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Measured:
    """More is better. `goal` is the least `ratio` of value to peer_value that the project wants; None: just told."""

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float
    goal: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.peer_value

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.ratio < self.goal

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


@dataclass(frozen=True)
class Duration:
    """Less is better, and there is no peer. `goal` is the most `value` that the project wants; None: just told. `value`
    is None when what was waited for never came."""

    name: str
    value: float | None
    unit: str
    goal: float | None = None

    @property
    def missed(self) -> bool:
        return self.value is None or (self.goal is not None and self.value > self.goal)

    @property
    def line(self) -> str:
        """One line of JSON."""
        value = None if self.value is None else _shortened(self.value)
        nothing = {"peer": None, "peer_value": None, "ratio": None}
        return json.dumps({"name": self.name, "value": value, "unit": self.unit, **nothing, "goal": self.goal})


@dataclass(frozen=True)
class NotMeasured:
    """A figure whose peer is not there, which counts as missed. `why` is one sentence that says what to do."""

    name: str
    why: str
    missed: ClassVar = True

    @property
    def line(self) -> str:
        """One line of JSON."""
        return json.dumps({"name": self.name, "value": None, "why": self.why})


Figure = Measured | Duration | NotMeasured


def _shortened(number: float) -> float:
    """Three significant digits: more would be noise."""
    return float(f"{number:.3g}")
