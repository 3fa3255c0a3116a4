"""What the agent tells whoever started it: progress bars, plain lines, or one JSON object per event."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

SENTENCES = {
    "invitation": "{text}",
    "accepted": "Taking part in “{jobName}” as {peerId}.",
    "ready": "Model {model} is loaded; waiting for work.",
    "round": "Round {round}, {status}: {waitingFor}",
    "assigned": "Round {round}: {exampleCount} {unit} of {chunkId}.",
    "trained": "Round {round}: trained in {seconds:.2f} s.",
    "uploaded": "Round {round}: update {updates} delivered.",
    "dropped": "Round {round}: this work was given away; the result is not needed.",
    "failed": "Round {round}: {reason}",
    "retrying": "{reason}; trying again in {seconds:.1f} s.",
    "completed": "“{jobName}” is completed after round {round}.",
    "stopped": "{message}",
    "error": "{message}",
}
"""Every event there is, and its line for people. docs/agent.md lists their fields."""

ESSENTIAL = frozenset({"invitation", "completed", "stopped", "error"})
"""What `--quiet` leaves."""

MOST_CHARACTERS = 500


@dataclass(frozen=True)
class Live:
    """The moment, for bars."""

    job_name: str
    round: int
    passes_done: float
    planned_passes: float
    waiting_for: str
    stage: str
    done: int
    total: int | None
    per_second: float | None


class Reporter(Protocol):
    def event(self, name: str, **fields: object) -> None: ...

    def live(self, moment: Live) -> None: ...

    def close(self) -> None: ...


def clean(text: object) -> str:
    """Text from outside, safe for a terminal: one line, no control characters, not endless."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return printable[:MOST_CHARACTERS]


def sentence(name: str, fields: Mapping[str, object]) -> str:
    return SENTENCES[name].format_map({key: _shown(value) for key, value in fields.items()}).strip()


def _shown(value: object) -> object:
    if isinstance(value, list):
        return "\n".join(clean(line) for line in value)
    return value if isinstance(value, int | float) else clean(value)


class JsonLines:
    """One object per line: `event`, `at` (ms since the epoch) and the event's own fields."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def event(self, name: str, **fields: object) -> None:
        line = {"event": name, "at": round(time.time() * 1000), **fields}
        print(json.dumps(line, allow_nan=False), file=self._out, flush=True)

    def live(self, moment: Live) -> None:
        pass

    def close(self) -> None:
        pass


class Plain:
    """Errors go where errors go, so that a pipe gets only what was asked for."""

    def __init__(self, out: TextIO, err: TextIO, *, quiet: bool = False) -> None:
        self._out = out
        self._err = err
        self._quiet = quiet

    def event(self, name: str, **fields: object) -> None:
        if not self._quiet or name in ESSENTIAL:
            print(sentence(name, fields), file=self._err if name == "error" else self._out, flush=True)

    def live(self, moment: Live) -> None:
        pass

    def close(self) -> None:
        pass


class Bars:
    """A line for the job and one for the assignment, redrawn in place; events scroll above them."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self._job = self._progress.add_task("", total=None, note="")
        self._work = self._progress.add_task("", total=None, note="")

    def event(self, name: str, **fields: object) -> None:
        self._progress.console.print(sentence(name, fields), markup=False, highlight=False, soft_wrap=True)

    def live(self, moment: Live) -> None:
        self._progress.start()
        self._progress.update(
            self._job,
            description=f"{escape(clean(moment.job_name))} · round {moment.round}",
            completed=moment.passes_done,
            total=moment.planned_passes or None,
            note=escape(clean(moment.waiting_for)),
        )
        speed = "" if moment.per_second is None else f"{moment.per_second:,.0f} examples/s"
        self._progress.update(
            self._work, description=moment.stage, completed=moment.done, total=moment.total, note=speed
        )

    def close(self) -> None:
        self._progress.stop()


def make_reporter(*, as_json: bool, quiet: bool) -> Reporter:
    if as_json:
        return JsonLines(sys.stdout)
    if sys.stdout.isatty() and not quiet:
        return Bars(Console())
    return Plain(sys.stdout, sys.stderr, quiet=quiet)
