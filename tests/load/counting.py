"""What a swarm counts, in memory that does not grow with time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

STEP = math.log(1.05)


class Histogram:
    """Durations in buckets that are 5 % wide, so that a percentile is at most 5 % above what was measured."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        ms = seconds * 1000
        self.count += 1
        self.most = max(self.most, ms)
        self._buckets[math.ceil(math.log(max(ms, 0.001)) / STEP)] += 1

    def percentile(self, share: float) -> float | None:
        """Milliseconds that so large a share (0–1) does not exceed; None where nothing was measured."""
        left = math.ceil(share * self.count)
        if not self.count:
            return None
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(self.most, math.exp(bucket * STEP))
        return self.most

    def told(self) -> dict[str, Any]:
        """Milliseconds."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        found = {name: self.percentile(share) for name, share in shares.items()}
        most = self.most if self.count else None
        return {"count": self.count, **{name: _short(ms) for name, ms in found.items()}, "max": _short(most)}


def _short(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)


LATENCIES = ("connect", "message", "poll", "upload", "next")
"""From TCP to welcome; from a message over the socket to its answer; of GET /api/v1/peer/state; of an upload; from an
accepted update to the next assignment."""


@dataclass
class Counters:
    assignments: int = 0
    accepted: int = 0
    duplicates: int = 0
    """Answers that say that the bytes were there before."""
    states: int = 0
    snapshots: int = 0
    reconnects: int = 0
    drops: int = 0
    """Sockets that ended without the participant's doing."""
    failures: Counter[str] = field(default_factory=Counter)
    """Faults that the swarm made on purpose, by name (`tests/load/behaviour.py`)."""
    refused: Counter[str] = field(default_factory=Counter)
    """Problem details, by code."""
    unexpected: Counter[str] = field(default_factory=Counter)
    """Answers that an honest participant, or a fault of that kind, must not get."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Answers of 500 and above, by status."""
    closes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Error frames, by code, but for those that measure a message's way."""
    latency: dict[str, Histogram] = field(default_factory=lambda: {name: Histogram() for name in LATENCIES})

    def clear(self) -> None:
        vars(self).update(vars(Counters()))

    def told(self) -> dict[str, Any]:
        numbers = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        counted = {name: dict(value) for name, value in vars(self).items() if isinstance(value, Counter)}
        return {**numbers, **counted, "latency": {name: kept.told() for name, kept in self.latency.items()}}
