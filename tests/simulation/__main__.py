"""`python -m tests.simulation --seed N` replays one run with its log; `--seeds N` looks for failures in many."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

import django


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings_test")
    django.setup()
    from tests.simulation.kept import keep
    from tests.simulation.scenario import SimulationFailed, simulate

    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="replay this one and print what happened")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    parser.add_argument("--log-hashes", type=int, nargs="+", help="print only the hash of each log")
    options = parser.parse_args()
    for seed in options.log_hashes or ():
        print(simulate(seed)[-1])
    if options.log_hashes:
        return 0
    chosen = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    began, failed = time.monotonic(), []
    for seed in chosen:
        try:
            lines = simulate(seed)
            if options.seed is not None:
                print(*lines, sep="\n")
        except SimulationFailed as failure:
            failed.append(seed)
            if options.seed is not None:
                print(*failure.lines, sep="\n")
                traceback.print_exception(failure)
            else:
                keep(failure)
                print(failure, flush=True)
    print(f"{len(chosen)} seeds, {len(failed)} failed {failed[:20]}, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
