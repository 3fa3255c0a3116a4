"""`aux-echo`: a small experience model with three auxiliary slots, whose results tell what it was given.

For tests of everything that is not the model itself: unit ranges, seeds, split assignments, zero finished units, file
and snapshot slots. A job is created from `PACKAGE`, `MODULE` and, selected together with them, `REWARD`:

    uploads = {path.name: path.read_bytes() for path in (MODULE, PACKAGE, REWARD)}

The model has seven float32 weights. One training adds to them, in this order: the round, unitStart, unitCount, the
seed modulo 65,521, and the first value of the slots `reward` (the file: 0.625), `start` (the job's first checkpoint)
and `old` (two rounds ago). So weight 0 of a checkpoint tells the rounds that led to it, which makes the first values
of `start` and `old` tell which checkpoint filled the slot. The metrics of `train` (before its step) and `evaluate` are
the first weight and the same numbers under their own names. `expected_update` and `expected_metrics` compute both.

Up to 3 Workers; 1 to 1,000 steps per assignment, 6 by default; 4 in an evaluation. With `batchSize` 7 a training
finishes half of its units, rounded down, with 9 none, with any other all of them; the returned weights are the same.
Slots in another order or of another size are refused, and so is work before all of them are loaded, after each
`loadModel` again.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MODULE, PACKAGE, REWARD = FOLDER / "aux-echo.wasm", FOLDER / "package.json", FOLDER / "reward.bin"
WEIGHTS = 7
SLOTS = ("reward", "start", "old")


def initial_weights(seed: int) -> bytes:
    """What `createInitialWeights` returns: byte i of the seed, as a fraction, is weight i."""
    return struct.pack("<7f", *(byte / 256 for byte in seed.to_bytes(8, "little")[:WEIGHTS]))


def finished_units(unit_count: int, batch_size: int) -> int:
    """The `uniqueExamples` of a training."""
    return {7: unit_count // 2, 9: 0}.get(batch_size, unit_count)


def expected_update(
    weights: bytes, auxiliary: Sequence[bytes], *, round: int, seed: int, unit_start: int, unit_count: int
) -> bytes:
    """The weights after a training, bit for bit. `auxiliary`: the slots' bytes in declared order."""
    grown = [round, unit_start, unit_count, seed % 65521, *map(_first, auxiliary)]
    return struct.pack("<7f", *(old + by for old, by in zip(struct.unpack("<7f", weights), grown, strict=True)))


def expected_metrics(
    weights: bytes, auxiliary: Sequence[bytes], *, seed: int, unit_start: int, unit_count: int
) -> dict[str, float]:
    """Of `evaluate`, and of `train` from these weights. Modules write nine digits: compare with `approx(rel=1e-8)`."""
    slots = dict(zip(SLOTS, map(_first, auxiliary), strict=True))
    numbers = {"unitStart": unit_start, "unitCount": unit_count, "seed": seed % 65521}
    return {"weight": _first(weights), **numbers, **slots}


def _first(values: bytes) -> float:
    return struct.unpack_from("<f", values)[0]
