"""Experiments with the reference models that make their own data: one simulation for each seed, and a figure that must
be reached."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell
from jobs.services.simulating import Simulated, Simulation

Curve = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Play:
    """`reached` says of one run's curve whether it shows what `claim` says; `needed` runs out of all must. `note` is
    what the founding note reports, `chart` the metric that is drawn."""

    name: str
    title: str
    claim: str
    note: str
    model: str
    participants: int
    changes: Mapping[str, Any]
    seeds: Sequence[int]
    needed: int
    reached: Callable[[Curve], bool]
    figures: Mapping[str, Callable[[Curve], float | None]]
    chart: tuple[str, str]

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        folder = Path(settings.REFERENCE_MODELS_DIR, self.model)
        preset = json.loads(folder.joinpath("preset.json").read_text(encoding="utf-8"))
        module = folder / preset["module"]
        used = {**preset["settings"], **self.changes}
        runs = []
        for seed in seeds or self.seeds:
            run = self._run(module, used, seed)
            runs.append(run)
            tell(f"seed {seed}: " + ", ".join(f"{name} {_text(value)}" for name, value in self._figures(run)))
        return {
            "claim": self.claim,
            "module": hashlib.sha256(module.read_bytes()).hexdigest(),
            "participants": self.participants,
            "settings": used,
            "runs": runs,
        }

    def _run(self, module: Path, used: Mapping[str, Any], seed: int) -> dict[str, Any]:
        cores = os.cpu_count() or 1
        with (
            tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder,
            Simulation(
                module,
                Path(folder),
                settings=used,
                job_seed=seed,
                participants=self.participants,
                processes=min(cores, self.participants),
            ) as simulation,
        ):
            made = list(simulation.run())
        return {"seed": str(seed), "curve": [_point(checkpoint) for checkpoint in made], "weights": made[-1].sha256}

    def _figures(self, run: Mapping[str, Any]) -> list[tuple[str, float | None]]:
        return [(name, figure(run["curve"])) for name, figure in self.figures.items()]

    def report(self, result: Result) -> Report:
        runs = result["runs"]
        reached = [self.reached(run["curve"]) for run in runs]
        needed = min(self.needed, len(runs))
        rows = [
            [run["seed"], *(_text(value) for _, value in self._figures(run)), "yes" if shown else "no"]
            for run, shown in zip(runs, reached, strict=True)
        ]
        metric, label = self.chart
        lines = [
            Line(f"seed {run['seed']}", [(point["round"], point.get(metric)) for point in run["curve"]]) for run in runs
        ]
        ours = f"{sum(reached)} of {len(runs)} runs ({needed} are needed)"
        return Report(
            about="",
            claims=[Claim(self.claim, self.note, ours, sum(reached) >= needed)],
            tables=[Table(["seed", *self.figures, "reached"], rows)],
            charts={self.name: Chart(self.title, "round", label, lines)},
        )


def _first_round(name: str, least: float) -> Callable[[Curve], float | None]:
    """The first round whose evaluation gives at least `least`."""
    return lambda curve: next((point["round"] for point in curve if point[name] >= least), None)


def _at(name: str, index: int) -> Callable[[Curve], float | None]:
    return lambda curve: curve[index][name]


def _point(made: Simulated) -> dict[str, float]:
    return {"round": made.round, **(made.evaluation or {})}


def _text(value: float | None) -> str:
    return "never" if value is None else f"{value:.4g}"


EVERY_ROUND = {"enabled": True, "unit": "round", "every": 1}

CARTPOLE = Play(
    name="cartpole",
    title="CartPole: a policy learns to balance",
    claim="Two participants play 32 episodes each per round; the greedy return over 32 fixed episodes reaches 500, the "
    "most there is, within 30 rounds in at least 4 of 5 seeds.",
    note="from 9 to 500 within 25 to 30 rounds",
    model="cartpole",
    participants=2,
    changes={"epochs": 30, "experience": {"unitsPerAssignment": 32}, "validationSchedule": EVERY_ROUND},
    seeds=(1, 2, 3, 4, 5),
    needed=4,
    reached=lambda curve: any(point["episodeReturn"] >= 500 for point in curve),
    figures={
        "return before": _at("episodeReturn", 0),
        "first round at 500": _first_round("episodeReturn", 500),
        "return at the end": _at("episodeReturn", -1),
    },
    chart=("episodeReturn", "return"),
)

GAME = Play(
    name="game",
    title="Connect Four: a player learns from earlier versions of itself",
    claim="Two participants play 64 games each per round against the policy of some rounds ago; the score against a "
    "random player reaches 0.9 within 60 rounds, and that against alpha-beta of fixed depth rises.",
    note="a game, without figures",
    model="connect4",
    participants=2,
    changes={"epochs": 60, "validationSchedule": EVERY_ROUND},
    seeds=(1, 2, 3),
    needed=3,
    reached=lambda curve: (
        any(point["winsRandom"] >= 0.9 for point in curve)
        and max(point["winsAlphaBeta"] for point in curve) > curve[0]["winsAlphaBeta"]
    ),
    figures={
        "against random, before": _at("winsRandom", 0),
        "at the end": _at("winsRandom", -1),
        "against alpha-beta, before": _at("winsAlphaBeta", 0),
        "alpha-beta, at the end": _at("winsAlphaBeta", -1),
    },
    chart=("winsAlphaBeta", "score against alpha-beta"),
)
