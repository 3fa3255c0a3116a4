"""`make bench`: one line of JSON for each figure; the exit code is 1 when one misses its goal.

`python -m benchmarks NAME …` runs some of them only. Run them on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks import cartpole, cartpole_rounds, diagnostics_fanout, memory, training_browser, training_hosts
from benchmarks.measured import Figure

BENCHES: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "cartpole": cartpole.measure,
    "cartpole_rounds": cartpole_rounds.measure,
    "diagnostics_fanout": diagnostics_fanout.measure,
    "memory": memory.measure,
    "training_browser": training_browser.measure,
    "training_hosts": training_hosts.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}; none: all of them")
    names: list[str] = parser.parse_args().names or list(BENCHES)
    if unknown := [name for name in names if name not in BENCHES]:
        parser.error(f"there is no bench {', '.join(unknown)}; the benches are {', '.join(BENCHES)}")
    missed = 0
    for name in names:
        for measured in BENCHES[name]():
            print(measured.line, flush=True)
            missed += measured.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
