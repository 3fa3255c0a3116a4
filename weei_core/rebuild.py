"""Making a checkpoint again from its ledger, to see whether the same bytes come out.

Needs what the ledger names by hash: module, start weights, state and chunks. Nothing of a server is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import Field

from weei_core import strict_json
from weei_core.abi.requests import DataRange, Units
from weei_core.aggregation import AggregationSettings, MergeResult, WeightedSource, merge, method_named
from weei_core.assignment import Assignment
from weei_core.errors import Invalid
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.schema_types import Count, Loose, One, Positive, Sha256, Text, validate
from weei_core.training_settings import TrainingSettings, parse_settings
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
    comparison = Comparison()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weei-rebuild-")))
        updates = []
        for index, slot in enumerate(ledger.slots):
            out = folder / str(index)
            assignment = slot_assignment(ledger, slot, settings, info, start, path_of)
            weight = assignment.play(jail, out).unique_examples
            comparison.updates += 1
            comparison.expect(f"{slot.item}: uniqueExamples", slot.unique_examples, weight)
            file = stack.enter_context(out.open("rb"))
            comparison.expect(f"{slot.item}: the SHA-256 of the update", slot.sha256, _sha256(file))
            if weight > 0:
                updates.append(WeightedSource(FileSource(file), weight, slot.place))
        result = updates_merge(ledger.start, settings.aggregation, info, start, updates, path_of)
    comparison.expect("The SHA-256 of the weights", ledger.result.weights, result.weights_sha256)
    comparison.expect("The SHA-256 of the aggregation state", ledger.result.state, result.state_sha256)
    comparison.expect("The aggregation step", ledger.result.step, result.step)
    return comparison


def slot_assignment(
    ledger: Ledger, slot: LedgerSlot, settings: TrainingSettings, info: ModelInfo, start: Path, path_of: PathOf
) -> Assignment:
    units = None
    if slot.unit_start is not None and slot.unit_count is not None:
        units = Units(slot.seed, slot.unit_start, slot.unit_count)
    count = slot.record_count if slot.record_start is not None else None
    return Assignment(
        round=ledger.round,
        settings=settings.train_text,
        seed=slot.seed,
        info=info,
        start=start,
        auxiliary={filled.id: path_of(filled.sha256) for filled in ledger.auxiliary},
        data=path_of(slot.chunk_sha256) if slot.chunk_sha256 else None,
        part=DataRange(slot.format, slot.record_start, count) if slot.format else None,
        records=slot.record_count or 0,
        units=units,
        split=slot.split,
    )


def updates_merge(
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
    with contextlib.ExitStack() as stack:
        weights_out = stack.enter_context(tempfile.TemporaryFile())
        state_out = stack.enter_context(tempfile.TemporaryFile()) if vectors else None
        return merge(
            start=FileSource(stack.enter_context(start.open("rb"))),
            updates=updates,
            state=FileSource(stack.enter_context(kept.open("rb"))) if kept else None,
            step=before.step + 1 if kept else 1,
            method=method,
            average_only=info.average_only_ranges,
            weights_out=weights_out,
            state_out=state_out,
        )


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
