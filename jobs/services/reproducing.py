"""Experiments that anybody can run again: a reference model, fixed seeds, and a figure that must be reached.

Nothing here is drawn: the same code gives the same curves on every machine. Only `seconds` and `machine` differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.services.simulating import Simulated, Simulation

Tell = Callable[[str], None]
Curve = list[dict[str, float]]


@dataclass(frozen=True)
class Experiment:
    """`reached` says of one run's curve whether it shows what `claim` says; `needed` runs out of all must."""

    name: str
    title: str
    claim: str
    model: str
    participants: int
    changes: Mapping[str, Any]
    seeds: Sequence[int]
    needed: int
    reached: Callable[[Curve], bool]
    figures: Mapping[str, Callable[[Curve], float | None]]


def _first_round(name: str, least: float) -> Callable[[Curve], float | None]:
    """The first round whose evaluation gives at least `least`."""
    return lambda curve: next((point["round"] for point in curve if point[name] >= least), None)


def _at(name: str, index: int) -> Callable[[Curve], float | None]:
    return lambda curve: curve[index][name]


EVERY_ROUND = {"enabled": True, "unit": "round", "every": 1}

CARTPOLE = Experiment(
    name="cartpole",
    title="CartPole: a policy learns to balance",
    claim="Two participants play 32 episodes each per round; the greedy return over 32 fixed episodes reaches 500, the "
    "most there is, within 30 rounds in at least 4 of 5 seeds.",
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
)

GAME = Experiment(
    name="game",
    title="Connect Four: a player learns from earlier versions of itself",
    claim="Two participants play 64 games each per round against the policy of some rounds ago; the score against a "
    "random player reaches 0.9 within 60 rounds, and that against alpha-beta of fixed depth rises.",
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
)

EXPERIMENTS = {experiment.name: experiment for experiment in (CARTPOLE, GAME)}


def reproduce(experiment: Experiment, tell: Tell, seeds: Sequence[int] | None = None) -> dict[str, Any]:
    """Every run, whatever it shows. `tell` hears a line after each."""
    begun, chosen = time.monotonic(), tuple(seeds or experiment.seeds)
    folder = Path(settings.REFERENCE_MODELS_DIR, experiment.model)
    preset = json.loads(folder.joinpath("preset.json").read_text(encoding="utf-8"))
    module = folder / preset["module"]
    used = {**preset["settings"], **experiment.changes}
    runs = []
    for seed in chosen:
        run = _run(experiment, module, used, seed)
        tell(f"seed {seed}: " + ", ".join(f"{name} {_text(value)}" for name, value in run["figures"].items()))
        runs.append(run)
    reached = sum(run["reached"] for run in runs)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claim": experiment.claim,
        "module": hashlib.sha256(module.read_bytes()).hexdigest(),
        "participants": experiment.participants,
        "settings": used,
        "runs": runs,
        "reached": reached,
        "needed": min(experiment.needed, len(chosen)),
        "seconds": round(time.monotonic() - begun, 1),
        "machine": machine(),
    }


def _run(experiment: Experiment, module: Path, used: Mapping[str, Any], seed: int) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    with (
        tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder,
        Simulation(
            module,
            Path(folder),
            settings=used,
            job_seed=seed,
            participants=experiment.participants,
            processes=min(cores, experiment.participants),
        ) as simulation,
    ):
        made = list(simulation.run())
    curve = [_point(checkpoint) for checkpoint in made]
    return {
        "seed": str(seed),
        "reached": experiment.reached(curve),
        "figures": {name: figure(curve) for name, figure in experiment.figures.items()},
        "curve": curve,
        "weights": made[-1].sha256,
    }


def _point(made: Simulated) -> dict[str, float]:
    return {"round": made.round, **(made.evaluation or {})}


def machine() -> dict[str, str | int]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "wasmtime": version("wasmtime"),
    }


def results_page(results: Sequence[Mapping[str, Any]]) -> str:
    """docs/results.md."""
    parts = [
        "# Results\n\n"
        "Each section is one command, `manage.py reproduce NAME --json`; `make results` runs them all and writes this\n"
        "page. Curves depend on nothing but the seed; only the seconds are this machine's."
    ]
    return "\n\n".join([*parts, *(_section(result) for result in results)]) + "\n"


def _section(result: Mapping[str, Any]) -> str:
    names = list(result["runs"][0]["figures"])
    rows = [
        [run["seed"], *(_text(run["figures"][name]) for name in names), "yes" if run["reached"] else "no"]
        for run in result["runs"]
    ]
    lines = [" | ".join(row) for row in [["seed", *names, "reached"], ["---"] * (len(names) + 2), *rows]]
    table = "\n".join(f"| {line} |" for line in lines)
    where = result["machine"]
    return (
        f"## {result['title']}\n\n`manage.py reproduce {result['name']}`\n\n{result['claim']}\n\n{table}\n\n"
        f"{result['reached']} of {len(result['runs'])} reached it ({result['needed']} are needed), in "
        f"{result['seconds']} s on {where['system']} with {where['cores']} cores, wasmtime {where['wasmtime']}.\n\n"
        + _curves(result["runs"])
    )


def _curves(runs: Sequence[Mapping[str, Any]]) -> str:
    """A table of every fifth checkpoint: one column for each metric and seed."""
    names = [name for name in runs[0]["curve"][0] if name != "round"]
    columns = [(name, run) for name in names for run in runs]
    rows = [["round", *(f"{name}, seed {run['seed']}" for name, run in columns)], ["---"] * (len(columns) + 1)]
    for index in range(0, len(runs[0]["curve"]), 5):
        values = [_text(run["curve"][index][name]) for name, run in columns]
        rows.append([_text(runs[0]["curve"][index]["round"]), *values])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _text(value: float | None) -> str:
    return "never" if value is None else f"{value:.4g}"
