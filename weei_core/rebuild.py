"""Making a checkpoint again from its ledger, to see whether the same bytes come out.

Needs what the ledger names by hash: module, start weights, state and chunks. Nothing of a server is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import Field

from weei_core import strict_json
from weei_core.abi.requests import Units
from weei_core.aggregation import AggregationSettings, MergeResult, WeightedSource, merge, method_named
from weei_core.errors import Invalid
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.ranges import divided, merge_ranges
from weei_core.results import TrainResult, parse_train_result
from weei_core.schema_types import Count, Loose, One, Positive, Sha256, Text, validate
from weei_core.training_settings import parse_settings
from weei_core.weights import FileSource

PathOf = Callable[[str], Path]
"""The verified file of an artifact, by its SHA-256."""


class LedgerSlot(Loose):
    """An update that counted: what was assigned, and what came back."""

    item: Text
    position: Count
    chunk_sha256: Sha256 | None = None
    format: Text | None = None
    record_start: Count | None = None
    record_count: Positive | None = None
    unit_start: Count | None = None
    unit_count: Positive | None = None
    seed: Text
    split: Positive
    unique_examples: Count
    sha256: Sha256

    @property
    def part(self) -> dict[str, int | None]:
        """The range of a chunk that was cut."""
        if self.record_start is None:
            return {}
        return {"record_start": self.record_start, "record_count": self.record_count}

    @property
    def place(self) -> tuple[int, int]:
        """Position in the pass and first record there, or first unit: the order of the merge."""
        first = self.record_start if self.chunk_sha256 else self.unit_start
        return self.position, first or 0


class LedgerAuxiliary(Loose):
    """What filled a slot of the model."""

    id: Text
    sha256: Sha256


class LedgerStart(Loose):
    weights: Sha256
    state: Sha256 | None = None
    step: Count = 0


class LedgerResult(Loose):
    weights: Sha256
    state: Sha256 | None = None
    step: Count = 0


class Ledger(Loose):
    """A round's ledger, or that of a job's first checkpoint (`initial_seed`, or `continued_from` a file)."""

    schema_: Literal["weei-ledger"] = Field(alias="schema")
    schema_version: One
    code_version: Text
    job_id: Text
    round: Count
    module: Sha256
    result: LedgerResult
    initial_seed: Text | None = None
    continued_from: dict[str, Any] | None = None
    start: LedgerStart | None = None
    auxiliary: tuple[LedgerAuxiliary, ...] = ()
    settings: dict[str, Any] | None = None
    slots: tuple[LedgerSlot, ...] = ()


def parse_ledger(text: str) -> Ledger:
    return validate(Ledger, strict_json.loads(text, what="ledger"), "ledger")


@dataclass
class Comparison:
    """What was made again, and where it differs from what the ledger says."""

    updates: int = 0
    differences: list[str] = field(default_factory=list)

    def expect(self, name: str, told: object, found: object) -> None:
        if told != found:
            self.differences.append(f"{name} is {found}, the ledger says {told}")


def rebuild_initial(ledger: Ledger, jail: Jail) -> Comparison:
    """Let the module make its initial weights again from the ledger's seed."""
    comparison = Comparison()
    with tempfile.TemporaryFile() as out:
        jail.run({"operation": "describe", "seed": ledger.initial_seed}, {}, {"weightsOut": out})
        comparison.expect("The SHA-256 of the initial weights", ledger.result.weights, _sha256(out))
    return comparison


