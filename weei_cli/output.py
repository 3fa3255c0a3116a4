"""What people and programs read: tables and sentences, or one JSON document. Progress goes to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from weei_cli.outcomes import Failed

MISSING = "–"
MOST_CHARACTERS = 500
PIPE_COLUMNS = 1000
"""A table that goes into a pipe is as wide as it needs to be."""


def clean(text: object) -> str:
    """Text from outside, safe for a terminal: one line, no control characters, not endless."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return printable[:MOST_CHARACTERS]


def when(ms: int | float | None) -> str:
    """A time of the server, in this machine's zone."""
    if ms is None:
        return MISSING
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(ms: float | None) -> str:
    if ms is None:
        return MISSING
    seconds = round(ms / 1000)
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds % 60:02} s" if minutes else f"{seconds} s"


def amount(size: int) -> str:
    for unit, power in (("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size} bytes"


def number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else MISSING if value is None else clean(value)


class Printer:
    """`data` is printed as JSON with `--json`; everything else is for people, and then silent."""

    def __init__(self, *, as_json: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self.console = self._console(self._out)
        self._progress = Console(file=self._err)

    def _console(self, file: TextIO) -> Console:
        return Console(file=file, highlight=False, width=None if file.isatty() else PIPE_COLUMNS)

    @property
    def is_live(self) -> bool:
        """Whether a person looks at a terminal that can be redrawn."""
        return not self.as_json and self._out.isatty()

    def data(self, value: object) -> None:
        if self.as_json:
            print(json.dumps(value, ensure_ascii=False, allow_nan=False), file=self._out, flush=True)

    def say(self, sentence: str) -> None:
        if not self.as_json:
            self.console.print(escape(clean(sentence)), soft_wrap=True)

    def note(self, sentence: str) -> None:
        """Beside the result: on standard error, so that a pipe gets only what was asked for."""
        if not self.as_json:
            print(clean(sentence), file=self._err, flush=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        if self.as_json:
            return
        listed = list(rows)
        if not listed:
            self.say(empty)
            return
        self.console.print(table_of(columns, listed))

    def facts(self, pairs: Iterable[tuple[str, object]]) -> None:
        if self.as_json:
            return
        grid = Table.grid(padding=(0, 2))
        for name, value in pairs:
            grid.add_row(f"[bold]{escape(name)}[/bold]", escape(number(value)))
        self.console.print(grid)

    def failed(self, failed: Failed) -> None:
        """One sentence, or the problem as JSON, on standard error."""
        text = json.dumps(failed.problem, ensure_ascii=False) if self.as_json else f"weei: {clean(failed.message)}"
        print(text, file=self._err, flush=True)

    def progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._progress,
            transient=True,
            disable=self.as_json or not self._err.isatty(),
        )


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(*(escape(number(value)) for value in row))
    return table


def metrics_of(checkpoint: dict[str, Any], member: str) -> dict[str, Any]:
    """`metrics` or `validationMetrics` of a checkpoint, by id; empty where there are none."""
    found = checkpoint.get(member)
    values = found.get("values") if isinstance(found, dict) else None
    return values if isinstance(values, dict) else {}
