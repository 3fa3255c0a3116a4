"""What an experiment says on docs/results.md, worked out of its recorded runs: nothing here trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobs.services.experiments.charts import Chart

Tell = Callable[[str], None]
Result = Mapping[str, Any]
"""A recorded experiment: `name`, `runs`, `seconds`, `machine` and what its study adds."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the founding note, its figure, and what was found here."""

    text: str
    note: str
    ours: str
    holds: bool


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Report:
    """`charts` by file name without extension; `remarks` are paragraphs behind everything else."""

    about: str
    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    charts: Mapping[str, Chart] = field(default_factory=dict)
    remarks: Sequence[str] = ()


class Study(Protocol):
    """An experiment that anybody can run again."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def run(self, tell: Tell, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Every run, whatever it shows, as JSON values. `tell` hears a line after each."""

    def report(self, result: Result) -> Report: ...


def markdown_table(table: Table) -> str:
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    caption = f"{table.caption}\n\n" if table.caption else ""
    return caption + "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def claims_table(claims: Sequence[Claim]) -> Table:
    rows = [[claim.text, claim.note, claim.ours, "yes" if claim.holds else "no"] for claim in claims]
    return Table(["claim", "note", "here", "holds"], rows)


def figure(value: float | None, digits: int = 3) -> str:
    return "never" if value is None else f"{value:.{digits}g}"


def share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.3g} %"


def span(values: Sequence[float | None], show: Callable[[float | None], str] = figure) -> str:
    """The runs' values: one if they are the same, else from the smallest to the largest."""
    known = sorted(value for value in values if value is not None)
    missing = len(values) - len(known)
    if not known:
        return show(None)
    ends = list(dict.fromkeys([show(known[0]), show(known[-1])]))
    text = " to ".join(ends)
    return f"{text} (in {missing} of {len(values)} runs never)" if missing else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
