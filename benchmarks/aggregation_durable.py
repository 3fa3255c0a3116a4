"""`aggregation_durable`: FedAdam from stored update files to a checkpoint that outlives a power failure, weights and
state synced, named and in the database, beside `dd conv=fsync` that writes the same bytes once more.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

from benchmarks.aggregation import MIB, REPEATS, UPDATES, Merger
from benchmarks.measured import Figure, Measured

GOAL = 0.5


def measure() -> Iterator[Figure]:
    ours, theirs = [], []
    with Merger("fedadam", UPDATES, MIB) as merger:
        size = merger.ask("durable")["bytes"]
        source, copy = merger.folder / "bytes", merger.folder / "copy"
        source.write_bytes(os.urandom(size))
        for _ in range(REPEATS):
            ours.append(merger.ask("durable")["seconds"])
            begun = time.perf_counter()
            subprocess.run(
                ["dd", f"if={source}", f"of={copy}", "bs=1M", "conv=fsync", "status=none"],
                check=True,
            )
            theirs.append(time.perf_counter() - begun)
            copy.unlink()
        yield Measured(
            "aggregation_durable",
            size / 1e9 / min(ours),
            "GB/s of checkpoint",
            f"dd bs=1M conv=fsync of the same {size / 2**20:.0f} MiB",
            size / 1e9 / min(theirs),
            GOAL,
        )
        yield merger.memory("aggregation_durable_memory")