def rebuild_round(ledger: Ledger, jail: Jail, path_of: PathOf) -> Comparison:
    """Train every slot again and merge what comes out. Raises `Invalid` for a ledger that lacks what this needs."""
    if ledger.start is None or ledger.settings is None or not ledger.slots:
        raise Invalid("The ledger of a round must hold start, settings and slots; found one that does not.")
    start = path_of(ledger.start.weights)
    told = jail.run({"operation": "describe"}, {"weights": InputFile(start)})
    info = parse_model_info(str(told["modelInfo"]).encode())
    settings = parse_settings(ledger.settings, for_experience=info.is_experience)
    auxiliary = {slot.id: path_of(slot.sha256) for slot in ledger.auxiliary}
    comparison = Comparison()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weei-rebuild-")))
        updates = []
        for index, slot in enumerate(ledger.slots):
            assignment = _Assignment(ledger.round, settings.train_text, slot, info, start, auxiliary)
            data = path_of(slot.chunk_sha256) if slot.chunk_sha256 else None
            out = folder / str(index)
            weight = assignment.play(jail, data, out)
            comparison.updates += 1
            comparison.expect(f"{slot.item}: uniqueExamples", slot.unique_examples, weight)
            file = stack.enter_context(out.open("rb"))
            comparison.expect(f"{slot.item}: the SHA-256 of the update", slot.sha256, _sha256(file))
            if weight > 0:
                updates.append(WeightedSource(FileSource(file), weight, slot.place))
        result = _merge(ledger.start, settings.aggregation, info, start, updates, path_of)
    comparison.expect("The SHA-256 of the weights", ledger.result.weights, result.weights_sha256)
    comparison.expect("The SHA-256 of the aggregation state", ledger.result.state, result.state_sha256)
    comparison.expect("The aggregation step", ledger.result.step, result.step)
    return comparison


@dataclass(frozen=True)
class _Assignment:
    """One slot's work, with everything that it is a function of."""

    round: int
    settings: str
    slot: LedgerSlot
    info: ModelInfo
    start: Path
    auxiliary: dict[str, Path]

    def play(self, jail: Jail, data: Path | None, out: Path) -> int:
        """Write the update to `out`; its weight in the average. A divided one is played range by range."""
        ranges = self._ranges()
        if len(ranges) == 1:
            return self._run(jail, ranges[0], data, out).unique_examples
        files = [out.with_suffix(f".{k}") for k in range(len(ranges))]
        played = [(file, self._run(jail, units, data, file)) for file, units in zip(files, ranges, strict=True)]
        return merge_ranges(self.start, played, out).unique_examples

    def _ranges(self) -> Sequence[Units | None]:
        slot = self.slot
        if slot.unit_start is None or slot.unit_count is None:
            return [None]
        return divided(Units(slot.seed, slot.unit_start, slot.unit_count), slot.split)

    def _run(self, jail: Jail, units: Units | None, data: Path | None, out: Path) -> TrainResult:
        slot = self.slot
        work: dict[str, object] = {"settings": self.settings, "round": self.round, "seed": slot.seed}
        inputs = {"weights": InputFile(self.start)}
        inputs |= {f"auxiliary/{index}": InputFile(path) for index, path in enumerate(self.auxiliary.values())}
        if data is not None:
            work["data"] = {"format": slot.format, **slot.part}
            inputs["data"] = InputFile(data)
        if units is not None:
            work["units"] = asdict(units)
        task = {"operation": "train", "auxiliary": list(self.auxiliary), "work": work}
        with out.open("w+b") as file:
            outcome = jail.run(task, inputs, {"weightsOut": file})
        return parse_train_result(
            strict_json.loads(str(outcome["result"]), what="train"),
            assigned=units.unit_count if units else slot.record_count or 0,
            experience=units is not None,
            declared_metrics=self.info.metric_ids,
        )


def _merge(
    before: LedgerStart,
    method: AggregationSettings,
    info: ModelInfo,
    start: Path,
    updates: list[WeightedSource],
    path_of: PathOf,
) -> MergeResult:
    """A state of the method's own size goes on; another method's, which always has another size, does not."""
    vectors = method_named(method.method).state_vectors
    kept = path_of(before.state) if before.state else None
    if kept is not None and kept.stat().st_size != vectors * start.stat().st_size:
        kept = None
    ranges = (info.aggregation and info.aggregation.average_only) or ()
    with contextlib.ExitStack() as stack:
        weights_out = stack.enter_context(tempfile.TemporaryFile())
        state_out = stack.enter_context(tempfile.TemporaryFile()) if vectors else None
        return merge(
            start=FileSource(stack.enter_context(start.open("rb"))),
            updates=updates,
            state=FileSource(stack.enter_context(kept.open("rb"))) if kept else None,
            step=before.step + 1 if kept else 1,
            method=method,
            average_only=[(part.offset, part.bytes) for part in ranges],
            weights_out=weights_out,
            state_out=state_out,
        )


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
