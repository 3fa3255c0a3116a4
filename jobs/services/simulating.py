"""A job without database and network: participants that finish everything, at full speed, by the rules of the engine.

For the same members, settings and seed its checkpoints are byte for byte those of a job on a server.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from jobs.domain.experience import snapshot_round
from jobs.domain.rounds import After, validation_due
from jobs.services.jail_pool import JailPool
from jobs.services.simulated_work import ChunkDealer, ChunkFile, Dealer, Part, Standing, UnitDealer
from weei_core import seeds, strict_json
from weei_core.abi.limits import Limits
from weei_core.abi.requests import DataRange, Units, Work
from weei_core.aggregation import MergeResult, WeightedSource, average_metrics, merge, method_named
from weei_core.assignment import Assignment, loaded_files
from weei_core.dataset_manifest import MAX_OPEN_PARTS
from weei_core.errors import Conflict, Invalid
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, check_against_weights, parse_model_info
from weei_core.results import TrainResult, parse_evaluation
from weei_core.strict_json import as_int
from weei_core.training_settings import MAX_COUNT, parse_settings
from weei_core.weights import FileSource

RUN_SECONDS = 24 * 3600.0
"""A backstop only, as in the agent: whoever runs a simulation can stop it."""


@dataclass(frozen=True)
class Simulated:
    """A checkpoint. `units` are the records or units that counted, `evaluation` is None where the schedule asks for
    none, `seconds` is the round's training alone, from the first start to the last end."""

    round: int
    weights: Path
    sha256: str
    metrics: dict[str, float] = field(default_factory=dict)
    units: int = 0
    examples_processed: int = 0
    evaluation: dict[str, float] | None = None
    seconds: float = 0.0
    state: Path | None = None
    state_sha256: str | None = None
    step: int = 0
    standing: Standing | None = None
    """None of the first checkpoint."""


@dataclass(frozen=True)
class _Played:
    part: Part
    update: Path
    result: TrainResult
    begun: float
    ended: float


