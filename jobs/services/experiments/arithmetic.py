"""`reproduce arithmetic`: the same problems and the same network behind two vocabularies."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.services.experiments.charts import Chart, Line
from jobs.services.experiments.report import Claim, Report, Result, Table, Tell, figure, share, span
from jobs.services.experiments.text_runs import Arm, Packaged, Run, chosen, last_value, mean_curve, packaged, run_arms
from jobs.services.experiments.texts import END, Arithmetic, Problem, arithmetic
from weei_core.generator.request import PackageRequest
from weei_core.generator.tokenizers import Tokenizer

MERGES, CHARACTERS = "merging BPE", "one token per character"
SHOWN_PROBLEM = "37+48=85" + END
SEEN, HELD_OUT, LARGER = "seen", "heldOut", "larger"
SAMPLES = [Problem(1, right) for right in range(1, 7)]
"""Those that the note shows."""
KINDS = {SEEN: "0 to 99", HELD_OUT: "held-out pairs", LARGER: "three digits"}
NOTE_SECONDS = 4.0
FAILS, SUCCEEDS = 0.5, 0.95
"""Shares of exact answers below and above which a model is said to fail or to succeed."""


@dataclass(frozen=True)
class ArithmeticModel:
    """A network small enough for a few seconds per epoch, and data whose every answer can be checked.

    `merges` of the vocabulary that goes wrong. One participant, `chunks` chunks, so that an epoch is so many rounds.
    """

    context: int = 16
    layers: int = 2
    heads: int = 4
    width: int = 64
    hidden: int = 256
    merges: int = 200
    batch: int = 16
    rate: float = 1e-3
    text_seed: int = 1
    held_out: int = 500
    asked: int = 200
    validation_share: float = 0.05

    @property
    def problems(self) -> Arithmetic:
        return arithmetic(self.text_seed, held_out=self.held_out, asked=self.asked)

    def request(self, vocabulary: str, *, records_per_chunk: int) -> dict[str, Any]:
        """The corrected one has no merges and a real end token; it reads the same file."""
        tokenizer: dict[str, Any] = (
            {"kind": "bpe", "merges": self.merges} if vocabulary == MERGES else {"kind": "characters", "endToken": END}
        )
        return {
            "name": f"Arithmetic, {vocabulary}",
            "architecture": {
                "kind": "transformer",
                "context": self.context,
                "layers": self.layers,
                "heads": self.heads,
                "width": self.width,
                "hidden": self.hidden,
            },
            "data": {"format": "text", "records": "lines"},
            "tokenizer": tokenizer,
            "chunking": {
                "recordsPerChunk": records_per_chunk,
                "seed": self.text_seed,
                "validationShare": self.validation_share,
            },
        }

    def settings(self, epochs: int, aggregation: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "epochs": epochs,
            "localEpochs": 1,
            "batchSize": self.batch,
            "learningRate": self.rate,
            "coordinatorParticipates": False,
            "validationSchedule": {"enabled": True, "unit": "epoch", "every": 1},
            "aggregation": dict(aggregation),
        }


MODEL = ArithmeticModel()
WHOLE = 1_000_000
"""Records per chunk that put all of them into one."""


@dataclass(frozen=True)
class ArithmeticStudy:
    name: str = "arithmetic"
    title: str = "Teaching it arithmetic"
    model: ArithmeticModel = MODEL
    epochs: int = 20
    seeds: Sequence[int] = (1, 2, 3)
    ask_every: int = 5

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        problems = self.model.problems
        questions = {SEEN: problems.seen, HELD_OUT: problems.held_out, LARGER: problems.larger}
        with tempfile.TemporaryDirectory(prefix="weei-reproduce-") as folder:
            packages = {
                vocabulary: packaged(
                    self.model.request(vocabulary, records_per_chunk=WHOLE), problems.text, Path(folder, str(index))
                )
                for index, vocabulary in enumerate((MERGES, CHARACTERS))
            }
            arms = [
                Arm(
                    {"vocabulary": vocabulary},
                    package,
                    self.model.settings(self.epochs, {"method": "fedavg"}),
                    questions=questions,
                    samples=SAMPLES,
                    ask_every=self.ask_every,
                )
                for vocabulary, package in packages.items()
            ]
            runs = run_arms(arms, tuple(seeds or self.seeds), tell)
            return {
                "requests": {
                    vocabulary: self.model.request(vocabulary, records_per_chunk=WHOLE) for vocabulary in packages
                },
                "settings": self.model.settings(self.epochs, {"method": "fedavg"}),
                "problems": {
                    "training": len(problems.training),
                    "heldOut": self.model.held_out,
                    "asked": self.model.asked,
                },
                "modules": {vocabulary: package.inputs.module_file.sha256 for vocabulary, package in packages.items()},
                "cuts": {vocabulary: _cut(self.model, vocabulary, problems.text) for vocabulary in packages},
                "runs": runs,
            }

    def report(self, result: Result) -> Report:
        runs: Sequence[Run] = result["runs"]
        merged, plain = (chosen(runs, vocabulary=vocabulary) for vocabulary in (MERGES, CHARACTERS))
        seconds = [_seconds_per_epoch(run) for run in plain]
        bad, good = _shares(merged, SEEN), _shares(plain, SEEN)
        warned = all(any(code.startswith("tokenizer-") for code in run["advice"]) for run in merged)
        return Report(
            about=_about(result),
            claims=[
                Claim(
                    "With a merging BPE vocabulary the answers are wrong.",
                    "constant for stretches, then jumping",
                    f"{span(bad, share)} exact",
                    all(value is not None and value < FAILS for value in bad),
                ),
                Claim(
                    "With one token per character and a real end token the same network and file succeed.",
                    "exact answers, without a figure that survived",
                    f"{span(good, share)} exact on problems from 0 to 99",
                    all(value is not None and value >= SUCCEEDS for value in good),
                ),
                Claim(
                    "An epoch takes about four seconds on a CPU.",
                    f"{NOTE_SECONDS:g} s",
                    f"{span(seconds)} s",
                    all(value < 2 * NOTE_SECONDS for value in seconds),
                ),
                Claim(
                    "Part of that may be memorisation; problems that were not in the data:",
                    "not measured",
                    f"{span(_shares(plain, HELD_OUT), share)} of held-out pairs, "
                    f"{span(_shares(plain, LARGER), share)} of three-digit sums",
                    True,
                ),
                Claim(
                    "The generator warns about the tokenizer before the package is made.",
                    "no warning",
                    "warned in every run" if warned else "did not warn",
                    warned,
                ),
            ],
            tables=[_exact(runs), _cuts(result), _answers(runs)],
            charts={"arithmetic": _chart(runs)},
            remarks=["Seconds are those of an epoch of one run while another ran beside it on each further core."],
        )


def _cut(model: ArithmeticModel, vocabulary: str, text: str) -> list[str]:
    """The vocabulary of the package again, for the page: how it cuts the note's problem."""
    wanted = PackageRequest.parse(model.request(vocabulary, records_per_chunk=WHOLE)).tokenizer
    assert wanted is not None
    return Tokenizer.of_request(wanted, text.splitlines(), ()).cut(SHOWN_PROBLEM)


