"""`make chaos`: a seeded run of faults against real processes, with every invariant checked after each.

python -m tests.chaos [--seed N] [--kills N] [--minutes M]; exit code 1 when an invariant was violated.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.chaos import report
from tests.chaos.installation import Installation, set_up_django
from tests.chaos.schedule import draw

ROOT = Path(__file__).resolve().parent.parent.parent
FAILED_SEEDS = Path(__file__).with_name("failed_seeds.txt")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="begin no fault after so many")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"SEED={options.seed} KILLS={options.kills}: the same two make the same faults.", flush=True)
    with tempfile.TemporaryDirectory(prefix="weei-chaos-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        installation = Installation(stack, folder)
        for part in (installation.disk, installation.clock):
            if part.why_not:
                print(f"Some faults will not run: {part.why_not}.", flush=True)
        set_up_django(installation.direct)
        summary = run(installation, folder, options)
    path = report.written(ROOT / "var" / "chaos", summary)
    print(report.as_text(summary))
    print(f"Summary: {path.relative_to(ROOT)}")
    if not summary["violations"]:
        return 0
    with FAILED_SEEDS.open("a") as file:
        print(report.as_failed_seed(summary), file=file)
    print(f"Again: make chaos SEED={options.seed} KILLS={options.kills} (kept in {FAILED_SEEDS.relative_to(ROOT)})")
    return 1


def run(installation: Installation, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from tests.chaos.run import Chaos

    begun = time.monotonic()
    summary = report.begun(options.seed, options.kills)
    with Chaos(installation, options.seed, folder) as chaos:
        print(f"Jobs run after {time.monotonic() - begun:.0f} s.", flush=True)
        since = time.monotonic()
        try:
            for fault in draw(options.seed, options.kills):
                if options.minutes is not None and time.monotonic() - since > options.minutes * 60:
                    break
                outcome = chaos.strike(fault)
                print(outcome.line(), flush=True)
                report.add(summary, outcome.to_json())
                if not outcome.not_run and outcome.recovery_seconds is None:
                    break
            report.end(summary, chaos.finish(), chaos.figures(), time.monotonic() - since)
        except Exception as error:
            # A seed that breaks the run itself is one to look at, too.
            traceback.print_exc()
            report.end(summary, {"run": [repr(error)]}, chaos.figures(), time.monotonic() - since)
        finally:
            keep_logs(installation, options.seed)
    return summary


def keep_logs(installation: Installation, seed: int) -> None:
    """Of the last run of each seed, to look at what it found."""
    kept = ROOT / "var" / "chaos" / f"logs-{seed}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for name, path in installation.log_files():
        for part in path.parent.glob(f"{path.name}*"):
            shutil.copyfile(part, kept / f"{name}{part.name.removeprefix(path.stem)}")


if __name__ == "__main__":
    raise SystemExit(main())