class Simulation:
    """One job of `participants` members with `device` Workers each. Nobody leaves, and everybody finishes.

    `chunks`, in manifest order, and `validation` are for models that read data; `shuffled`: the job's first shuffle
    comes before its first round. The job ends after `rounds` rounds if its settings plan more. `start` holds weights in
    place of the model's initial ones. `files` fill the slots that the model declares by hash. `processes` children run
    at once; the result does not depend on their number.

    Files of weights and states are written to `folder`. Without `keep` they go as soon as nothing needs them: those of
    a checkpoint may be read until the one after it is asked for.
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
        chunks: Sequence[ChunkFile] = (),
        validation: ChunkFile | None = None,
        shuffled: bool = False,
        rounds: int | None = None,
        start: Path | None = None,
        processes: int = 1,
        limits: Limits | None = None,
        max_parts: int = MAX_OPEN_PARTS,
        keep: bool = True,
    ) -> None:
        _check_counts(
            participants=participants, device=device, processes=processes, rounds=1 if rounds is None else rounds
        )
        self._folder = folder
        self.job_seed = job_seed
        self._files = dict(files or {})
        self._validation = validation
        self._rounds = rounds
        self._keep = keep
        self._stack = contextlib.ExitStack()
        self._pool = self._stack.enter_context(
            JailPool(module, limits or Limits(run_seconds=RUN_SECONDS), cache=folder, processes=processes)
        )
        try:
            self.info = self._pool.run(partial(self._describe, start))
            self.weight_bytes = self._weights(0).stat().st_size
            check_against_weights(self.info, self.weight_bytes)
            self.settings = parse_settings(
                settings, for_experience=self.info.is_experience, info=self.info, weight_bytes=self.weight_bytes
            )
            self._check_data(chunks)
            self.dealer: Dealer
            if self.info.reads_data:
                self.dealer = ChunkDealer(
                    chunks,
                    self.settings,
                    self.info,
                    job_seed,
                    participants=participants,
                    shuffled=shuffled,
                    max_parts=max_parts,
                )
            else:
                self.dealer = UnitDealer(self.settings, self.info, job_seed, participants=participants, device=device)
        except BaseException:
            self._stack.close()
            raise

    @property
    def order(self) -> Sequence[int]:
        """Chunk index by position in every pass; empty for a model that makes its own data."""
        return self.dealer.order if isinstance(self.dealer, ChunkDealer) else ()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self) -> Iterator[Simulated]:
        """The first checkpoint, then one after each round up to the end of the job. While one is looked at, the next
        round is trained already."""
        made = Simulated(0, self._weights(0), _sha256(self._weights(0)))
        while True:
            evaluation = self._evaluation_of(made)
            training = [] if self.is_last(made) else self._training_of(made.round + 1)
            yield self._with(made, evaluation)
            if not training:
                return
            played = [one.result() for one in training]
            after = self._merge(made, played)
            self._forget(made, after)
            made = after

    def is_last(self, made: Simulated) -> bool:
        return made.standing is not None and made.standing.after == After.COMPLETED

    def _check_data(self, chunks: Sequence[ChunkFile]) -> None:
        if self.info.reads_data and not chunks:
            raise Invalid(f"The model {self.info.name} reads data: chunks must be given; found none.", field="chunks")
        if not self.info.reads_data and (chunks or self._validation):
            raise Invalid(
                f"The model {self.info.name} makes its own data: no chunks and no validation file may be given; "
                f"found {len(chunks)} chunks.",
                field="chunks",
            )
        missing = [
            slot.id for slot in self.info.auxiliary_weights if slot.source is None and slot.id not in self._files
        ]
        if missing:
            raise Invalid(
                f"files must fill the slots that the model declares by hash; not filled: {', '.join(missing)}.",
                field="files",
            )

    def _weights(self, number: int) -> Path:
        return self._folder / f"round-{number}.f32"

    def _describe(self, start: Path | None, jail: Jail) -> ModelInfo:
        """The first weights are written on the way."""
        if start is not None:
            shutil.copyfile(start, self._weights(0))
            outcome = jail.run({"operation": "describe"}, loaded_files(start, ()))
        else:
            seed = seeds.format_seed(seeds.initial_weights_seed(self.job_seed))
            with self._weights(0).open("w+b") as out:
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

    def _training_of(self, number: int) -> list[Future[_Played]]:
        """The round begins: every participant's part waits for a child."""
        return [self._pool.submit(partial(self._play, number, part)) for part in self.dealer.deal(number)]

    def _play(self, number: int, part: Part, jail: Jail) -> _Played:
        assignment = Assignment(
            round=number,
            settings=self.settings.train_text,
            seed=part.seed,
            info=self.info,
            start=self._weights(number - 1),
            auxiliary=self._slots(number - 1),
            data=part.data,
            part=part.range,
            records=part.records,
            units=part.units,
            split=part.split,
        )
        out = self._folder / f"update-{part.place[0]}-{part.place[1]}"
        begun = time.monotonic()
        result = assignment.play(jail, out)
        return _Played(part, out, result, begun, time.monotonic())

    def _merge(self, before: Simulated, played: Sequence[_Played]) -> Simulated:
        """The next checkpoint. The updates are removed."""
        number = before.round + 1
        counted = [one for one in played if one.result.unique_examples]
        if not counted:
            raise Conflict(f"Round {number}: nobody finished a unit.", code="nothing_finished")
        state, merged = self._merge_files(before, counted)
        for one in played:
            one.update.unlink()
        unfinished = [one.part.item for one in played if one.part.item and not one.result.unique_examples]
        weighed = [(one.result.unique_examples, one.result.metrics) for one in counted]
        return Simulated(
            round=number,
            weights=self._weights(number),
            sha256=merged.weights_sha256,
            metrics=average_metrics(sorted(self.info.metric_ids), weighed),
            units=sum(one.result.unique_examples for one in counted),
            examples_processed=sum(one.result.examples_processed for one in counted),
            seconds=max(one.ended for one in played) - min(one.begun for one in played),
            state=state,
            state_sha256=merged.state_sha256,
            step=merged.step,
            standing=self.dealer.closed(number, unfinished, finishing=number == self._rounds),
        )

    def _merge_files(self, before: Simulated, counted: Sequence[_Played]) -> tuple[Path | None, MergeResult]:
        method = self.settings.aggregation
        number = before.round + 1
        state_path = self._folder / f"state-{number}" if method_named(method.method).state_vectors else None
        with contextlib.ExitStack() as stack:
            result = merge(
                start=FileSource(stack.enter_context(before.weights.open("rb"))),
                updates=[
                    WeightedSource(
                        FileSource(stack.enter_context(one.update.open("rb"))),
                        one.result.unique_examples,
                        one.part.place,
                    )
                    for one in counted
                ],
                state=FileSource(stack.enter_context(before.state.open("rb"))) if before.state else None,
                step=before.step + 1,
                method=method,
                average_only=self.info.average_only_ranges,
                weights_out=stack.enter_context(self._weights(number).open("w+b")),
                state_out=stack.enter_context(state_path.open("w+b")) if state_path else None,
            )
        return state_path, result

    def _forget(self, before: Simulated, made: Simulated) -> None:
        """What the checkpoints behind `made` no longer need: no state but its own, no weights but its snapshots'."""
        if self._keep:
            return
        if before.state is not None:
            before.state.unlink()
        sources = [slot.source for slot in self.info.auxiliary_weights if slot.source]
        oldest = made.round - max((source.rounds_ago or 0 for source in sources), default=0)
        first = 1 if any(source.rounds_ago is None for source in sources) else 0
        if oldest > first:
            self._weights(oldest - 1).unlink()

    def _evaluation_of(self, made: Simulated) -> Future[dict[str, float]] | None:
        """Begin it if the schedule names this checkpoint: the same work with the same seed every time."""
        schedule = self.settings.validation_schedule
        if schedule is None or not self.info.can_evaluate(validation_file=self._validation is not None):
            return None
        standing = made.standing
        due = validation_due(
            enabled=schedule.enabled,
            unit=schedule.unit,
            every=schedule.every,
            round_no=made.round,
            first=made.round == 0,
            last=self.is_last(made),
            ends_pass=standing is not None and standing.ends_pass,
            passes=standing.passes if standing else 0,
        )
        return self._pool.submit(partial(self._evaluate, made)) if due else None

    def _evaluate(self, made: Simulated, jail: Jail) -> dict[str, float]:
        slots = self._slots(made.round)
        inputs = loaded_files(made.weights, slots.values())
        data, units = None, None
        if self._validation is not None:
            inputs["data"] = InputFile(self._validation.path)
            data = DataRange(self._validation.format)
        if self.info.is_experience:
            count = self.info.evaluation_units or (self._validation.records if self._validation else 0)
            units = Units(seeds.format_seed(seeds.evaluation_seed(self.job_seed)), 0, count)
        work = Work(settings=self.settings.train_text, data=data, units=units)
        task = {"operation": "evaluate", "auxiliary": list(slots), "work": asdict(work)}
        outcome = jail.run(task, inputs)
        result = parse_evaluation(strict_json.loads(str(outcome["result"]), what="result"), self.info.metric_ids)
        return result.metrics

    def _with(self, made: Simulated, evaluation: Future[dict[str, float]] | None) -> Simulated:
        return made if evaluation is None else replace(made, evaluation=evaluation.result())


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        as_int(count, name, 1, MAX_COUNT)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
