"""Which record goes where, and the files that modules read.

The order is a pseudo-random permutation that is computed, not stored: any part of it is known without the rest, so that
data of any size are shuffled in a fixed amount of memory.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from weei_core.dataset_manifest import MAX_CHUNKS
from weei_core.errors import Invalid
from weei_core.generator.bpe import Ids
from weei_core.generator.records import RowSpool, TokenSpool
from weei_core.generator.request import ChunkingRequest

DEFAULT_CHUNKS = 50
LEAST_RECORDS = 16
"""Of a chunk, where the request leaves the number open: below that moving files takes longer than training."""
LARGE_BYTES = 16 * 2**20
"""No chunk is made larger than about this unless the request says so, and no validation file is."""

TOKENS_MAGIC, ROWS_MAGIC = 0x4B4F5457, 0x574F5257
_VERSION = 1
_ROUNDS = 8
_RECORD = np.dtype([("first", "<u4"), ("length", "<u2"), ("loss_from", "<u2")])


def shuffled(seed: int, count: int, start: int, stop: int) -> Ids:
    """The records at places `start` to `stop` (exclusive) of the shuffled order of `count` records.

    A Feistel network over the smallest power of four that holds all places, walked on while it leads beyond the last
    record. The key of each round is the first 8 bytes of SHA-256(u64le(seed) ‖ "records" ‖ u64le(round)).
    """
    half = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))
    keys = [
        hashlib.sha256(seed.to_bytes(8, "little") + b"records" + round_.to_bytes(8, "little")).digest()[:8]
        for round_ in range(_ROUNDS)
    ]
    numbers = [np.uint64(int.from_bytes(key, "little")) for key in keys]
    places = _permuted(np.arange(start, stop, dtype=np.uint64), half, numbers)
    while (beyond := np.flatnonzero(places >= count)).size:
        places[beyond] = _permuted(places[beyond], half, numbers)
    return places.astype(np.int64)


def _permuted(places: NDArray[np.uint64], half: np.uint64, keys: list[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = places >> half, places & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ key) & mask)
    return (left << half) | right


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of a value changes every bit of the result."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True)
class Plan:
    """The first `validation` places of the shuffled order are held out; chunks of `per_chunk` follow."""

    seed: int
    records: int
    validation: int
    per_chunk: int

    @property
    def chunk_count(self) -> int:
        return ceil((self.records - self.validation) / self.per_chunk)

    @property
    def largest(self) -> int:
        """Records of the largest file."""
        return max(self.validation, min(self.per_chunk, self.records - self.validation))

    def held_out(self) -> Ids:
        return shuffled(self.seed, self.records, 0, self.validation)

    def chunks(self) -> Iterator[Ids]:
        """The records of each chunk; the last may be smaller."""
        for start in range(self.validation, self.records, self.per_chunk):
            yield shuffled(self.seed, self.records, start, min(start + self.per_chunk, self.records))


def planned(request: ChunkingRequest, records: int, record_bytes: float) -> Plan:
    """`record_bytes`: of a record in a chunk, on average. Raises Invalid when the numbers do not fit one another."""
    many = max(1, int(LARGE_BYTES / record_bytes))
    held_out = 0
    if request.validation_share > 0:
        held_out = min(max(1, round(records * request.validation_share)), many)
    if records - held_out < 1:
        raise Invalid(
            f"The data must have a record to train on beside {held_out} held out; found {records}. Add records, or set "
            "chunking.validationShare to 0.",
            field="data",
        )
    training = records - held_out
    per_chunk = request.records_per_chunk or min(max(LEAST_RECORDS, ceil(training / DEFAULT_CHUNKS)), many)
    if ceil(training / per_chunk) > MAX_CHUNKS:
        least = ceil(training / MAX_CHUNKS)
        raise Invalid(
            f"chunking.recordsPerChunk must be at least {least} for {training} records, since a package has at most "
            f"{MAX_CHUNKS} chunks; found {per_chunk}.",
            field="chunking.recordsPerChunk",
        )
    return Plan(request.seed, records, held_out, per_chunk)


def tokens_file(spool: TokenSpool, records: Ids, vocabulary: int) -> bytes:
    """A `weei-tokens` file: header, a table of (u32 first, u16 length, u16 loss_from), the u16 tokens, padded to 4."""
    tokens, lengths, loss_from = spool.take(records)
    table = np.empty(len(records), _RECORD)
    table["first"], table["length"], table["loss_from"] = np.cumsum(lengths) - lengths, lengths, loss_from
    header = struct.pack("<4I", TOKENS_MAGIC, _VERSION, len(records), vocabulary)
    return header + table.tobytes() + _padded(tokens.astype("<u2").tobytes())


def rows_file(spool: RowSpool, records: Ids, classes: NDArray[np.uint32] | None) -> bytes:
    """A `weei-rows` file: header, all inputs, all targets. `classes`: the final number of each class, by its number in
    the spool; None for targets that are values.
    """
    inputs, targets = spool.take(records)
    is_bytes = inputs.dtype == np.uint8
    kind = 2 * is_bytes + (classes is None)
    outputs = targets.shape[1] if classes is None else 1
    header = struct.pack("<6I", ROWS_MAGIC, _VERSION, len(records), inputs.shape[1], outputs, kind)
    written = targets.astype("<f4") if classes is None else classes[targets].astype("<u4")
    return header + _padded(inputs.astype("u1" if is_bytes else "<f4").tobytes()) + written.tobytes()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
