"""`aggregation`: from stored update files to a hashed FedAvg checkpoint in the page cache, by what a worker calls,
beside Flower's `aggregate` on arrays that are in memory already. And what of memory that takes, whatever the sizes.

The updates were hashed while they were received, as always; the merge trusts the note that says so (store/verified.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measured import Duration, Figure, Measured, NotMeasured
from benchmarks.peers import Absent, peer_python
from weei_site.launch.supervision import end_with_parent

ROOT = Path(__file__).parent.parent
UPDATES, MIB = 8, 32
LARGER_MIB = 128
REPEATS = 9
"""Of each program, in turns. The best counts: what else the machine does can only make one slower."""
GOAL = 2
MOST_MIB = 300
SAME = 1e-6
"""Flower sums float32 values in float32, we in float64: of values up to 0.5 that is the most they may differ by."""


def measure() -> Iterator[Figure]:
    with Merger("fedavg", UPDATES, MIB) as merger:
        yield from beside_flower(merger)
        yield merger.memory("aggregation_memory")
    with Merger("fedavg", UPDATES, LARGER_MIB) as merger:
        yield merger.memory(f"aggregation_memory_{LARGER_MIB}_mib")
    with Merger("fedavg", 4 * UPDATES, MIB) as merger:
        yield merger.memory(f"aggregation_memory_{4 * UPDATES}_updates")


def beside_flower(merger: Merger) -> Iterator[Figure]:
    try:
        python = peer_python("flwr", "Flower")
    except Absent as absent:
        yield NotMeasured("aggregation", str(absent))
        return
    ours, theirs = [], []
    with Program([python, str(ROOT / "benchmarks/aggregation_flower.py"), json.dumps(merger.ask("where"))]) as flower:
        version = flower.line()
        for _ in range(REPEATS):
            ours.append(merger.ask("hashed"))
            theirs.append(float(flower.ask("")))
        difference = float(flower.ask(ours[-1]["copy"]))
    if difference > SAME:
        raise ArithmeticError(f"Flower's result differs from ours by {difference}, more than {SAME}.")
    gigabytes = UPDATES * MIB * 2**20 / 1e9
    peer = f"Flower {version}, aggregate, {UPDATES} arrays of {MIB} MiB in memory"
    value = gigabytes / min(answer["seconds"] for answer in ours)
    yield Measured("aggregation", value, "GB/s of updates", peer, gigabytes / min(theirs), GOAL)


class Program:
    """A process that answers each line with a line, and ends with the block."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0", **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *args: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self.line()

    def line(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line.strip()
        raise ChildProcessError(f"{self._process.args!r} ended with {self._process.wait()} instead of an answer")


class Merger:
    """A round of so many updates of that size in a database and a store of its own, and the process that merges it."""

    def __init__(self, method: str, updates: int, mib: int) -> None:
        self.size = (method, updates, mib)
        self._grown: list[int] = []

    def __enter__(self) -> Merger:
        self._stack = _merger(*self.size)
        self.folder, self._program = self._stack.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def ask(self, what: str) -> Any:
        """As `aggregation_round.serve` answers."""
        answer = json.loads(self._program.ask(what))
        self._grown.append(answer["grown"])
        return answer

    def memory(self, name: str) -> Duration:
        """The most that the process has grown by while it merged."""
        _, updates, mib = self.size
        if not self._grown:
            self.ask("hashed")
        return Duration(name, max(self._grown) / 2**20, f"MiB, {updates} updates of {mib} MiB", MOST_MIB)


@contextmanager
def _merger(method: str, updates: int, mib: int) -> Iterator[tuple[Path, Program]]:
    # Not in /tmp, which may be in memory: here files are synced.
    with tempfile.TemporaryDirectory(prefix="weei-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        environment = {
            "DJANGO_SETTINGS_MODULE": "weei_site.settings",
            "VAR_DIR": str(folder / "var"),
            "RUN_DIR": str(folder / "run"),
            "DATABASE_URL": f"sqlite:///{folder / 'bench.sqlite3'}",
            "STORAGE_URL": f"file://{folder / 'artifacts'}",
            "REDIS_URL": "",
        }
        command = [sys.executable, "-m", "benchmarks.aggregation_round"]
        subprocess.run(
            [*command, "prepare", method, str(updates), str(mib)],
            cwd=ROOT,
            env={**os.environ, **environment},
            check=True,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,
        )
        with Program([*command, "serve"], environment) as program:
            yield folder, program
