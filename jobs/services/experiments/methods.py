"""`reproduce methods`: which way of merging learns fastest, at several local learning rates."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell, figure, share, span
from jobs.services.experiments.text_runs import (
    Arm,
    Packaged,
    Run,
    chosen,
    first_round_at_most,
    last_value,
    mean_curve,
    packaged,
    run_arms,
    value_at,
)
from jobs.services.experiments.texts import reasoning_text
from weei_core.errors import Conflict
from weei_core.generator.architectures import TransformerArchitecture

FEDAVG, FEDAVGM = "FedAvg", "FedAvgM(0.9)"
FEDADAM, FEDADAM_SMALL = "FedAdam(0.01)", "FedAdam(0.003)"
METHODS: Mapping[str, Mapping[str, Any]] = {
    FEDAVG: {"method": "fedavg"},
    FEDAVGM: {"method": "fedavgm", "momentum": 0.9},
    FEDADAM: {"method": "fedadam", "serverLearningRate": 0.01},
    FEDADAM_SMALL: {"method": "fedadam", "serverLearningRate": 0.003},
}
NOTE_GAIN = 0.38
NOTE_ROUNDS = "20 rounds instead of 31"
BYTES = 256
EXPLAINED = (
    "Why it depends on the local rate: FedAvgM adds up what rounds have in common, up to ten times their own step. "
    "While local training goes only a little way, that length is what is missing; once it goes far by itself, momentum "
    "mostly overshoots.",
    "FedAdam's first step is about as long as its server learning rate in every weight, whatever local training did, "
    "because the change is divided by its own size. So its first rounds do not follow the local rate: with 0.01, half "
    "of what weights start with, they can be faster than FedAvg's and can also throw the model off for a round; with "
    "0.003 they are short.",
)
EARLY = 3
"""Rounds that count as the start."""


@dataclass(frozen=True)
class Methods:
    """55 chunks of `records` windows of `context` bytes, five participants, three passes: 33 rounds."""

    name: str = "methods"
    title: str = "Three ways to merge, one model"
    rates: Sequence[float] = (2e-4, 1e-3)
    sweep: Sequence[float] = (3e-3,)
    """Further rates, for the first seed alone: so much more costs."""
    seeds: Sequence[int] = (1, 2, 3)
    chunks: int = 55
    records: int = 24
    validation: int = 64
    context: int = 64
    batch: int = 2
    passes: int = 3
    participants: int = 5
    width: int = 128
    layers: int = 3
    hidden: int = 432
    text_seed: int = 1

    @property
    def request(self) -> dict[str, Any]:
        windows = self.chunks * self.records + self.validation
        return {
            "name": "Reasoning text",
            "architecture": {
                "kind": "transformer",
                "context": self.context,
                "layers": self.layers,
                "heads": 4,
                "width": self.width,
                "hidden": self.hidden,
            },
            "data": {"format": "text", "records": "windows"},
            "tokenizer": {"kind": "bytes"},
            "chunking": {
                "recordsPerChunk": self.records,
                "seed": self.text_seed,
                "validationShare": self.validation / windows,
            },
        }

    @property
    def text(self) -> str:
        """As many bytes as fill the windows; each predicts the byte after it."""
        windows = self.chunks * self.records + self.validation
        return reasoning_text(self.text_seed, windows * self.context + 1)

    def settings(self, method: str, rate: float) -> dict[str, Any]:
        return {
            "epochs": self.passes,
            "localEpochs": 1,
            "batchSize": self.batch,
            "learningRate": rate,
            "coordinatorParticipates": False,
            "validationSchedule": {"enabled": True, "unit": "round", "every": 1},
            "aggregation": dict(METHODS[method]),
        }

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder:
            package = packaged(self.request, self.text, Path(folder, "methods"))
            found = len(package.inputs.chunks)
            if found != self.chunks:
                raise Conflict(f"The text must give {self.chunks} chunks; found {found}.", field="chunks")
            chosen_seeds = tuple(seeds or self.seeds)
            runs = [
                *run_arms(self._arms(package, self.rates), chosen_seeds, tell),
                *run_arms(self._arms(package, self.sweep), chosen_seeds[:1], tell),
            ]
        return {
            "request": self.request,
            "settings": self.settings(FEDAVG, self.rates[0]),
            "participants": self.participants,
            "module": package.inputs.module_file.sha256,
            "runs": runs,
        }

    def _arms(self, package: Packaged, rates: Sequence[float]) -> list[Arm]:
        return [
            Arm({"method": method, "rate": rate}, package, self.settings(method, rate), self.participants)
            for rate in rates
            for method in METHODS
        ]

    def report(self, result: Result) -> Report:
        runs: Sequence[Run] = result["runs"]
        rates = sorted({run["rate"] for run in runs})
        best = max((gain for rate in rates for gain in _gains(runs, rate)), default=0.0)
        return Report(
            about=self._about(result),
            claims=[
                _faster(runs, rates),
                Claim(
                    "The best settings end with a lower validation loss than FedAvg.",
                    f"up to {share(NOTE_GAIN)} lower after 33 rounds",
                    f"at most {share(best)} lower" if best > 0 else "never lower",
                    best > 0,
                ),
                _slow_start(runs, rates),
                _never_catches_up(runs, rates),
            ],
            tables=[_finals(runs, rates), _reached(runs, rates)],
            charts={f"methods-{rate:g}": _chart(runs, rate) for rate in rates},
            remarks=_remarks(runs, rates),
        )

    @property
    def rounds(self) -> int:
        return self.passes * -(-self.chunks // self.participants)

    def _about(self, result: Result) -> str:
        sizes = result["request"]["architecture"]
        network = TransformerArchitecture.parse({**sizes, "vocabSize": BYTES})
        steps = -(-self.records // self.batch)
        return (
            f"A byte-level transformer (context {network.context}, {network.layers} layers, width {network.width}, "
            f"hidden {network.hidden}: {network.parameter_count:,} weights, {network.weight_bytes / 1e6:.1f} MB) on a "
            "synthetic reasoning text (`jobs/services/experiments/texts.py` says how it is made). There are "
            f"{self.chunks} chunks of {self.records} windows, {self.participants} participants per round and "
            f"{self.passes} passes, so {self.rounds} rounds, and {steps} local AdamW steps of {self.batch} windows for "
            "each chunk. Within a seed every method starts from the same weights and sees the same chunks in the same "
            "order; every round is validated."
        )


def _final(runs: Sequence[Run], rate: float, method: str, seed: str) -> float | None:
    found = chosen(runs, rate=rate, method=method, seed=seed)
    return last_value(found[0], "loss") if found else None


def _seeds(runs: Sequence[Run], rate: float) -> list[str]:
    return list(dict.fromkeys(run["seed"] for run in chosen(runs, rate=rate)))


def _gains(runs: Sequence[Run], rate: float) -> list[float]:
    """For each seed, by how much the best other method ends below FedAvg, as a share of FedAvg's loss."""
    gains = []
    for seed in _seeds(runs, rate):
        base = _final(runs, rate, FEDAVG, seed)
        others = [_final(runs, rate, method, seed) for method in METHODS if method != FEDAVG]
        known = [other for other in others if other is not None]
        if base is not None and known:
            gains.append(1 - min(known) / base)
    return gains


