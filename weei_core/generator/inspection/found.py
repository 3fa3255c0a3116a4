"""What a look at a data file finds, and reading its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from weei_core.errors import Invalid

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 20
"""A record of a table or a line of JSON. Text in windows may have lines of any length."""
SHOWN_ROWS = 5
SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Column:
    """A column of a table, a field of JSON lines or an array. `numbers`: nearly every sampled value is a finite number.
    `distinct`: different values in the sample; `whole`: its numbers are whole. `shape` and `type` are an array's."""

    name: str
    numbers: bool
    whole: bool
    distinct: int
    shape: tuple[int, ...] = ()
    type: str = ""


@dataclass(frozen=True)
class Found:
    """What a file holds. `records`: rows, lines or pictures. `classes`: (name, records) of the column in `label`, most
    first, empty where it has too many. `characters`: different characters in the text.
    """

    format: str
    records: int
    bytes: int
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    label: str = ""
    classes: tuple[tuple[str, int], ...] = ()
    delimiter: str = ","
    characters: int = 0

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> Found:
        """What `dataclasses.asdict` made of one, after it was JSON."""
        columns = tuple(Column(**{**one, "shape": tuple(one["shape"])}) for one in members["columns"])
        rows = tuple(map(tuple, members["rows"]))
        return cls(**{**members, "columns": columns, "rows": rows, "classes": tuple(map(tuple, members["classes"]))})

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


class Read:
    """How far the reading is. `report` is called for each MiB."""

    def __init__(self, size: int, report: Callable[[int, int], None]) -> None:
        self.size = size
        self._report = report
        self._done = 0
        self._said = 0

    def more(self, count: int) -> None:
        self._done += count
        if self._done - self._said >= BLOCK_BYTES or self._done >= self.size:
            self._said = self._done
            self._report(min(self._done, self.size), self.size)


def shortened(text: str) -> str:
    """A cell of the page."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def lines_of(file: BinaryIO, read: Read) -> Iterator[str]:
    """Lines with their ends, as text. Raises `Invalid` for what is not UTF-8 and for lines over `MAX_LINE_BYTES`."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise Invalid(f"Line {number} must have at most {MAX_LINE_BYTES} bytes; it has more.", field="data")
        read.more(len(line))
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise Invalid(
                f"Line {number} must be UTF-8; byte {error.start + 1} of it is none. Save the file as UTF-8.",
                field="data",
            ) from None
        yield text.removeprefix("\ufeff") if number == 1 else text
