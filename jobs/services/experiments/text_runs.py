"""Runs of the text experiments: packages from the generator, simulated, and asked for answers along the way."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jobs.services.experiments.report import Tell
from jobs.services.experiments.texts import END, Problem
from jobs.services.jail_pool import JailPool
from jobs.services.simulating import Simulated, Simulation
from jobs.services.simulation_inputs import Inputs, inputs_of_folder
from weei_core.abi.limits import Limits
from weei_core.advice import Advice, advise
from weei_core.errors import WeeiError
from weei_core.generator.package import make_package
from weei_core.generator.request import PackageRequest
from weei_core.jail.parent import InputFile, Jail
from weei_core.prediction import JsonObject, predict

MOST_TOKENS = 10
"""Of an answer: four digits and the end, with room for one that does not end."""

Questions = Mapping[str, Sequence[Problem]]
Task = tuple["Arm", int]


@dataclass(frozen=True)
class Packaged:
    """A package as it was made. `advice` are the codes that were told before, the generator's own included."""

    inputs: Inputs
    advice: Sequence[str]


@dataclass(frozen=True)
class Arm:
    """One way to train. `tags` are what tables and figures tell it by; `questions` are asked of every `ask_every`-th
    checkpoint and of the last, which also answers `samples` word for word."""

    tags: Mapping[str, str | float]
    package: Packaged
    settings: Mapping[str, Any]
    participants: int = 1
    questions: Questions = field(default_factory=dict)
    samples: Sequence[Problem] = ()
    ask_every: int = 10

    @property
    def name(self) -> str:
        return ", ".join(str(tag) for tag in self.tags.values())


def packaged(request: Mapping[str, Any], text: str, folder: Path) -> Packaged:
    """The package of `text`, made into `folder`."""
    folder.mkdir(parents=True)
    source = folder / "text.txt"
    source.write_text(text, encoding="utf-8")
    made = make_package(PackageRequest.parse(dict(request)), source, folder / "package")
    return Packaged(inputs_of_folder(made.folder), [advice.code for advice in made.warnings])


def run_arms(arms: Sequence[Arm], seeds: Sequence[int], tell: Tell) -> list[dict[str, Any]]:
    """Each arm with each seed. Rounds of several participants fill the machine by themselves; arms of a single one run
    side by side."""
    cores = os.cpu_count() or 1
    tasks = [(arm, seed) for seed in seeds for arm in arms]
    beside = 1 if any(arm.participants > 1 for arm in arms) else cores
    with ThreadPoolExecutor(beside) as threads:
        return list(threads.map(partial(_run, processes=cores // beside, tell=tell), tasks))


def _run(task: Task, *, processes: int, tell: Tell) -> dict[str, Any]:
    """A run that cannot go on, because its weights are not finite any more, ends where it is and says why."""
    arm, seed = task
    begun = time.monotonic()
    curve: list[dict[str, Any]] = []
    samples: dict[str, str] = {}
    stopped, advice, train_seconds, sha256 = "", list(arm.package.advice), 0.0, ""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weei-reproduce-")))
        simulation = stack.enter_context(_simulation(arm, seed, folder, processes))
        advice += [one.code for one in _advice(arm, simulation)]
        asking = stack.enter_context(_pool(arm.package.inputs.module, folder)) if arm.questions else None
        try:
            for made in simulation.run():
                point = {"round": made.round, **(made.evaluation or {})}
                if asking and (made.round % arm.ask_every == 0 or simulation.is_last(made)):
                    point |= {name: exact_share(asking, made, asked) for name, asked in arm.questions.items()}
                curve.append(point)
                if asking and simulation.is_last(made):
                    samples = {problem.question: answered(asking, made, problem) for problem in arm.samples}
                train_seconds += made.seconds
                sha256 = made.sha256
        except WeeiError as error:
            stopped = error.message
    last = ", ".join(f"{name} {value:.4g}" for name, value in curve[-1].items())
    tell(f"seed {seed}, {arm.name}: {last}{'; ' + stopped if stopped else ''} ({time.monotonic() - begun:.0f} s)")
    return {
        **arm.tags,
        "seed": str(seed),
        "advice": sorted(set(advice)),
        "curve": curve,
        **({"samples": samples} if samples else {}),
        "stopped": stopped,
        "trainSeconds": round(train_seconds, 2),
        "weights": sha256,
    }


def _simulation(arm: Arm, seed: int, folder: Path, processes: int) -> Simulation:
    inputs = arm.package.inputs
    return Simulation(
        inputs.module,
        folder,
        settings=arm.settings,
        job_seed=seed,
        participants=arm.participants,
        chunks=inputs.chunks,
        validation=inputs.validation,
        processes=processes,
        keep=False,
    )


def _advice(arm: Arm, simulation: Simulation) -> Sequence[Advice]:
    """What a person is told on the new-job page before this run."""
    inputs = arm.package.inputs
    return advise(
        simulation.info,
        inputs.manifest.chunks,
        simulation.settings,
        has_validation=inputs.validation is not None,
        weight_bytes=simulation.weight_bytes,
        participants=arm.participants,
    )


def _pool(module: Path, folder: Path) -> JailPool:
    return JailPool(module, Limits(), cache=folder, processes=1)


def exact_share(pool: JailPool, made: Simulated, problems: Sequence[Problem]) -> float:
    """The share of `problems` that the checkpoint answers right, by the likeliest token each time."""
    return sum(answered(pool, made, problem) == problem.answer for problem in problems) / len(problems)


def answered(pool: JailPool, made: Simulated, problem: Problem) -> str:
    return pool.run(partial(_ask, made.weights, problem))


def _ask(weights: Path, problem: Problem, jail: Jail) -> str:
    asked: JsonObject = {"text": problem.question, "maxTokens": MOST_TOKENS, "temperature": 0}
    return answer_of(str(predict(jail, asked, InputFile(weights)).get("text")))


def answer_of(text: str) -> str:
    """The answer out of a continuation: what stands before the end of the line, however the tokens are cut."""
    return text.split(END)[0].split("\n")[0].strip()


# --- Figures out of recorded curves ---

Point = Mapping[str, float]
Run = Mapping[str, Any]


def value_at(run: Run, name: str, round_no: int) -> float | None:
    """The value of a checkpoint, None when the run never came there or had none."""
    return next((point.get(name) for point in run["curve"] if point["round"] == round_no), None)


def last_value(run: Run, name: str) -> float | None:
    """Of the last checkpoint; None when the run had to stop before."""
    return None if run["stopped"] else run["curve"][-1].get(name)


def first_round_at_most(run: Run, name: str, most: float) -> int | None:
    """The first round after which the value is at most `most`."""
    found = (point["round"] for point in run["curve"] if point.get(name) is not None and point[name] <= most)
    return next(found, None)


def chosen(runs: Sequence[Run], **tags: object) -> list[Run]:
    return [run for run in runs if all(run.get(name) == value for name, value in tags.items())]


def mean_curve(runs: Sequence[Run], name: str) -> list[tuple[float, float | None]]:
    """The mean over the runs at each round that all of them have."""
    rounds = [point["round"] for point in min((run["curve"] for run in runs), key=len)]
    return [(number, _mean([value_at(run, name, number) for run in runs])) for number in rounds]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None