def _rounds_to_fedavg(runs: Sequence[Run], rate: float, method: str) -> list[float | None]:
    """For each seed the round at which `method` first reaches FedAvg's final loss."""
    found: list[float | None] = []
    for seed in _seeds(runs, rate):
        target = _final(runs, rate, FEDAVG, seed)
        mine = chosen(runs, rate=rate, method=method, seed=seed)
        found.append(first_round_at_most(mine[0], "loss", target) if mine and target is not None else None)
    return found


def _faster(runs: Sequence[Run], rates: Sequence[float]) -> Claim:
    """The setting that saves most rounds, counted for the seed where it saves fewest."""
    saved, text = 0.0, "in no setting with every seed"
    for rate in rates:
        own = _rounds_to_fedavg(runs, rate, FEDAVG)
        for method in METHODS:
            reached = _rounds_to_fedavg(runs, rate, method)
            gains = [a - b for a, b in zip(own, reached, strict=True) if a is not None and b is not None]
            if len(gains) == len(own) and min(gains, default=0.0) > saved:
                saved = min(gains)
                text = f"{span(reached)} rounds instead of {span(own)}: {method}, local rate {rate:g}"
    return Claim("The best settings reach FedAvg's final quality in fewer rounds.", NOTE_ROUNDS, text, saved > 0)


