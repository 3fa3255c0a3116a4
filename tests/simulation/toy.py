"""What simulated peers do: three weights, as a pure function of the assignment."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from weei_core.abi.requests import Units
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.ranges import divided
from weei_core.seeds import format_seed, parse_seed

FLOATS = 3
WEIGHT_BYTES = 4 * FLOATS
START = struct.pack("<3f", 1.0, -2.0, 0.5)
HUGE = 3e38
LARGE = 2.0**60
IDLE = struct.pack("<3f", 9.0, 9.0, 9.0)  # what comes with no finished unit: never averaged
MAX_UNITS = 9


@dataclass(frozen=True)
class Task:
    """Everything that an update is a function of: records of a chunk, units, or both. A `hot` task answers with numbers
    that are finite, but too large for a step of a method with momentum."""

    base: bytes
    chunk: int | None
    start: int
    count: int
    seed: int
    unit_start: int | None = None
    split: int = 1
    slots: tuple[bytes, ...] = ()
    hot: bool = False


@lru_cache
def model_info(inputs: str | None, *, cuts: bool, max_workers: int, slots: tuple[int | None, ...]) -> ModelInfo:
    """`inputs`: None for a dataset model. `slots`: how many rounds ago the snapshot was made, None for the first."""
    source = {
        "kind": "experience",
        "inputs": inputs,
        "unit": {"id": "game", "label": "Games"},
        "unitsPerAssignment": {"default": 1, "minimum": 1, "maximum": MAX_UNITS},
        "evaluationUnits": 1,
    }
    info = {
        "id": "toy",
        "version": "1",
        "name": "Toy",
        "abiVersion": 1,
        "weightFormat": "float32-le",
        "maxWorkers": max_workers,
        "dataFormats": [{"id": "toy", "label": "Toy", "acceptedMimeTypes": []}],
        "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
        "capabilities": {"evaluation": True, "recordRanges": cuts},
        "auxiliaryWeights": [_slot(index, ago) for index, ago in enumerate(slots)],
        **({"workSource": source} if inputs else {}),
    }
    return parse_model_info(info)


def _slot(index: int, rounds_ago: int | None) -> dict[str, object]:
    source = {"kind": "initial"} if rounds_ago is None else {"kind": "checkpoint", "roundsAgo": rounds_ago}
    return {"id": f"slot-{index}", "role": "opponent", "bytes": WEIGHT_BYTES, "source": source}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def trained(task: Task) -> tuple[bytes, int]:
    """The update and what it weighs."""
    if task.unit_start is None:
        weight = unique_examples(task.count, task.seed)
        return _weights(task, f"{task.chunk}/{task.start}+{task.count}/{task.seed}", weight), weight
    whole = Units(format_seed(task.seed), task.unit_start, task.count)
    parts = [_played(task, units) for units in divided(whole, task.split)]
    total = sum(weight for _, weight in parts)
    return (mean(parts), total) if total else (task.base, 0)


def _played(task: Task, units: Units) -> tuple[bytes, int]:
    """One range of units."""
    seed, slots = parse_seed(units.seed, "seed"), b"".join(task.slots).hex()
    finished = units_finished if task.chunk is None else unique_examples
    weight = finished(units.unit_count, seed)
    text = f"{task.chunk}/{units.unit_start}+{units.unit_count}/{seed}/{slots}"
    return _weights(task, text, weight), weight


def _weights(task: Task, text: str, weight: int) -> bytes:
    """Two weights go half way to zero plus noise, so that they stay finite for ever. The third is now and then so large
    that its sum, which cancels exactly, tells in which order it was made."""
    noise = struct.unpack("<3h", hashlib.sha256(task.base + text.encode()).digest()[:6])
    if task.hot:
        return struct.pack("<3f", *(HUGE if n > 0 else -HUGE for n in noise))
    near = [0.5 * w + n / 32768 for w, n in zip(struct.unpack("<3f", task.base), noise, strict=True)]
    large = LARGE / weight * (noise[2] % 3 - 1) if weight and weight & (weight - 1) == 0 else 0.0
    return struct.pack("<3f", near[0], near[1], large or noise[2] / 32768)


def mean(parts: Sequence[tuple[bytes, int]]) -> bytes:
    """The weighted mean in Python's own doubles, in the order given. Weights of 0 do not count."""
    counted = [(struct.unpack("<3f", body), weight) for body, weight in parts if weight]
    total = float(sum(weight for _, weight in counted))
    sums = [0.0] * FLOATS
    for index, (values, weight) in enumerate(counted):
        for i, w in enumerate(values):
            sums[i] = sums[i] + weight * w if index else weight * w
    return struct.pack("<3f", *(s / total for s in sums))


def unique_examples(count: int, seed: int) -> int:
    """What the module reports of records: at least 1, at most what was assigned."""
    return max(1, count - seed % 3)


def units_finished(count: int, seed: int) -> int:
    """Of a range of units: mostly all, now and then fewer, sometimes none."""
    return count if seed % 4 else seed // 4 % (count + 1)


def loss(seed: int) -> float:
    return (seed % 1000) / 1000
