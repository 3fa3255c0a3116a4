"""`growth`: what pages, calls and rounds of a job take while it has 10, 1,000 and 10,000 checkpoints, and as many
chunks, on the real server. Each is compared with the same of the smallest job, in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.measured import Compared, Figure
from tests.stack.stack import Stack

FEW, MANY = 10, (1_000, 10_000)
REPEATS = 25
"""Of each; the median counts."""
MOST = 1.5
# Lists begin before round 10, so that all of them have ten rows.
PAGES = {
    "job_page": "/jobs/{job}/",
    "checkpoint_list": "/jobs/{job}/checkpoints/?before=10",
    "panel_overview": "/jobs/{job}/panels/overview",
    "panel_checkpoints": "/jobs/{job}/panels/checkpoints",
    "api_job": "/api/v1/jobs/{job}",
    "api_checkpoints": "/api/v1/jobs/{job}/checkpoints?before=10",
}
MAKE = "from benchmarks.growth_rows import make\nanswer = make(checkpoints, chunks)"
SETTLE = "from benchmarks.growth_rows import settle\nsettle()"
PLAY = "from benchmarks.growth_rows import play\nanswer = play(job)"


def measure() -> Iterator[Figure]:
    # No workers: the bench merges by itself, to know when it begins. Nobody is late while the others are measured.
    with Stack({"STRAGGLER_FLOOR_SECONDS": "86400"}, services=("valkey", "web")) as stack:
        person = stack.signed_in()
        sizes = [(FEW, FEW), *((many, FEW) for many in MANY), *((FEW, many) for many in MANY)]
        jobs = {size: stack.shell(MAKE, checkpoints=size[0], chunks=size[1]) for size in sizes}
        stack.shell(SETTLE)

        def page(address: str) -> Callable[[str], float]:
            def seconds(job: str) -> float:
                begun = time.perf_counter()
                person.get(address.format(job=job)).raise_for_status()
                return time.perf_counter() - begun

            return seconds

        def game(job: str) -> float:
            return float(stack.shell(PLAY, job=job))

        things = {"round": game, **{name: page(address) for name, address in PAGES.items()}}
        for name, seconds in things.items():
            found = in_turns(jobs, seconds)
            for checkpoints, chunks in sizes[1:]:
                what = f"{checkpoints}_checkpoints" if checkpoints > FEW else f"{chunks}_chunks"
                peer = f"the same with {FEW} checkpoints and {FEW} chunks"
                few, many = found[FEW, FEW], found[checkpoints, chunks]
                yield Compared(f"growth_{name}_{what}", 1000 * many, "ms", peer, 1000 * few, MOST)


Size = tuple[int, int]


def in_turns(jobs: dict[Size, str], seconds: Callable[[str], float]) -> dict[Size, float]:
    """The median of each job, all of them in turns, so that a machine that slows down slows all of them."""
    found: dict[Size, list[float]] = {size: [] for size in jobs}
    for job in jobs.values():
        seconds(job)  # The first time pays for what is cached later.
    for _ in range(REPEATS):
        for size, job in jobs.items():
            found[size].append(seconds(job))
    return {size: statistics.median(times) for size, times in found.items()}
