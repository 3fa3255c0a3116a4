"""Records on their way from a data file to chunks: what readers give, what was wrong, and the spools on disk.

A data file may have a gigabyte. It is read once into flat files of tokens or rows; chunks then take any records from
them through memory maps, so that memory does not grow with the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weei_core.errors import Invalid, TooLarge
from weei_core.generator.bpe import Ids

MAX_BAD_ROWS = 1_000
MAX_SPOOL_BYTES = 8 * 2**30
SHOWN_BAD_ROWS = 20
SHOWN_COLUMNS = 20

INDEX = np.dtype([("first", "<u8"), ("length", "<u4"), ("loss_from", "<u4")])


class TextRecord(NamedTuple):
    """`parts`: one text, or prompt and answer. `line` counts from 1; None where a text is not read by lines."""

    line: int | None
    parts: tuple[str, ...]


class Head(NamedTuple):
    """The beginning of a table for people: at most SHOWN_COLUMNS inputs, and the label last. Every cell is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Rows(NamedTuple):
    """`inputs` (n, inputs) float32 or uint8; `targets` (n,) class numbers as uint32, or (n, outputs) float32."""

    inputs: NDArray[np.float32] | NDArray[np.uint8]
    targets: NDArray[np.uint32] | NDArray[np.float32]


@dataclass
class BadRows:
    """Rows that cannot be used. They are collected, so that a person sees more than one at a time."""

    unit: str = "line"
    found: list[tuple[str, str]] = field(default_factory=list)

    def add(self, where: int | str, reason: str) -> None:
        """`reason` follows the row's number in a sentence. Refuses at once when there are very many."""
        self.found.append((str(where), reason))
        if len(self.found) >= MAX_BAD_ROWS:
            self.refuse()

    def refuse(self) -> None:
        """Raises Invalid if any was found: the first in the sentence, all in `extra["rows"]`."""
        if not self.found:
            return
        count = len(self.found)
        listed = "; ".join(f"{self.unit} {where} {reason}" for where, reason in self.found[:SHOWN_BAD_ROWS])
        more = f"; and {count - SHOWN_BAD_ROWS} more" if count > SHOWN_BAD_ROWS else ""
        many = f"at least {count}" if count >= MAX_BAD_ROWS else str(count)
        raise Invalid(
            f"Every {self.unit} must be usable; found {many} that {'is' if count == 1 else 'are'} not: {listed}{more}.",
            field="data",
            code="bad_rows",
            rows=[{"row": where, "reason": reason} for where, reason in self.found],
        )


class TokenSpool:
    """Tokens of all records, one behind the other, and for each record where it lies. Records may overlap."""

    def __init__(self, folder: Path) -> None:
        self._paths = folder / "tokens.spool", folder / "index.spool"
        self._tokens, self._index = (path.open("wb") for path in self._paths)
        self.token_count = 0
        self.record_count = 0

    def append_tokens(self, ids: Ids) -> None:
        _room(2 * (self.token_count + len(ids)))
        self._tokens.write(ids.astype("<u2").tobytes())
        self.token_count += len(ids)

    def append_records(self, first: Ids, length: Ids, loss_from: Ids) -> None:
        """`first` counts from the first token of the spool."""
        records = np.empty(len(first), INDEX)
        records["first"], records["length"], records["loss_from"] = first, length, loss_from
        self._index.write(records.tobytes())
        self.record_count += len(first)

    def finish(self) -> None:
        self._tokens.close()
        self._index.close()

    @property
    def mean_record_bytes(self) -> float:
        """Of a record in a chunk, its entry in the table included."""
        lengths = np.memmap(self._paths[1], INDEX, "r")["length"]
        blocks = range(0, len(lengths), 1 << 20)
        return 8 + 2 * sum(int(lengths[at : at + (1 << 20)].sum()) for at in blocks) / len(lengths)

    def take(self, records: Ids) -> tuple[NDArray[np.uint16], Ids, Ids]:
        """Tokens, lengths and `loss_from` of `records`, in that order."""
        index = np.memmap(self._paths[1], INDEX, "r")[records]
        lengths = index["length"].astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        at = np.arange(int(lengths.sum())) + np.repeat(index["first"].astype(np.int64) - starts, lengths)
        tokens: NDArray[np.uint16] = np.memmap(self._paths[0], "<u2", "r")[at]
        return tokens, lengths, index["loss_from"].astype(np.int64)


class RowSpool:
    """Inputs and targets of all records as two flat files."""

    def __init__(self, folder: Path) -> None:
        self._paths = folder / "inputs.spool", folder / "targets.spool"
        self._files = [path.open("wb") for path in self._paths]
        self._parts: list[tuple[np.dtype[np.generic], int]] = []
        self._bytes = 0
        self.record_count = 0

    def append(self, rows: Rows) -> None:
        if not self._parts:
            self._parts = [(part.dtype, part[0].size) for part in rows]
        for file, part in zip(self._files, rows, strict=True):
            self._bytes += part.nbytes
            _room(self._bytes)
            file.write(np.ascontiguousarray(part).tobytes())
        self.record_count += len(rows.inputs)

    def finish(self) -> None:
        for file in self._files:
            file.close()

    @property
    def mean_record_bytes(self) -> float:
        return self._bytes / self.record_count

    def take(self, records: Ids | slice) -> Rows:
        """`targets` come as (n, outputs), also where each is one class number."""
        taken = [
            np.memmap(path, dtype, "r", shape=(self.record_count, width))[records]
            for path, (dtype, width) in zip(self._paths, self._parts, strict=True)
        ]
        return Rows(*map(np.asarray, taken))


def _room(size: int) -> None:
    if size > MAX_SPOOL_BYTES:
        raise TooLarge(
            f"The data must take at most {MAX_SPOOL_BYTES} bytes once they are read; found more. Use fewer records.",
            field="data",
        )


@dataclass(frozen=True)
class Normalisation:
    """Per column: `(value - mean) * scale`, both float32."""

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    def pairs(self) -> list[tuple[float, float]]:
        """(mean, scale) of each column."""
        return list(zip(self.mean.tolist(), self.scale.tolist(), strict=True))


def normalisation(spool: RowSpool, part: int, training: NDArray[np.bool_]) -> Normalisation:
    """Mean and 1 / standard deviation of each column of the inputs (`part` 0) or targets (1), in float64.

    Only the records that `training` marks count: held-out data must not shape what the model sees. A column of one
    value alone keeps scale 1.
    """
    count = int(training.sum())

    def blocks() -> Sequence[slice]:
        return [slice(at, at + 65_536) for at in range(0, spool.record_count, 65_536)]

    def summed(power: int, centre: NDArray[np.float64] | float) -> NDArray[np.float64]:
        total: NDArray[np.float64] | float = 0.0
        for block in blocks():
            chosen = np.asarray(spool.take(block)[part][training[block]], np.float64)
            total = total + ((chosen - centre) ** power).sum(axis=0)
        return np.asarray(total)

    mean = summed(1, 0.0) / count
    deviation = np.sqrt(summed(2, mean) / count)
    # Rounding alone gives a column of equal values a tiny deviation.
    spread = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))
    scale = np.divide(1.0, deviation, out=np.ones_like(deviation), where=spread)
    return Normalisation(mean.astype(np.float32), scale.astype(np.float32))
