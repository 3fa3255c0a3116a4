"""Tables with a header row: numbers in, a class or a number out."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from weei_core.errors import Invalid
from weei_core.generator.readers.classes import ClassNumbers
from weei_core.generator.readers.text import Lines
from weei_core.generator.records import SHOWN_COLUMNS, BadRows, Head, Rows
from weei_core.generator.request import MAX_COLUMNS, CsvData, Task
from weei_core.strict_json import shown

BLOCK_ROWS = 4_096
_FLOAT32_MAX = float(np.finfo(np.float32).max)

# Not float() alone: it takes "nan", "1_000" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r"[0-9+\-.eE ,]*")


class CsvTable:
    """The rows of a table as `data` asks for them. `classes.names` is complete after a walk."""

    input_kind = "float32"
    shape: tuple[int, int, int] | None = None

    def __init__(self, path: Path, data: CsvData, bad: BadRows) -> None:
        """Reads the header. Raises Invalid if a column is missing, unnamed or named twice."""
        self.lines = Lines(path, bad)
        self.task: Task = data.task
        self.classes = ClassNumbers()
        self._delimiter = data.delimiter
        self._bad = bad
        self._line = 0
        self._header = self._read_header()
        self.columns = data.columns or tuple(name for name in self._header if name != data.label)
        self.outputs = (data.label,)
        self._at = [self._place(name, "columns") for name in self.columns]
        self._label_at = self._place(data.label, "label")
        if not self.columns:
            raise Invalid("The table must have a column beside the label; found none.", field="data.columns")

    def __iter__(self) -> Iterator[Rows]:
        self.classes = ClassNumbers()
        rows = self._rows()
        while block := [self._parsed(row) for row in islice(rows, BLOCK_ROWS)]:
            good = [row for row in block if row is not None]
            if not good:
                continue
            inputs = np.array([numbers for numbers, _ in good], np.float32)
            if self.task == "classification":
                yield Rows(inputs, np.array([target for _, target in good], np.uint32))
            else:
                yield Rows(inputs, np.array([[target] for _, target in good], np.float32))

    def progress(self) -> tuple[int, int]:
        """Bytes of the walk, and of the file."""
        return self.lines.progress()

    def first(self, count: int) -> Head:
        """The first rows as they stand, the label last."""
        at = [*self._at[:SHOWN_COLUMNS], self._label_at]
        rows = [row for row in islice(self._rows(), count) if len(row) == len(self._header)]
        return Head(tuple(self._header[i] for i in at), tuple(tuple(row[i] for i in at) for row in rows))

    def _read_header(self) -> list[str]:
        row = next(self._all_rows(), None)
        self._bad.refuse()
        if row is None:
            raise Invalid("The table must have a header row with the names of its columns; found none.", field="data")
        header = [name.strip() for name in row]
        if len(header) > MAX_COLUMNS:
            raise Invalid(f"The table may have at most {MAX_COLUMNS} columns; found {len(header)}.", field="data")
        if "" in header:
            raise Invalid(
                f"Every column must have a name in the header row; column {header.index('') + 1} has none.",
                field="data",
            )
        twice = next((name for name, count in Counter(header).items() if count > 1), None)
        if twice is not None:
            raise Invalid(f"The names of columns must differ; found {shown(twice)} twice.", field="data")
        return header

    def _place(self, name: str, field: str) -> int:
        if name not in self._header:
            known = ", ".join(map(shown, self._header[:20])) + (", …" if len(self._header) > 20 else "")
            raise Invalid(
                f"data.{field} must name columns of the table, which has {known}; found {shown(name)}.",
                field=f"data.{field}",
            )
        return self._header.index(name)

    def _all_rows(self) -> Iterator[list[str]]:
        """Rows that are not blank; `_line` is the line that the last one ended in."""

        def fed() -> Iterator[str]:
            for number, line in self.lines:
                self._line = number
                yield line + "\n"

        rows = csv.reader(fed(), delimiter=self._delimiter, strict=True)
        try:
            yield from (row for row in rows if row and any(map(str.strip, row)))
        except csv.Error as error:
            self._bad.add(self._line, f"is not a row of a table: {error}")
            self._bad.refuse()

    def _rows(self) -> Iterator[list[str]]:
        return islice(self._all_rows(), 1, None)

    def _parsed(self, row: Sequence[str]) -> tuple[list[float], float] | None:
        """Inputs and target, or None after telling what is wrong with the row."""
        if len(row) != len(self._header):
            self._bad.add(self._line, f"has {len(row)} cells; the header has {len(self._header)}")
            return None
        try:
            numbers = _numbers([row[at] for at in self._at], self.columns)
            label = row[self._label_at].strip()
            if self.task == "regression":
                return numbers, _numbers([label], self.outputs)[0]
            if not label:
                raise Invalid(f"has no value in column {shown(self.outputs[0])}")
            return numbers, self.classes.number(label)
        except Invalid as error:
            self._bad.add(self._line, error.message)
            return None


def _numbers(cells: Sequence[str], columns: Sequence[str]) -> list[float]:
    """Raises Invalid with what follows the line's number in a sentence."""
    if _PLAIN.fullmatch(",".join(cells)):
        try:
            numbers = list(map(float, cells))
        except ValueError:
            pass  # The careful way finds the cell.
        else:
            if max(map(abs, numbers)) <= _FLOAT32_MAX:
                return numbers
    return [_number(cell.strip(), column) for cell, column in zip(cells, columns, strict=True)]


def _number(cell: str, column: str) -> float:
    if not cell:
        raise Invalid(f"has no value in column {shown(column)}")
    if not _NUMBER.fullmatch(cell):
        raise Invalid(f"must have a number in column {shown(column)}; found {shown(cell)}")
    number = float(cell)
    if math.isinf(number) or abs(number) > _FLOAT32_MAX:
        raise Invalid(f"has a number in column {shown(column)} that a 32-bit float cannot hold: {shown(cell)}")
    return number
