"""The form of a figure: what was measured, beside what it is compared with in the same run."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar


class _Line(ABC):
    """What every figure is printed as: one line of JSON, always with the same members."""

    more_is_better: ClassVar[bool]

    @property
    @abstractmethod
    def missed(self) -> bool:
        """Whether it is worse than its goal, or was not measured."""

    @abstractmethod
    def members(self) -> dict[str, Any]: ...

    @property
    def line(self) -> str:
        return json.dumps(self.members())


@dataclass(frozen=True)
class _Beside(_Line):
    name: str
    value: float
    unit: str
    peer: str
    peer_value: float
    goal: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.peer_value

    def members(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": _shortened(self.value),
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": _shortened(self.peer_value),
            "ratio": _shortened(self.ratio),
            "goal": self.goal,
        }


@dataclass(frozen=True)
class Measured(_Beside):
    """More is better. `goal` is the least `ratio` of value to peer_value that the project wants; None: just told."""

    more_is_better: ClassVar = True

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.ratio < self.goal


@dataclass(frozen=True)
class Compared(_Beside):
    """Less is better. `goal` is the most `ratio` of value to peer_value that the project wants; None: just told."""

    more_is_better: ClassVar = False

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.ratio > self.goal


@dataclass(frozen=True)
class _Alone(_Line):
    """There is no peer. `value` is None when what was waited for never came."""

    name: str
    value: float | None
    unit: str
    goal: float | None = None

    def members(self) -> dict[str, Any]:
        value = None if self.value is None else _shortened(self.value)
        nothing = {"peer": None, "peer_value": None, "ratio": None}
        return {"name": self.name, "value": value, "unit": self.unit, **nothing, "goal": self.goal}


@dataclass(frozen=True)
class Duration(_Alone):
    """Less is better: a time, memory, a loss. `goal` is the most `value` that the project wants; None: just told."""

    more_is_better: ClassVar = False

    @property
    def missed(self) -> bool:
        return self.value is None or (self.goal is not None and self.value > self.goal)


@dataclass(frozen=True)
class Rate(_Alone):
    """More is better. `goal` is the least `value` that the project wants; None: just told."""

    more_is_better: ClassVar = True

    @property
    def missed(self) -> bool:
        return self.value is None or (self.goal is not None and self.value < self.goal)


@dataclass(frozen=True)
class NotMeasured(_Line):
    """A figure whose peer is not there, which counts as missed. `why` is one sentence that says what to do; it stands
    in the peer's place."""

    name: str
    why: str
    more_is_better: ClassVar = True

    @property
    def missed(self) -> bool:
        return True

    def members(self) -> dict[str, Any]:
        nothing = {"value": None, "unit": None, "peer": self.why, "peer_value": None, "ratio": None, "goal": None}
        return {"name": self.name, **nothing}


Figure = Measured | Compared | Duration | Rate | NotMeasured


def _shortened(number: float) -> float:
    """Three significant digits: more would be noise."""
    return float(f"{number:.3g}")
