"""The look at tables: CSV with a header row, and JSON lines."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.generator.inspection.found import SHOWN_ROWS, Column, Found, Read, lines_of, shortened
from weei_core.generator.request import MAX_COLUMNS

SAMPLED_ROWS = 2_000
MOSTLY = 0.9
"""A column of which so many values are numbers is one of numbers: its other cells are mistakes, told by their lines."""
MOST_CLASSES = 1_000
"""A label with more different values is not a class."""
_DELIMITERS = (",", ";", "\t")
_LABELS = ("label", "class", "target", "y", "species", "category", "outcome")


def csv_found(file: BinaryIO, read: Read) -> Found:
    """The first rows are looked at closely, all are counted. Raises `Invalid` for what is no table.

    Rows that do not fit the header are passed over: making the package names them, all at once.
    """
    lines = lines_of(file, read)
    header_line = next(lines)
    delimiter = max(_DELIMITERS, key=header_line.count)
    rows = csv.reader(_with_first(header_line, lines), delimiter=delimiter, strict=True)
    names = _header(_row(rows) or [])
    fitting = _fitting(rows, len(names))
    sample = list(islice(fitting, SAMPLED_ROWS))
    if not sample:
        raise Invalid(
            f"The table must hold rows of {len(names)} cells below its header, as that has; found none.", field="data"
        )
    columns = tuple(column_of(name, [row[index] for row in sample]) for index, name in enumerate(names))
    label = _label(columns)
    at = names.index(label)
    classes = Counter(row[at] for row in sample)
    records = len(sample)
    for row in fitting:
        records += 1
        if len(classes) <= MOST_CLASSES:
            classes[row[at]] += 1
    return Found(
        "csv",
        records=records,
        bytes=read.size,
        columns=columns,
        rows=tuple(tuple(shortened(cell) for cell in row) for row in sample[:SHOWN_ROWS]),
        label=label,
        classes=tuple(classes.most_common()) if len(classes) <= MOST_CLASSES else (),
        delimiter=delimiter,
    )


def _with_first(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _row(rows: Iterator[list[str]]) -> list[str] | None:
    """The next one, or None. `rows` is a `csv.reader`."""
    try:
        return next(rows, None)
    except csv.Error as error:
        line = getattr(rows, "line_num", 0)
        raise Invalid(f"Line {line} is not a row of a table: {error}.", field="data") from None


def _fitting(rows: Iterator[list[str]], width: int) -> Iterator[list[str]]:
    while (row := _row(rows)) is not None:
        if len(row) == width:
            yield row


def _header(names: Sequence[str]) -> list[str]:
    names = [name.strip() for name in names]
    if len(names) < 2:
        raise Invalid(
            "The first line must name at least two columns, parted by commas, semicolons or tabs; "
            f"found {len(names) or 'none'}.",
            field="data",
        )
    if len(names) > MAX_COLUMNS:
        raise Invalid(f"A table may have at most {MAX_COLUMNS} columns; found {len(names)}.", field="data")
    if "" in names:
        raise Invalid(f"Every column must have a name; column {names.index('') + 1} has none.", field="data")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise Invalid(f"Columns must have different names; found {strict_json.shown(twice)} twice.", field="data")
    if all(_number(name) is not None for name in names):
        raise Invalid(
            "The first line must name the columns; it holds only numbers. Put a line with names above it.",
            field="data",
        )
    return names


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def column_of(name: str, values: Sequence[str]) -> Column:
    numbers = [_number(value) for value in values]
    finite = [number for number in numbers if number is not None]
    mostly = len(finite) >= MOSTLY * len(values)
    whole = mostly and all(number.is_integer() for number in finite)
    return Column(name, numbers=mostly, whole=whole, distinct=len(set(values)))


def _label(columns: Sequence[Column]) -> str:
    """A column that is called like one, else the last one of words, else the last one."""
    by_name = {column.name.lower(): column.name for column in reversed(columns)}
    named = next((by_name[name] for name in _LABELS if name in by_name), None)
    words = next((column.name for column in reversed(columns) if not column.numbers), None)
    return named or words or columns[-1].name


def json_lines_found(file: BinaryIO, read: Read) -> Found:
    """The fields that hold text in the first objects, and the first rows; all lines are counted."""
    sample: list[dict[str, str]] = []
    records = 0
    for number, line in enumerate(lines_of(file, read), 1):
        if line.isspace():
            continue
        records += 1
        if len(sample) < SAMPLED_ROWS:
            sample.append(_texts(line, number))
    if not records:
        raise Invalid("The file must hold JSON objects, one on each line; found none.", field="data")
    common = [name for name in sample[0] if all(name in one for one in sample)]
    if not common:
        raise Invalid(
            "Every line must be a JSON object that shares a field of text with the others; the first lines share none.",
            field="data",
        )
    return Found(
        "jsonl",
        records=records,
        bytes=read.size,
        columns=tuple(column_of(name, [one[name] for one in sample]) for name in common),
        rows=tuple(tuple(shortened(one[name]) for name in common) for one in sample[:SHOWN_ROWS]),
        characters=len(_characters(one[name] for one in sample for name in common)),
    )


def _texts(line: str, number: int) -> dict[str, str]:
    """The members of an object that are text."""
    value = strict_json.loads(line, what=f"line {number}")
    if not isinstance(value, dict):
        raise Invalid(f"Line {number} must be a JSON object; found {strict_json.shown(value)}.", field="data")
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _characters(texts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        found |= set(text)
    return found
