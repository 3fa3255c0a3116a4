"""Running a job's module on the server: always in the jailed child, never in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings

from checkpoints.services.artifacts import artifact_path
from jobs.services.auxiliary import FilledSlot
from weei_core import strict_json
from weei_core.abi.limits import Limits
from weei_core.assignment import loaded_files
from weei_core.errors import ModelError
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import AuxiliarySlot, ModelInfo, parse_model_info
from weei_core.results import Evaluation, parse_evaluation

INSPECT_BATCH = 16
MAX_REFUSALS = 20
"""So many unreadable files are looked for before a person is told."""
MAX_MEMORY_BYTES = 4 * 1024**3
"""What a module can address."""


def limits(slot_bytes: int = 0) -> Limits:
    """MODULE_MEMORY_BYTES is for a module's weights, data and work; what its auxiliary slots hold comes on top."""
    return Limits(
        memory_bytes=min(settings.MODULE_MEMORY_BYTES + slot_bytes, MAX_MEMORY_BYTES),
        run_seconds=settings.MODULE_WALL_SECONDS,
        compile_seconds=settings.MODULE_CPU_SECONDS,
    )


def open_jail(module_sha256: str, slots: Sequence[AuxiliarySlot] = ()) -> Jail:
    """`slots`: those that the model declares and that will be loaded."""
    slot_bytes = sum(slot.bytes for slot in slots)
    return Jail(artifact_path(module_sha256), limits(slot_bytes), cache=settings.VAR_DIR / "modules")


@dataclass(frozen=True)
class Start:
    """What every operation on weights begins with, as artifacts: the weights, and what fills the slots beside them.
    The child reads the files straight into the module's memory."""

    weights: str
    slots: Sequence[FilledSlot] = ()

    @property
    def ids(self) -> list[str]:
        return [slot.id for slot in self.slots]

    @cached_property
    def files(self) -> dict[str, InputFile]:
        return loaded_files(artifact_path(self.weights), (artifact_path(slot.sha256) for slot in self.slots))


def describe_new(jail: Jail, *, seed: str, out: BinaryIO) -> tuple[ModelInfo, list[str]]:
    """ModelInfo and warnings; the module's initial weights of `seed` go into `out`, which it has then loaded."""
    return _described(jail.run({"operation": "describe", "seed": seed}, {}, {"weightsOut": out}))


def describe_with(jail: Jail, weights: InputFile) -> tuple[ModelInfo, list[str]]:
    """ModelInfo and warnings, once the module has loaded `weights`. Its refusal means "not compatible"."""
    try:
        return _described(jail.run({"operation": "describe"}, {"weights": weights}))
    except ModelError as error:
        if error.operation != "loadModel":
            raise
        raise ModelError(
            f"The module and the checkpoint are not compatible: loadModel refused the weights ({error.message})",
            operation=error.operation,
            field="checkpoint",
            code="not_compatible",
        ) from None


def _described(outcome: dict[str, strict_json.JsonValue]) -> tuple[ModelInfo, list[str]]:
    info = parse_model_info(str(outcome["modelInfo"]).encode())
    return info, [str(warning) for warning in strict_json.as_list(outcome["warnings"], "warnings")]


def load_slots(jail: Jail, start: Start) -> None:
    """Let the module load weights and slots. What it refuses, it would refuse in every assignment."""
    jail.run({"operation": "inspect", "auxiliary": start.ids, "chunks": []}, start.files)


def inspect(
    jail: Jail, start: Start, files: Sequence[tuple[str, str]], on_done: Callable[[int], None]
) -> list[int | ModelError]:
    """For each stored file (SHA-256, format) the module's own count of its examples, or why it cannot read the file.

    Ends early, with fewer entries than files, when too many are unreadable or the child died of one. Raises what no
    single file is to blame for.
    """
    found: list[int | ModelError] = []
    while len(found) < len(files):
        found += _inspect_batch(jail, start, files[len(found) : len(found) + INSPECT_BATCH])
        on_done(len(found))
        if not jail.alive or sum(isinstance(one, ModelError) for one in found) >= MAX_REFUSALS:
            break
    return found


def _inspect_batch(jail: Jail, start: Start, batch: Sequence[tuple[str, str]]) -> list[int | ModelError]:
    """One instance reads the whole batch; only when it refuses a file, each file gets an instance of its own."""
    try:
        return list(_counts(jail, start, batch))
    except ModelError as error:
        if error.operation != "inspectData" or (len(batch) > 1 and not jail.alive):
            raise
        if len(batch) == 1:
            return [error]
    return [one for file in batch for one in _inspect_batch(jail, start, [file])]


def _counts(jail: Jail, start: Start, batch: Sequence[tuple[str, str]]) -> list[int]:
    files = {f"chunk/{i}": InputFile(artifact_path(sha256)) for i, (sha256, _) in enumerate(batch)}
    chunks = [{"format": chunk_format} for _, chunk_format in batch]
    outcome = jail.run({"operation": "inspect", "auxiliary": start.ids, "chunks": chunks}, {**start.files, **files})
    counts = strict_json.as_list(outcome["exampleCounts"], "exampleCounts")
    return [strict_json.as_int(count, "exampleCount", 0, strict_json.EXACT_INT) for count in counts]


def evaluate(jail: Jail, info: ModelInfo, start: Start, work: dict[str, Any], data: Path | None) -> Evaluation:
    """`work` is a Work of `weei_core.abi.requests` as plain data; `data` the file that it speaks of, if it does."""
    files = start.files if data is None else {**start.files, "data": InputFile(data)}
    outcome = jail.run({"operation": "evaluate", "auxiliary": start.ids, "work": work}, files)
    return parse_evaluation(strict_json.loads(str(outcome["result"]), what="result"), info.metric_ids)
