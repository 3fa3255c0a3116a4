"""A program's two clocks. Durations come from one that never jumps; only silence looks at both."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds; may stand still while the machine sleeps."""

    def wall(self) -> float:
        """Seconds since the epoch; may jump."""

    def elapsed(self) -> float:
        """Seconds that passed at least, sleep of the machine included; never runs backwards."""


@dataclass
class SystemClock:
    """On Linux the monotonic clock stops during sleep and the wall clock does not: forward jumps count as time gone."""

    _last: tuple[float, float] = field(default_factory=lambda: (time.monotonic(), time.time()))
    _elapsed: float = 0.0

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        now = (self.monotonic(), self.wall())
        self._elapsed += max(now[0] - self._last[0], now[1] - self._last[1])
        self._last = now
        return self._elapsed
