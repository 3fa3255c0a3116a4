"""`reproduce momentum-trap`: the corrected arithmetic model in a single chunk, merged with and without momentum."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobs.services.experiments.arithmetic import MODEL, ArithmeticModel, corrected
from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.methods import FEDAVG, FEDAVGM, METHODS
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell, figure, span
from jobs.services.experiments.text_runs import Arm, Packaged, Run, chosen, run_arms, value_at

WARNING = "momentum-one-chunk"
NOTE_FEDAVG, NOTE_FEDAVGM = (20, 0.94), (30, 11.0)
"""(round, validation loss) as the note reports them."""
SHOWN_ROUNDS = (0, 1, 2, 3, 5, 10, 15, 20, 25, 30)
EXPLAINED = (
    "With one chunk a round is a whole pass, so that a round's change is long already, and momentum 0.9 makes it up to "
    "ten times as long. Where local training can still bring such weights back within its next pass, the loss only "
    "swings above FedAvg's; with a larger local rate the changes grow faster than it can, and the loss climbs."
)
CLIMBED = 2.0
"""How many times its own lowest loss a run must end at to have climbed, and not only swung."""


@dataclass(frozen=True)
class MomentumTrap:
    """The note does not say at which local rate it trained, so there are two."""

    name: str = "momentum-trap"
    title: str = "A momentum trap"
    model: ArithmeticModel = replace(MODEL, batch=64)
    rates: Sequence[float] = (1e-2,)
    sweep: Sequence[float] = (4e-3,)
    """Further rates, for the first seed alone."""
    rounds: int = 30
    seeds: Sequence[int] = (1, 2, 3)

    def settings(self, method: str, rate: float) -> dict[str, Any]:
        return {**self.model.settings(self.rounds, METHODS[method]), "learningRate": rate}

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder:
            package = corrected(self.model, Path(folder, "trap"))
            chosen_seeds = tuple(seeds or self.seeds)
            runs = [
                *run_arms(self._arms(package, self.rates), chosen_seeds, tell),
                *run_arms(self._arms(package, self.sweep), chosen_seeds[:1], tell),
            ]
            return {
                "chunks": len(package.inputs.chunks),
                "settings": self.settings(FEDAVGM, self.rates[0]),
                "module": package.inputs.module_file.sha256,
                "runs": runs,
            }

    def _arms(self, package: Packaged, rates: Sequence[float]) -> list[Arm]:
        return [
            Arm({"method": method, "rate": rate}, package, self.settings(method, rate))
            for rate in rates
            for method in (FEDAVG, FEDAVGM)
        ]

    def report(self, result: Result) -> Report:
        runs: Sequence[Run] = result["runs"]
        rates = sorted({run["rate"] for run in runs})
        return Report(
            about=(
                "The corrected arithmetic model with all of its data in one chunk, one participant: a round is a whole "
                "pass. Within a seed and a rate both methods start from the same weights. The note does not say at "
                "which local rate it trained."
            ),
            claims=[
                *(claim for rate in rates for claim in _claims(chosen(runs, rate=rate), rate)),
                _warned(runs),
            ],
            tables=[_by_round(chosen(runs, rate=rate), rate) for rate in rates],
            charts={f"{self.name}-{rate:g}": _chart(chosen(runs, rate=rate), rate) for rate in rates},
            remarks=[
                EXPLAINED,
                *(
                    f"{run['method']}, local rate {run['rate']:g}, seed {run['seed']}: {run['stopped']}"
                    for run in runs
                    if run["stopped"]
                ),
            ],
        )


def _claims(runs: Sequence[Run], rate: float) -> list[Claim]:
    plain, momentum = chosen(runs, method=FEDAVG), chosen(runs, method=FEDAVGM)
    return [
        Claim(
            f"With FedAvg the validation loss falls; after round {NOTE_FEDAVG[0]}, local rate {rate:g}:",
            figure(NOTE_FEDAVG[1]),
            span([value_at(run, "loss", NOTE_FEDAVG[0]) for run in plain]),
            all(_falls(run, NOTE_FEDAVG[0]) for run in plain),
        ),
        Claim(
            f"With FedAvgM it climbs; after round {NOTE_FEDAVGM[0]}, local rate {rate:g}:",
            figure(NOTE_FEDAVGM[1]),
            _climbed(momentum),
            all(_climbs(run) for run in momentum),
        ),
    ]


def _warned(runs: Sequence[Run]) -> Claim:
    right = all((WARNING in run["advice"]) == (run["method"] == FEDAVGM) for run in runs)
    return Claim(
        "The warning is raised before the run.",
        "no warning",
        "raised for FedAvgM and not for FedAvg" if right else "not as it should be",
        right,
    )


def _falls(run: Run, round_no: int) -> bool:
    start, end = value_at(run, "loss", 0), value_at(run, "loss", round_no)
    return start is not None and end is not None and end < start


def _losses(run: Run) -> list[float]:
    return [point["loss"] for point in run["curve"] if point.get("loss") is not None]


def _climbs(run: Run) -> bool:
    """It ends far above its own best, or cannot go on."""
    losses = _losses(run)
    return bool(run["stopped"]) or losses[-1] > CLIMBED * min(losses)


def _climbed(runs: Sequence[Run]) -> str:
    values = [value_at(run, "loss", NOTE_FEDAVGM[0]) for run in runs]
    return f"{span(values)}, from a lowest of {span([min(_losses(run)) for run in runs])}"


def _by_round(runs: Sequence[Run], rate: float) -> Table:
    rows = [
        [str(number), *(figure(value_at(run, "loss", number)) for run in runs)]
        for number in SHOWN_ROUNDS
        if any(value_at(run, "loss", number) is not None for run in runs)
    ]
    head = ["round", *(f"{run['method']}, seed {run['seed']}" for run in runs)]
    return Table(head, rows, f"Validation loss, local rate {rate:g}:")


def _chart(runs: Sequence[Run], rate: float) -> Chart:
    lines = [
        Line(
            f"{run['method']}, seed {run['seed']}",
            [(point["round"], point.get("loss")) for point in run["curve"]],
        )
        for run in sorted(runs, key=lambda run: run["method"])
    ]
    return Chart(f"Validation loss with one chunk, local learning rate {rate:g}", "round", "loss", lines, log=True)
