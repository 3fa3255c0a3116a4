"""`make soak`: a swarm for hours, a kill every 20 s, and a look at every process each 10 s.

python -m tests.chaos.soak [--hours H | --minutes M] [--peers N] [--seed N]; exit code 1 when something grows.

The processes of one machine are killed in turn; those of the other are never touched, and it is theirs that must not
grow. Half of the swarm is connected to each.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.chaos import outside, report
from tests.chaos.installation import Installation, set_up_django, wait_until_ready
from tests.load.behaviour import Behaviour
from tests.load.process import SwarmProcess
from tests.stack.model_jobs import DigitsJob
from tests.stack.stack import Stack

ROOT = Path(__file__).resolve().parent.parent.parent
KILL_SECONDS, SAMPLE_SECONDS = 20, 10
WARM_UP_SHARE = 0.2
"""Of the time: caches fill, pools open; slopes are told from what comes after."""
SLOPE_LIMIT = 1.0
"""MiB in ten minutes, of the resident set of a process that is never killed."""
FD_LIMIT, FILE_LIMIT = 20, 20
"""How many more descriptors, or temporary files, there may be than after warming up: pools come and go."""
ENOUGH_MINUTES = 30
"""A shorter run shows its slopes, but they are too noisy to fail it."""
BEHAVIOUR = Behaviour(work_seconds=1.0, drop_out=0.01, duplicate=0.01, telemetry_seconds=2.0, ping_seconds=10.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--minutes", type=float, help="instead of --hours")
    parser.add_argument("--peers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seconds = options.minutes * 60 if options.minutes is not None else options.hours * 3600
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="weei-soak-") as folder, contextlib.ExitStack() as stack:
        installation = Installation(stack, Path(folder), second=("web", "fast", "slow"), fake_clock=False)
        set_up_django(installation.direct)
        summary = Soak(installation, options.peers, options.seed).run(seconds)
    path = report.written(ROOT / "var" / "soak", summary)
    print(report.soak_page(summary))
    print(f"Summary: {path.relative_to(ROOT)}")
    return 1 if summary["violations"] else 0


class Soak:
    def __init__(self, installation: Installation, peers: int, seed: int) -> None:
        self._at, self._peers, self._seed = installation, peers, seed
        self._samples: list[dict[str, Any]] = []
        self._kills = 0

    def run(self, seconds: float) -> dict[str, Any]:
        job = DigitsJob(self._at.first, epochs=100_000, localEpochs=1, seed=str(self._seed))
        link = self._at.first.shell(INVITE, job_id=job.id, uses=self._peers)
        begun = datetime.now().strftime("%Y-%m-%d %H:%M")
        with contextlib.ExitStack() as stack:
            swarms = [
                stack.enter_context(self._swarm(index, machine, link))
                for index, machine in enumerate((self._at.first, self._at.second))
            ]
            wait_until_ready(job, self._peers)
            job.start(wanted=self._peers)
            self._go_on(seconds)
            told = [swarm.told() for swarm in swarms]
        return self._summary(begun, seconds, told, job.status()["checkpoints"])

    def _swarm(self, index: int, machine: Stack, link: str) -> SwarmProcess:
        count = self._peers // 2 + (self._peers % 2 if index == 0 else 0)
        origin = self._at.urls[0]
        return SwarmProcess(
            machine.url, origin, count=count, seed=self._seed + index, invitation=link, behaviour=BEHAVIOUR, spread=20
        )

    def _go_on(self, seconds: float) -> None:
        begun = time.monotonic()
        order = random.Random(self._seed)
        next_kill, next_sample = begun + KILL_SECONDS, begun
        while (now := time.monotonic()) < begun + seconds:
            if now >= next_sample:
                self._samples.append(self._sample(now - begun))
                next_sample += SAMPLE_SECONDS
                if len(self._samples) % 30 == 1:
                    print(_line(self._samples[-1]), flush=True)
            if now >= next_kill:
                with contextlib.suppress(RuntimeError):
                    self._at.second.kill(order.choice(("web", "fast", "slow")))
                    self._kills += 1
                next_kill += KILL_SECONDS
            time.sleep(0.2)
        self._samples.append(self._sample(time.monotonic() - begun))

    def _sample(self, at: float) -> dict[str, Any]:
        processes = {}
        for machine, name in ((self._at.first, "spared"), (self._at.second, "killed")):
            for service in ("web", "fast", "slow"):
                with contextlib.suppress(RuntimeError):
                    pid = machine.pid(service)
                    rss, fds = outside.resident_bytes(pid), descriptors(pid)
                    processes[f"{service} ({name})"] = {"pid": pid, "rss": rss, "fds": fds}
        store = self._at.disk.folder / "store"
        files = len(outside.leftovers(store, 0, time.time()))
        return {"at": at, "processes": processes, "temporary": files, "database": self._at.postgres.size()}

    def _summary(self, begun: str, seconds: float, told: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
        after = [one for one in self._samples if one["at"] >= seconds * WARM_UP_SHARE]
        spared, killed = (one["latency"]["message"] for one in told)
        summary: dict[str, Any] = {
            "kind": "soak",
            "begun": begun,
            "machine": report.machine(),
            "seconds": seconds,
            "peers": self._peers,
            "kills": self._kills,
            "rounds": rounds,
            "accepted": sum(one["accepted"] for one in told),
            "processes": [grown(after, name) for name in sorted({n for one in after for n in one["processes"]})],
            "temporary": [after[0]["temporary"], after[-1]["temporary"]],
            "database_mib": [round(one["database"] / 2**20, 1) for one in (after[0], after[-1])],
            "drops": {"spared": told[0]["drops"], "killed": told[1]["drops"]},
            "message_ms": {"spared": spared, "killed": killed},
            "statuses": [one["statuses"] for one in told],
            "samples": self._samples,
        }
        return {**summary, "violations": violations(summary)}


def descriptors(pid: int) -> int:
    """Open ones; 0 for a process that is gone."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def grown(samples: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """How a process grew; of one that was killed there is no slope."""
    own = [(one["at"], one["processes"][name]) for one in samples if name in one["processes"]]
    sizes = [(at, process["rss"] / 2**20) for at, process in own]
    same = len({process["pid"] for _, process in own}) == 1
    return {
        "name": name,
        "rss_mib": [round(sizes[0][1], 1), round(sizes[-1][1], 1)],
        "most_mib": round(max(size for _, size in sizes), 1),
        "slope_mib": round(slope(sizes) * 600, 2) if same else None,
        "fds": [own[0][1]["fds"], own[-1][1]["fds"]],
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line of least squares; 0 for fewer than two points."""
    middle = sum(x for x, _ in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    mean = sum(y for _, y in points) / len(points)
    return sum((x - middle) * (y - mean) for x, y in points) / spread if spread else 0.0


def violations(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What grew, and what clients ought not to have seen."""
    told = [f"{count} answers were {status}" for one in summary["statuses"] for status, count in _wrong(one).items()]
    if summary["drops"]["spared"]:
        told.append(f"{summary['drops']['spared']} connections to the machine that is never touched were dropped")
    for process in summary["processes"]:
        if process["slope_mib"] is None:
            continue
        if process["slope_mib"] > SLOPE_LIMIT and summary["seconds"] >= ENOUGH_MINUTES * 60:
            told.append(f"{process['name']} grows by {process['slope_mib']} MiB in ten minutes")
        first, last = process["fds"]
        if last - first > FD_LIMIT:
            told.append(f"{process['name']} had {first} open descriptors and has {last}")
    first, last = summary["temporary"]
    if last - first > FILE_LIMIT:
        told.append(f"there were {first} temporary files and are {last}")
    return [{"step": None, "invariant": "I8", "told": sentence} for sentence in told]


def _wrong(statuses: dict[str, int]) -> dict[str, int]:
    return {status: count for status, count in statuses.items() if int(status) not in outside.ALLOWED_5XX}


def _line(sample: dict[str, Any]) -> str:
    sizes = ", ".join(f"{name} {process['rss'] >> 20}" for name, process in sample["processes"].items())
    return f"{sample['at'] / 60:6.1f} min  MiB: {sizes}  database {sample['database'] >> 20}"


INVITE = """
from jobs.models import Job
from peers.services.invitations import invitation_create
answer = invitation_create(Job.objects.get(pk=job_id), uses=uses)[1]
"""


if __name__ == "__main__":
    raise SystemExit(main())