def _slow_start(runs: Sequence[Run], rates: Sequence[float]) -> Claim:
    """FedAdam against FedAvg in the first rounds."""
    slower, all_ = 0, 0
    for rate in rates:
        for seed in _seeds(runs, rate):
            for method in (FEDADAM, FEDADAM_SMALL):
                pair = chosen(runs, rate=rate, seed=seed, method=method) + chosen(
                    runs, rate=rate, seed=seed, method=FEDAVG
                )
                values = [value_at(run, "loss", EARLY) for run in pair]
                if len(values) == 2 and values[0] is not None and values[1] is not None:
                    all_ += 1
                    slower += values[0] > values[1]
    return Claim(
        "FedAdam starts more slowly than FedAvg.",
        "more slowly",
        f"behind after round {EARLY} in {slower} of {all_} runs",
        all_ > 0 and slower == all_,
    )


def _never_catches_up(runs: Sequence[Run], rates: Sequence[float]) -> Claim:
    """FedAdam(0.003) is at no round below FedAvg at the same round."""
    caught, all_ = 0, 0
    for rate in rates:
        for seed in _seeds(runs, rate):
            small = chosen(runs, rate=rate, seed=seed, method=FEDADAM_SMALL)
            base = chosen(runs, rate=rate, seed=seed, method=FEDAVG)
            if small and base:
                all_ += 1
                caught += _ever_below(small[0], base[0])
    return Claim(
        "FedAdam with a step that is too small (0.003) never catches up.",
        "never",
        f"never in {all_ - caught} of {all_} runs",
        all_ > 0 and caught == 0,
    )


def _ever_below(run: Run, base: Run) -> bool:
    pairs = [
        (point["loss"], value_at(base, "loss", point["round"]))
        for point in run["curve"]
        if point["round"] > 0 and "loss" in point
    ]
    return any(theirs is not None and mine < theirs for mine, theirs in pairs)


def _finals(runs: Sequence[Run], rates: Sequence[float]) -> Table:
    rows = [
        [method, *(span([_final(runs, rate, method, seed) for seed in _seeds(runs, rate)]) for rate in rates)]
        for method in METHODS
    ]
    return Table(_head(runs, rates), rows, "Validation loss at the end, smallest to largest of the seeds:")


def _reached(runs: Sequence[Run], rates: Sequence[float]) -> Table:
    rows = [[method, *(span(_rounds_to_fedavg(runs, rate, method)) for rate in rates)] for method in METHODS]
    return Table(_head(runs, rates), rows, "Round at which FedAvg's final loss is reached:")


def _head(runs: Sequence[Run], rates: Sequence[float]) -> list[str]:
    counts = [len(_seeds(runs, rate)) for rate in rates]
    return [
        "method",
        *(
            f"local rate {rate:g} ({count} {'seed' if count == 1 else 'seeds'})"
            for rate, count in zip(rates, counts, strict=True)
        ),
    ]


def _chart(runs: Sequence[Run], rate: float) -> Chart:
    lines = [
        Line(method, mean_curve(found, "loss"))
        for method in METHODS
        if (found := chosen(runs, rate=rate, method=method))
    ]
    return Chart(f"Validation loss, local learning rate {rate:g} (mean of the seeds)", "round", "loss", lines)


def _remarks(runs: Sequence[Run], rates: Sequence[float]) -> list[str]:
    """Which method wins at which rate, as the numbers have it."""
    told = []
    for rate in rates:
        finals = {
            method: [_final(runs, rate, method, seed) for seed in _seeds(runs, rate)]
            for method in METHODS
            if chosen(runs, rate=rate, method=method)
        }
        means = {
            method: sum(known) / len(known)
            for method, values in finals.items()
            if (known := [value for value in values if value is not None]) and len(known) == len(values)
        }
        if means:
            winner = min(means, key=lambda method: means[method])
            told.append(f"{winner} ends lowest at a local rate of {rate:g} (mean {figure(means[winner])})")
    return [f"{'; '.join(told)}.", *EXPLAINED] if told else []
