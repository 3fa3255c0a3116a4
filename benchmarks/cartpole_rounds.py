"""From the start of a CartPole job to a greedy return of 500, with two local agents on the real processes.

Each round is divided by what the agents say themselves: training (the slower agent's own seconds), transfer (the slower
agent's time from trained to accepted), and overhead: everything of the round that is not training, transfer included.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any

from benchmarks.measured import Duration, Figure
from tests.stack.model_jobs import Agent, CartPoleJob
from tests.stack.stack import Stack

SETTINGS = {"epochs": 30, "seed": "1", "validationSchedule": {"enabled": True, "unit": "round", "every": 1}}
OVERHEAD_MS = 150
MOST_RETURN = 500


def measure() -> Iterator[Figure]:
    """The wall time, then of all rounds the median and the 95th percentile."""
    with Stack() as stack:
        job = CartPoleJob(stack, **SETTINGS)
        with Agent(stack, job.link, "bench-a") as a, Agent(stack, job.link, "bench-b") as b:
            job.start(wanted=2)
            begun = time.monotonic()
            seconds = reached(job, begun)
            job.wait_until_completed(120)
            rounds = rounds_of([a.events(), b.events()])
    yield Duration("cartpole_rounds_to_500", seconds, "s")
    for name in ("training", "transfer", "overhead"):
        values = [made[name] for made in rounds]
        goal = OVERHEAD_MS if name == "overhead" else None
        yield Duration(f"cartpole_rounds_{name}_p50", median(values), "ms", goal)
        yield Duration(f"cartpole_rounds_{name}_p95", quantiles(values, n=20)[-1], "ms")


def reached(job: CartPoleJob, begun: float) -> float | None:
    """Seconds until an evaluation gave the most there is; None when the job ended without."""
    while True:
        facts = job.facts()
        found = [json.loads(text)["metrics"]["episodeReturn"] for text in facts["validation"] if text]
        if any(value >= MOST_RETURN for value in found):
            return time.monotonic() - begun
        if facts["status"] == "completed" and not job.status()["validating"]:
            return None
        time.sleep(0.05)


def rounds_of(logs: list[list[dict[str, Any]]]) -> list[dict[str, float]]:
    """Milliseconds of every round that another one followed."""
    assigned: dict[int, float] = {}
    training: dict[int, float] = defaultdict(float)
    transfer: dict[int, float] = defaultdict(float)
    for log in logs:
        trained_at: dict[int, float] = {}
        for event in log:
            number = event.get("round", 0)
            if event["event"] == "assigned":
                assigned[number] = min(assigned.get(number, event["at"]), event["at"])
            elif event["event"] == "trained":
                trained_at[number] = event["at"]
                training[number] = max(training[number], event["seconds"] * 1000)
            elif event["event"] == "uploaded":
                transfer[number] = max(transfer[number], event["at"] - trained_at[number])
    return [
        {
            "training": training[number],
            "transfer": transfer[number],
            "overhead": assigned[number + 1] - assigned[number] - training[number],
        }
        for number in sorted(assigned)
        if number + 1 in assigned
    ]
