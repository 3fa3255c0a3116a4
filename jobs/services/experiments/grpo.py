"""`reproduce grpo`: a transformer that adds badly is tuned by whether its own answers are right."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from jobs.services.experiments.arithmetic import CHARACTERS, MODEL, WHOLE, ArithmeticModel, corrected
from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell, figure, share, span
from jobs.services.experiments.text_runs import Packaged, Run
from jobs.services.simulating import Simulated, Simulation
from weei_core.generator.text_policy import EVALUATION_UNITS, PolicySettings, make_text_policy

NOT_IN_NOTE = "not in the note"
NEAR = 1.0
"""Nats per token under which a policy is still near its reference."""


@dataclass(frozen=True)
class Grpo:
    """`epochs` of ordinary training, after which one sum in two or three is wrong, then `rounds` of tuning."""

    name: str = "grpo"
    title: str = "Tuned by exact answers (GRPO)"
    model: ArithmeticModel = replace(MODEL, batch=64)
    epochs: int = 7
    policy: PolicySettings = field(
        default_factory=lambda: PolicySettings(kl_coefficient=0.02, units_per_assignment=512)
    )
    batch: int = 32
    rounds: int = 16
    participants: int = 2
    seeds: Sequence[int] = (1, 2, 3)

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        chosen = tuple(seeds or self.seeds)
        with tempfile.TemporaryDirectory(prefix="weei-reproduce-") as temporary:
            folder = Path(temporary)
            package = corrected(self.model, folder / "transformer")
            policy = folder / "policy"
            policy.mkdir()
            made = make_text_policy(package.inputs.module.read_bytes(), self.policy, policy, batch_size=self.batch)
            settings = {**made.settings, "epochs": self.rounds, "coordinatorParticipates": False}
            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                starts = list(threads.map(partial(self._start, package, folder), chosen))
            return {
                "request": self.model.request(CHARACTERS, records_per_chunk=WHOLE),
                "policy": self.policy.to_json(),
                "epochs": self.epochs,
                "participants": self.participants,
                "settings": settings,
                "runs": [
                    self._tuned(made.module, settings, start, seed, tell)
                    for seed, start in zip(chosen, starts, strict=True)
                ],
            }

    def _start(self, package: Packaged, folder: Path, seed: int) -> Path:
        """Weights of the transformer after its epochs."""
        inputs, own, kept = package.inputs, folder / f"seed-{seed}", folder / f"start-{seed}.f32"
        own.mkdir()
        settings = self.model.settings(self.epochs, {"method": "fedavg"})
        with Simulation(
            inputs.module, own, settings=settings, job_seed=seed, participants=1, chunks=inputs.chunks, keep=False
        ) as simulation:
            for made in simulation.run():
                if simulation.is_last(made):
                    shutil.copyfile(made.weights, kept)
        return kept

    def _tuned(self, module: Path, settings: Mapping[str, Any], start: Path, seed: int, tell: Tell) -> Run:
        begun = time.monotonic()
        made = list(self._rounds(module, settings, start, seed))
        curve = [{"round": one.round, **(one.evaluation or {}), **_sampled(one)} for one in made]
        run = {"seed": str(seed), "curve": curve, "weights": made[-1].sha256}
        before, after = _ends(run)
        seconds = time.monotonic() - begun
        tell(
            f"seed {seed}: {share(before)} exact before, {share(after)} after, "
            f"KL {figure(_distance(run))} ({seconds:.0f} s)"
        )
        return run

    def _rounds(self, module: Path, settings: Mapping[str, Any], start: Path, seed: int) -> Iterator[Simulated]:
        with (
            tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder,
            Simulation(
                module,
                Path(folder),
                settings=settings,
                job_seed=seed,
                participants=self.participants,
                start=start,
                processes=min(os.cpu_count() or 1, self.participants),
                keep=False,
            ) as simulation,
        ):
            yield from simulation.run()

    def report(self, result: Result) -> Report:
        runs: Sequence[Run] = result["runs"]
        ends = [_ends(run) for run in runs]
        before, after = [first for first, _ in ends], [last for _, last in ends]
        distances = [_distance(run) for run in runs]
        return Report(
            about=_about(result),
            claims=[
                Claim(
                    "Rewards for exact answers alone raise the share of exact answers in every run.",
                    NOT_IN_NOTE,
                    f"before {span(before, share)}, after {span(after, share)}",
                    all(last > first for first, last in ends),
                ),
                Claim(
                    "The policy stays near the checkpoint it began with; KL per token in the last round:",
                    NOT_IN_NOTE,
                    f"{span(distances)} nats",
                    all(distance < NEAR for distance in distances),
                ),
            ],
            tables=[_table(runs)],
            charts={self.name: _chart(runs)},
        )


def _sampled(made: Simulated) -> dict[str, float]:
    """What the participants saw while they sampled; nothing of the first checkpoint."""
    return {name: made.metrics[key] for name, key in (("sampled", "exact"), ("kl", "kl")) if key in made.metrics}


def _ends(run: Run) -> tuple[float, float]:
    return run["curve"][0]["exact"], run["curve"][-1]["exact"]


def _distance(run: Run) -> float:
    return float(run["curve"][-1]["kl"])


def _about(result: Result) -> str:
    policy, settings = result["policy"], result["settings"]
    return (
        f"The arithmetic transformer with one token per character is trained for {result['epochs']} epochs, too few to "
        f"add well. Its weights go on in the module `text_policy`, which is never shown a sum again: in each of "
        f"{settings['epochs']} rounds {result['participants']} participants draw {policy['unitsPerAssignment']} "
        f"problems each, sample {policy['groupSize']} answers to every one, and learn from what was right in "
        f"comparison with the rest of its group, with a KL penalty of {policy['klCoefficient']:g} to the first "
        f"checkpoint. Exact answers are those of the likeliest tokens to {EVALUATION_UNITS} random problems from 0 to "
        f"{policy['largestOperand']}, the same after every round."
    )


def _table(runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        (before, after), curve = _ends(run), run["curve"]
        best = max(point["exact"] for point in curve)
        sampled = [share(curve[1].get("sampled")), share(curve[-1].get("sampled"))]
        rows.append([run["seed"], share(before), share(after), share(best), *sampled, figure(_distance(run))])
    head = ["seed", "before", "after", "best round", "sampled, first round", "sampled, last round", "KL at the end"]
    return Table(head, rows, "Exact answers, greedy and as they were sampled:")


def _chart(runs: Sequence[Run]) -> Chart:
    lines = [
        Line(f"seed {run['seed']}{label}", [(point["round"], point.get(name)) for point in run["curve"]])
        for name, label in (("exact", ""), ("sampled", ", sampled"))
        for run in runs
    ]
    return Chart("Exact answers while the policy is tuned", "round", "share", lines)
