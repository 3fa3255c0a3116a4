"""`participants`: how many may be connected to one web process, each telling of itself every two seconds, with the
database and Redis on. From 10 to 1,000 of them: sockets lost, how long a message and a poll wait for their answers, and
what each one more costs.

A message's time is that from a fake participant to the code that reads messages and back, beside its telemetry.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.diagnostics_fanout import cpu_seconds
from benchmarks.measured import Duration, Figure
from tests.load.behaviour import Behaviour
from tests.load.idle_job import IdleJob
from tests.load.process import SwarmProcess
from tests.stack.stack import Stack

SECONDS = {10: 15, 100: 15, 300: 60, 1000: 40}
"""How long each size is measured, in ascending order: memory that was given back once is not measured again."""
GATE, LARGEST = 300, 1000
P99_MS = {GATE: 100.0, LARGEST: 250.0}
MOST_MIB = 400
TELEMETRY = Behaviour(telemetry_seconds=2.0, ping_seconds=2.0)
CONNECTED_SECONDS = 120
SETTLE_SECONDS = 5
CONNECTS_EACH_SECOND = 50.0


@dataclass(frozen=True)
class Load:
    """Of the server's processes and of the swarm, in the measured time."""

    told: dict[str, Any]
    cores: float
    mib: float
    swarm_cores: float


def measure() -> Iterator[Figure]:
    with Stack() as stack:
        loads = {count: measured(stack, count) for count in SECONDS}
    for count, load in loads.items():
        name, latency = f"participants_{count}", load.told["latency"]
        limit = P99_MS.get(count)
        yield Duration(f"{name}_drops", load.told["drops"] + count - load.told["connected"], "sockets", 0)
        yield Duration(f"{name}_message_p99", latency["message"]["p99"], "ms", limit)
        yield Duration(f"{name}_poll_p99", latency["poll"]["p99"], "ms", limit)
        yield Duration(f"{name}_cpu", load.cores, "cores")
        yield Duration(f"{name}_memory", load.mib, "MiB", MOST_MIB)
        yield Duration(f"{name}_swarm_cpu", load.swarm_cores, "cores")
    least, most = loads[min(loads)], loads[max(loads)]
    each = (most.mib - least.mib) / (max(loads) - min(loads))
    yield Duration("participants_memory_each", each * 1024, "KiB")


def measured(stack: Stack, count: int) -> Load:
    """A job of their own for each number; it is not started, so that nothing but their being there is measured."""
    job = IdleJob(stack)
    with SwarmProcess(
        stack.url, count=count, seed=count, tokens=job.members(count), behaviour=TELEMETRY, spread=CONNECTS_EACH_SECOND
    ) as swarm:
        swarm.until(lambda told: told["connected"] == count, CONNECTED_SECONDS)
        time.sleep(SETTLE_SECONDS)
        pids = [stack.pid(name) for name in stack.services]
        swarm.clear()
        before, begun = sum(map(cpu_seconds, pids)), time.monotonic()
        time.sleep(SECONDS[count])
        cores = (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - begun)
        told = swarm.told()
        return Load(told, cores, resident_mib(stack.pid("web")), told["cpu_seconds"] / told["seconds"])


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
