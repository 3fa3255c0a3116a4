"""Which faults a chaos run has, drawn from its seed: the same seed gives the same list on every machine."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import TypeVar

T = TypeVar("T")

KILLS = {"web-a": 18, "web-b": 14, "fast": 20, "slow": 16, "jail": 10, "redis": 8, "postgres": 8, "backend": 6}
"""What is killed with SIGKILL, and how often in a hundred. `jail` is the child of `slow` that runs the module,
`backend` one connection's process of PostgreSQL, which then restarts all of them."""
LINKS = ("web-a", "postgres", "redis")
TOXICS = ("latency", "bandwidth", "cut", "reset", "half-open")
EVERY = 3
"""After so many kills comes a fault of another kind."""


@dataclass(frozen=True)
class Fault:
    """`seconds`: how long it lasts; 0 for what is over at once. `wait`: seconds of calm before it, so that faults hit
    work at different places. `toxic`: what is wrong with a link; `strength`, from 0 to 1, says how much."""

    step: int
    kind: str
    target: str
    seconds: float
    wait: float
    toxic: str = ""
    strength: float = 0.0

    @property
    def is_kill(self) -> bool:
        return self.kind == "kill"

    def __str__(self) -> str:
        lasts = f" for {self.seconds:g} s" if self.seconds else ""
        return " ".join(filter(None, (self.kind, self.target, self.toxic))) + lasts

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def draw(seed: int, kills: int) -> list[Fault]:
    """`kills` kills, and one other fault after each few; every kind comes before any comes twice. A shorter run is the
    beginning of a longer one."""
    shares = [name for name, share in KILLS.items() for _ in range(share)]
    targets = _bag(random.Random(f"{seed}/kills"), list(KILLS), shares, kills)
    others = _bag(random.Random(f"{seed}/others"), OTHERS, OTHERS, kills // EVERY)
    faults: list[Fault] = []
    for number, target in enumerate(targets, 1):
        faults.append(_fault(seed, len(faults) + 1, "kill", target))
        if number % EVERY == 0:
            faults.append(_fault(seed, len(faults) + 1, *others[number // EVERY - 1]))
    return faults


def _bag(rng: random.Random, first: list[T], then: list[T], count: int) -> list[T]:
    """Draws without putting back: all of `first`, then all of `then`, again and again."""
    drawn = rng.sample(first, len(first))
    while len(drawn) < count:
        drawn += rng.sample(then, len(then))
    return drawn[:count]


OTHERS = [
    *[("stop", name) for name in ("web-a", "fast", "slow", "postgres")],
    *[("terminate", name) for name in ("web-b", "fast", "slow")],
    ("flush", "redis"),
    ("outage", "redis"),
    ("outage", "postgres"),
    ("disconnect", "postgres"),
    ("disk-full", "store"),
    ("clock", "forward"),
    ("clock", "back"),
    *[("link", f"{link} {toxic}") for link in LINKS for toxic in TOXICS],
]
LASTS = {
    "stop": (3, 8),
    "outage": (10, 30),
    "disk-full": (5, 10),
    "clock": (6, 10),
    "link": (4, 8),
}


def _fault(seed: int, step: int, kind: str, target: str) -> Fault:
    rng = random.Random(f"{seed}/{step}")
    low, high = LASTS.get(kind, (0, 0))
    seconds = round(rng.uniform(low, high), 1)
    wait = round(rng.uniform(0.1, 2.0), 2)
    target, _, toxic = target.partition(" ")
    return Fault(step, kind, target, seconds, wait, toxic, rng.random())
