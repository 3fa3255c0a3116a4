"""`reproduce momentum-trap`: the corrected arithmetic model in a single chunk, merged with and without momentum."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.services.experiments.arithmetic import MODEL, ArithmeticModel, corrected
from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.methods import FEDAVG, FEDAVGM, METHODS
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell, figure, span
from jobs.services.experiments.text_runs import Arm, Run, chosen, run_arms, value_at

WARNING = "momentum-one-chunk"
NOTE_FEDAVG, NOTE_FEDAVGM = (20, 0.94), (30, 11.0)
"""(round, validation loss) as the note reports them."""
SHOWN_ROUNDS = (0, 1, 2, 3, 5, 10, 15, 20, 25, 30)


@dataclass(frozen=True)
class MomentumTrap:
    name: str = "momentum-trap"
    title: str = "A momentum trap"
    model: ArithmeticModel = MODEL
    rounds: int = 30
    seeds: Sequence[int] = (1, 2, 3)

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder:
            package = corrected(self.model, Path(folder, "trap"))
            arms = [
                Arm({"method": method}, package, self.model.settings(self.rounds, METHODS[method]))
                for method in (FEDAVG, FEDAVGM)
            ]
            runs = run_arms(arms, tuple(seeds or self.seeds), tell)
            return {
                "chunks": len(package.inputs.chunks),
                "settings": self.model.settings(self.rounds, METHODS[FEDAVGM]),
                "module": package.inputs.module_file.sha256,
                "runs": runs,
            }

    def report(self, result: Result) -> Report:
        runs: Sequence[Run] = result["runs"]
        plain, momentum = chosen(runs, method=FEDAVG), chosen(runs, method=FEDAVGM)
        falls = [value_at(run, "loss", NOTE_FEDAVG[0]) for run in plain]
        warned = all(WARNING in run["advice"] for run in momentum)
        quiet = not any(WARNING in run["advice"] for run in plain)
        return Report(
            about=(
                "The corrected arithmetic model with all of its data in one chunk, one participant: a round is a whole "
                "pass. Both methods start from the same weights."
            ),
            claims=[
                Claim(
                    f"With FedAvg the validation loss falls; after round {NOTE_FEDAVG[0]}:",
                    figure(NOTE_FEDAVG[1]),
                    span(falls),
                    all(_falls(run, NOTE_FEDAVG[0]) for run in plain),
                ),
                Claim(
                    f"With FedAvgM it climbs; after round {NOTE_FEDAVGM[0]}:",
                    figure(NOTE_FEDAVGM[1]),
                    _climbed(momentum),
                    all(_climbs(run) for run in momentum),
                ),
                Claim(
                    "The warning is raised before the run.",
                    "no warning",
                    "raised for FedAvgM and not for FedAvg" if warned and quiet else "not as it should be",
                    warned and quiet,
                ),
            ],
            tables=[_by_round(runs)],
            charts={
                self.name: Chart(
                    "Validation loss with one chunk",
                    "round",
                    "loss",
                    [_line(run) for run in [*plain, *momentum]],
                    log=True,
                )
            },
            remarks=[f"{run['method']}, seed {run['seed']}: {run['stopped']}" for run in runs if run["stopped"]],
        )


def _falls(run: Run, round_no: int) -> bool:
    start, end = value_at(run, "loss", 0), value_at(run, "loss", round_no)
    return start is not None and end is not None and end < start


def _climbs(run: Run) -> bool:
    """It ends above its own best by more than half, or cannot go on."""
    losses = [point["loss"] for point in run["curve"] if point.get("loss") is not None]
    return bool(run["stopped"]) or losses[-1] > 1.5 * min(losses)


def _climbed(runs: Sequence[Run]) -> str:
    values = [value_at(run, "loss", NOTE_FEDAVGM[0]) for run in runs]
    lowest = [min(point["loss"] for point in run["curve"] if point.get("loss") is not None) for run in runs]
    return f"{span(values)}, from a lowest of {span(lowest)}"


def _by_round(runs: Sequence[Run]) -> Table:
    rows = [
        [str(number), *(figure(value_at(run, "loss", number)) for run in runs)]
        for number in SHOWN_ROUNDS
        if any(value_at(run, "loss", number) is not None for run in runs)
    ]
    return Table(["round", *(f"{run['method']}, seed {run['seed']}" for run in runs)], rows, "Validation loss:")


def _line(run: Run) -> Line:
    return Line(f"{run['method']}, seed {run['seed']}", [(point["round"], point.get("loss")) for point in run["curve"]])
