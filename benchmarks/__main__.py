"""`make bench`: one line of JSON for each figure; the exit code is 1 when one misses its goal.

`python -m benchmarks NAME …` runs some of them only. Either way their figures go to benchmarks/latest.json and into the
table of docs/performance.md. Run them on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping

from benchmarks import (
    aggregation,
    aggregation_durable,
    assignments,
    cartpole,
    cartpole_rounds,
    diagnostics_fanout,
    growth,
    latest,
    memory,
    participants,
    report,
    round_overhead,
    training_browser,
    training_hosts,
    upload,
)
from benchmarks.measured import Figure, NotMeasured

BENCHES: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "aggregation": aggregation.measure,
    "aggregation_durable": aggregation_durable.measure,
    "assignments": assignments.measure,
    "cartpole": cartpole.measure,
    "cartpole_rounds": cartpole_rounds.measure,
    "diagnostics_fanout": diagnostics_fanout.measure,
    "growth": growth.measure,
    "memory": memory.measure,
    "participants": participants.measure,
    "round_overhead": round_overhead.measure,
    "training_browser": training_browser.measure,
    "training_hosts": training_hosts.measure,
    "upload": upload.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}; none: all of them")
    names: list[str] = parser.parse_args().names or list(BENCHES)
    if unknown := [name for name in names if name not in BENCHES]:
        parser.error(f"there is no bench {', '.join(unknown)}; the benches are {', '.join(BENCHES)}")
    missed = 0
    for name in names:
        figures: list[Figure] = []
        for figure in _measured(name):
            print(figure.line, flush=True)
            missed += figure.missed
            figures.append(figure)
        latest.record(name, figures)
    latest.forget_all_but(list(BENCHES))
    report.main()
    return 1 if missed else 0


def _measured(name: str) -> Iterator[Figure]:
    """The figures of a bench. One that breaks down says so in its own place, and the others go on."""
    try:
        yield from BENCHES[name]()
    except Exception as error:
        traceback.print_exc()
        first_line = str(error).partition("\n")[0][:200]
        yield NotMeasured(name, f"The bench broke down: {first_line or type(error).__name__}")


if __name__ == "__main__":
    # Told to end, it takes its processes and folders with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