def _about(result: Result) -> str:
    counts = result["problems"]
    sizes = next(iter(result["requests"].values()))["architecture"]
    return (
        f"Sums of two numbers from 0 to 99, one a line: {counts['training']} of the 10,000 pairs are the data, "
        f"{counts['heldOut']} are held out. A transformer of context {sizes['context']}, {sizes['layers']} layers and "
        f"width {sizes['width']} is trained by one participant, an epoch a round. Afterwards it is asked "
        f"{counts['asked']} problems of each kind, and an answer is right when every digit is."
    )


def _seconds_per_epoch(run: Run) -> float:
    return float(run["trainSeconds"]) / max(1, len(run["curve"]) - 1)


def _shares(runs: Sequence[Run], kind: str) -> list[float | None]:
    return [last_value(run, kind) for run in runs]


def _exact(runs: Sequence[Run]) -> Table:
    rows = [
        [
            vocabulary,
            run["seed"],
            *(share(last_value(run, kind)) for kind in KINDS),
            figure(last_value(run, "loss")),
            figure(_seconds_per_epoch(run)),
        ]
        for vocabulary in (MERGES, CHARACTERS)
        for run in chosen(runs, vocabulary=vocabulary)
    ]
    head = ["vocabulary", "seed", *KINDS.values(), "validation loss", "seconds per epoch"]
    return Table(head, rows, "Exact answers at the end (losses of different vocabularies cannot be compared):")


def _cuts(result: Result) -> Table:
    rows = [[vocabulary, " ".join(f"`{token}`" for token in cut)] for vocabulary, cut in result["cuts"].items()]
    return Table(["vocabulary", f"how it cuts {SHOWN_PROBLEM.replace('<', '&lt;')}"], rows)


def _answers(runs: Sequence[Run]) -> Table:
    """What the first seed of each says."""
    rows = []
    for vocabulary in (MERGES, CHARACTERS):
        for run in chosen(runs, vocabulary=vocabulary)[:1]:
            told = " ".join(f"`{question}{answer}`" for question, answer in run.get("samples", {}).items())
            rows.append([vocabulary, told or "nothing asked"])
    return Table(["vocabulary", "answers to the note's examples"], rows)


def _chart(runs: Sequence[Run]) -> Chart:
    lines = []
    for vocabulary in (MERGES, CHARACTERS):
        found = chosen(runs, vocabulary=vocabulary)
        for kind, label in KINDS.items():
            points = [(x, y) for x, y in mean_curve(found, kind) if y is not None]
            lines.append(Line(f"{'BPE' if vocabulary == MERGES else 'characters'}, {label}", points))
    return Chart("Exact answers (mean of the seeds)", "epoch", "share", lines)


def corrected(model: ArithmeticModel, folder: Path) -> Packaged:
    """The package of the corrected model with all of its records in one chunk."""
    return packaged(model.request(CHARACTERS, records_per_chunk=WHOLE), model.problems.text, folder)
