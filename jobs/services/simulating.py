"""A job without database and network: participants that finish everything, at full speed, by the rules of the engine.

For the same members, settings and seed its checkpoints are byte for byte those of a job on a server.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from jobs.domain.experience import snapshot_round, split_of, unit_starts
from jobs.domain.rounds import validation_due
from weei_core import seeds, strict_json
from weei_core.abi.limits import Limits
from weei_core.abi.requests import Units, Work
from weei_core.aggregation import WeightedSource, average_metrics, merge, method_named
from weei_core.assignment import Assignment, loaded_files
from weei_core.errors import Conflict
from weei_core.jail.parent import Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.results import TrainResult, parse_evaluation
from weei_core.training_settings import parse_settings
from weei_core.weights import FileSource


@dataclass(frozen=True)
class Simulated:
    """A checkpoint. `evaluation` is None where the schedule asks for none; `seconds` is the round's training alone."""

    round: int
    weights: Path
    sha256: str
    metrics: dict[str, float] = field(default_factory=dict)
    units: int = 0
    evaluation: dict[str, float] | None = None
    seconds: float = 0.0


class Simulation:
    """One experience job whose model makes its own data, with `participants` members of `device` Workers each.

    `files` fill the slots that the model declares by hash. `processes` children run at once; the result does not depend
    on their number. Files of weights are written to `folder` and kept.
    """

    def __init__(
        self,
        module: Path,
        folder: Path,
        *,
        settings: Mapping[str, Any],
        job_seed: int,
        participants: int,
        device: int = 1,
        files: Mapping[str, Path] | None = None,
        processes: int = 1,
    ) -> None:
        self._folder = folder
        self._job_seed = job_seed
        self._participants = participants
        self._device = device
        self._files = dict(files or {})
        self._stack = contextlib.ExitStack()
        self._jails: SimpleQueue[Jail] = SimpleQueue()
        for _ in range(processes):
            self._jails.put(self._stack.enter_context(Jail(module, Limits(), cache=folder)))
        self._pool = self._stack.enter_context(ThreadPoolExecutor(processes))
        self.info = self._describe()
        self.settings = parse_settings(settings, for_experience=self.info.is_experience, info=self.info)
        if self.info.work_source is None or self.info.reads_data:
            raise Conflict("Only models that make their own data can be simulated.", code="wrong_kind")

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self) -> Iterator[Simulated]:
        """The first checkpoint, then one after each round up to `epochs`."""
        yield self._evaluated(Simulated(0, self._weights(0), _sha256(self._weights(0))), last=False)
        next_unit, units = 0, self.settings.units_per_assignment
        assert units is not None
        state: tuple[Path | None, int] = (None, 0)
        for number in range(1, self.settings.epochs + 1):
            begun = time.monotonic()
            starts = unit_starts(next_unit, self._participants, units)
            next_unit = starts.stop
            played = list(self._pool.map(partial(self._play, number, units), starts))
            seconds = time.monotonic() - begun
            state = self._merge(number, played, state)
            weighed = [(result.unique_examples, result.metrics) for _, result in played if result.unique_examples]
            made = Simulated(
                round=number,
                weights=self._weights(number),
                sha256=_sha256(self._weights(number)),
                metrics=average_metrics(sorted(self.info.metric_ids), weighed),
                units=sum(result.unique_examples for _, result in played),
                seconds=seconds,
            )
            yield self._evaluated(made, last=number == self.settings.epochs)

    def _weights(self, number: int) -> Path:
        return self._folder / f"round-{number}.f32"

    @contextlib.contextmanager
    def _jail(self) -> Iterator[Jail]:
        jail = self._jails.get()
        try:
            yield jail
        finally:
            self._jails.put(jail)

    def _describe(self) -> ModelInfo:
        seed = seeds.format_seed(seeds.initial_weights_seed(self._job_seed))
        with self._jail() as jail, self._weights(0).open("w+b") as out:
            outcome = jail.run({"operation": "describe", "seed": seed}, {}, {"weightsOut": out})
        return parse_model_info(str(outcome["modelInfo"]).encode())

    def _slots(self, loaded: int) -> dict[str, Path]:
        """What fills each slot while the checkpoint of round `loaded` is loaded."""
        filled = {}
        for slot in self.info.auxiliary_weights:
            if slot.source is None:
                filled[slot.id] = self._files[slot.id]
            else:
                ago = slot.source.rounds_ago
                filled[slot.id] = self._weights(snapshot_round(rounds_ago=ago, first=0, loaded=loaded))
        return filled

    def _play(self, number: int, count: int, start: int) -> tuple[Path, TrainResult]:
        seed = seeds.format_seed(seeds.experience_seed(self._job_seed, start))
        most = self.info.max_workers
        assignment = Assignment(
            round=number,
            settings=self.settings.train_text,
            seed=seed,
            info=self.info,
            start=self._weights(number - 1),
            auxiliary=self._slots(number - 1),
            units=Units(seed, start, count),
            split=split_of(requested=self.settings.workers, device=self._device, most=most, units=count),
        )
        out = self._folder / f"update-{start}"
        with self._jail() as jail:
            return out, assignment.play(jail, out)

    def _merge(
        self, number: int, played: Sequence[tuple[Path, TrainResult]], before: tuple[Path | None, int]
    ) -> tuple[Path | None, int]:
        """Writes the checkpoint; returns the aggregation state's file and step. The updates are removed."""
        counted = [(path, result.unique_examples) for path, result in played if result.unique_examples]
        if not counted:
            raise Conflict(f"Round {number}: nobody finished a unit.", code="nothing_finished")
        method = self.settings.aggregation
        kept, step = before
        state_path = self._folder / f"state-{number}" if method_named(method.method).state_vectors else None
        with contextlib.ExitStack() as stack:
            sources = [FileSource(stack.enter_context(path.open("rb"))) for path, _ in counted]
            merge(
                start=FileSource(stack.enter_context(self._weights(number - 1).open("rb"))),
                updates=[
                    WeightedSource(source, count, (index,))
                    for index, (source, (_, count)) in enumerate(zip(sources, counted, strict=True))
                ],
                state=FileSource(stack.enter_context(kept.open("rb"))) if kept else None,
                step=step + 1,
                method=method,
                average_only=self.info.average_only_ranges,
                weights_out=stack.enter_context(self._weights(number).open("w+b")),
                state_out=stack.enter_context(state_path.open("w+b")) if state_path else None,
            )
        for path, _ in played:
            path.unlink()
        return state_path, step + 1 if state_path else 0

    def _evaluated(self, made: Simulated, *, last: bool) -> Simulated:
        """The same units with the same seed at every checkpoint that the schedule names."""
        schedule, source = self.settings.validation_schedule, self.info.work_source
        if schedule is None or source is None or not source.evaluation_units:
            return made
        due = validation_due(
            enabled=schedule.enabled,
            unit=schedule.unit,
            every=schedule.every,
            round_no=made.round,
            first=made.round == 0,
            last=last,
            ends_pass=False,
            passes=0,
        )
        return self._evaluate(made, source.evaluation_units) if due else made

    def _evaluate(self, made: Simulated, units: int) -> Simulated:
        seed = seeds.format_seed(seeds.evaluation_seed(self._job_seed))
        work = Work(settings=self.settings.train_text, units=Units(seed, 0, units))
        slots = self._slots(made.round)
        task = {"operation": "evaluate", "auxiliary": list(slots), "work": asdict(work)}
        with self._jail() as jail:
            outcome = jail.run(task, loaded_files(made.weights, slots.values()))
        result = parse_evaluation(strict_json.loads(str(outcome["result"]), what="result"), self.info.metric_ids)
        return replace(made, evaluation=result.metrics)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
