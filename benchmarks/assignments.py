"""`assignments`: how many a second one server deals, gets back and validates, with fake participants that do no work,
on the real processes. Beside it what BOINC's authors published of one server: 8.8 million a day (Anderson, Korpela and
Walton, "High-Performance Task Distribution for Volunteer Computing", e-Science 2005).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.diagnostics_fanout import cpu_seconds
from benchmarks.measured import Duration, Figure, Measured, Rate
from tests.load.behaviour import Behaviour
from tests.load.idle_job import IdleJob
from tests.load.process import SwarmProcess
from tests.stack.stack import Stack

PARTICIPANTS = 64
SECONDS = 60
LEAST = 30.0
"""A second."""
BOINC = 8_800_000 / 86_400
WARM_UP_ROUNDS = 5
ROUNDS = 100_000
"""More than there is time for."""
READY_SECONDS = 60


def measure() -> Iterator[Figure]:
    with Stack() as stack:
        job = IdleJob(stack, epochs=ROUNDS)
        tokens = job.members(PARTICIPANTS)
        with SwarmProcess(stack.url, count=PARTICIPANTS, seed=1, tokens=tokens, behaviour=Behaviour()) as swarm:
            swarm.until(lambda told: told["connected"] == PARTICIPANTS, READY_SECONDS)
            job.start(PARTICIPANTS)
            job.wait_for_round(WARM_UP_ROUNDS, READY_SECONDS)
            pids = {name: stack.pid(name) for name in stack.services}
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            rounds = job.status()["checkpoints"]
            swarm.clear()
            begun = time.monotonic()
            time.sleep(SECONDS)
            told = swarm.told()
            seconds = time.monotonic() - begun
            rounds = job.status()["checkpoints"] - rounds
            cores = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
    rate = told["accepted"] / told["seconds"]
    yield Rate("assignments_least", rate, "assignments/s", LEAST)
    yield Measured("assignments", rate, "assignments/s", "BOINC on one server (published, 2005)", BOINC, 1.0)
    yield Duration(
        "assignments_refused", sum(told["refused"].values()) + sum(told["unexpected"].values()), "answers", 0
    )
    yield Rate("assignments_rounds", rounds / seconds, "rounds/s")
    yield Duration("assignments_upload_p99", told["latency"]["upload"]["p99"], "ms")
    yield Duration("assignments_web_cpu", cores["web"], "cores")
    yield Duration("assignments_worker_cpu", cores["fast"], "cores")
    yield Duration("assignments_swarm_cpu", told["cpu_seconds"] / told["seconds"], "cores")
