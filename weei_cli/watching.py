"""`weei watch` and `weei log`: what happens, while it happens.

They ask again and again: what the socket would say is "look again" too, and a look costs the server little.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from weei_cli.api import LARGEST_PAGE, Api
from weei_cli.looking import JOBS, checkpoint_rows, participant_rows
from weei_cli.outcomes import Exit, Failed
from weei_cli.output import Printer, clean, duration, metrics_of, number, table_of
from weei_core import js_json

SHOWN_ROUNDS = 8
LOG_SECONDS = 1.0


@dataclass
class Moment:
    """A job as it was at one look, with its newest checkpoints, newest first."""

    job: dict[str, Any]
    checkpoints: list[dict[str, Any]]

    @property
    def newest_round(self) -> int:
        found: int = self.checkpoints[0]["artifact"]["round"] if self.checkpoints else 0
        return found

    @property
    def done(self) -> int:
        """Items of this pass that are merged or under way no more."""
        at = self.job["progress"]
        return int(at["totalChunks"] - at["remainingChunks"])

    @property
    def current_pass(self) -> int:
        at = self.job["progress"]
        return int(min(at["datasetEpoch"] + 1, at["plannedEpochs"]))

    def line(self) -> dict[str, Any]:
        """What programs are told, once for each change."""
        job, newest = self.job, self.checkpoints[0] if self.checkpoints else {}
        return {
            "id": job["id"],
            "name": job["name"],
            "status": job["status"],
            "error": job["error"],
            "waitingFor": job["waitingFor"],
            "round": job["round"],
            "progress": job["progress"],
            "participants": {peer: person["state"] for peer, person in job["participants"].items()},
            "checkpoint": newest
            and {
                "round": self.newest_round,
                "sha256": newest["artifact"]["sha256"],
                "metrics": metrics_of(newest, "metrics"),
                "validation": newest["validation"],
                "validationMetrics": metrics_of(newest, "validationMetrics"),
            },
        }

    def sentence(self) -> str:
        job, at = self.job, self.job["progress"]
        newest = self.checkpoints[0] if self.checkpoints else {}
        metrics = {
            **metrics_of(newest, "metrics"),
            **{f"held-out {name}": value for name, value in metrics_of(newest, "validationMetrics").items()},
        }
        return "; ".join(
            [
                f"{job['status']}, round {job['round']}",
                f"{self.done} of {at['totalChunks']} in pass {self.current_pass} of {at['plannedEpochs']}",
                f"checkpoint {self.newest_round}",
                *(f"{name} {number(value)}" for name, value in metrics.items()),
                f"{len(job['peers'])} connected",
            ]
        )

    def reached(self, until_round: int | None) -> bool:
        return until_round is not None and self.newest_round >= until_round

    def is_over(self) -> bool:
        """Completed, and every evaluation of it is done."""
        return self.job["status"] == "completed" and not self.job["validating"]

    def is_stopped(self) -> bool:
        """Paused by an error: it goes on only when somebody acts."""
        return self.job["status"] == "paused" and bool(self.job["error"])


async def watch(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    saved = await api.job_named(options.job)
    moments = _moments(api, saved["id"], options.every)
    moment = await (_draw(printer, moments, options) if printer.is_live else _tell(printer, moments, options))
    name, last = moment.job["name"], moment.newest_round
    if moment.is_stopped():
        raise Failed(f"“{name}” stopped after round {last}: {moment.job['error']}", code="job_stopped", round=last)
    if moment.job["status"] == "completed":
        incomplete = " It is incomplete: work was left out." if moment.job["incomplete"] else ""
        printer.note(f"“{name}” is completed after round {last}.{incomplete}")
    else:
        printer.note(f"The checkpoint of round {last} of “{name}” is there.")
    return Exit.DONE


async def _moments(api: Api, job_id: str, every: float) -> AsyncIterator[Moment]:
    while True:
        # The job first: a checkpoint that comes between the two looks is then no surprise.
        job = await api.get(f"{JOBS}/{job_id}")
        checkpoints = await api.get(f"{JOBS}/{job_id}/checkpoints", limit=SHOWN_ROUNDS)
        yield Moment(job, checkpoints)
        await asyncio.sleep(every)


def _ends(moment: Moment, options: argparse.Namespace) -> bool:
    return moment.is_over() or moment.is_stopped() or moment.reached(options.until_round)


async def _tell(printer: Printer, moments: AsyncIterator[Moment], options: argparse.Namespace) -> Moment:
    """A line for each change."""
    before: object = None
    async for moment in moments:
        now: object = moment.line() if printer.as_json else moment.sentence()
        if now != before:
            printer.data(now)
            printer.say(str(now))
            before = now
        if _ends(moment, options):
            return moment
    raise AssertionError("looking has no end of its own")


async def _draw(printer: Printer, moments: AsyncIterator[Moment], options: argparse.Namespace) -> Moment:
    """A table that is redrawn in place."""
    with Live(console=printer.console, auto_refresh=False) as live:
        async for moment in moments:
            live.update(picture(moment), refresh=True)
            if _ends(moment, options):
                return moment
    raise AssertionError("looking has no end of its own")


def picture(moment: Moment) -> Group:
    job, at = moment.job, moment.job["progress"]
    done = moment.done
    head = Table.grid(padding=(0, 2))
    head.add_row("[bold]Job[/bold]", escape(clean(f"{job['name']} · {job['status']} · round {job['round']}")))
    head.add_row("[bold]Pass[/bold]", f"{moment.current_pass} of {at['plannedEpochs']}")
    head.add_row(
        f"[bold]{done} of {at['totalChunks']}[/bold]",
        ProgressBar(total=max(at["totalChunks"], 1), completed=done, width=40),
    )
    head.add_row("[bold]Time left[/bold]", duration(at.get("estimatedRemainingMs")))
    if job["error"] or job["waitingFor"]:
        head.add_row("[bold]Now[/bold]", escape(clean(job["error"] or job["waitingFor"])))
    listed = [{"peerId": peer_id, **person} for peer_id, person in job["participants"].items()]
    people = table_of(*participant_rows(listed, job["slots"])) if listed else Text("Nobody takes part yet.")
    return Group(head, Text(), people, Text(), table_of(*checkpoint_rows(moment.checkpoints)))


async def log(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    saved = await api.job_named(options.job)
    path = f"{JOBS}/{saved['id']}/log"
    rows = await _newest(api, path, options.limit)
    if not options.follow:
        printer.data(rows)
        _say_events(printer, rows)
        return Exit.DONE
    after = 0
    while True:
        for row in rows:
            printer.data(row)
            after = row["id"]
        _say_events(printer, rows)
        job = await api.get(f"{JOBS}/{saved['id']}")
        await asyncio.sleep(LOG_SECONDS)
        rows = await _since(api, path, after)
        if not rows and job["status"] == "completed" and not job["validating"]:
            return Exit.DONE


async def _newest(api: Api, path: str, limit: int) -> list[dict[str, Any]]:
    """The newest so many, oldest first; the server gives a page at a time."""
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        wanted = min(LARGEST_PAGE, limit - len(found))
        rows = await api.get(path, limit=wanted, before=found[0]["id"] if found else None)
        found = rows + found
        if len(rows) < wanted:
            break
    return found


async def _since(api: Api, path: str, after: int) -> list[dict[str, Any]]:
    """All that came after it, oldest first. A page holds the newest of them: older ones are asked for next."""
    found: list[dict[str, Any]] = []
    while True:
        rows = await api.get(path, after=after, limit=LARGEST_PAGE, before=found[0]["id"] if found else None)
        found = rows + found
        if len(rows) < LARGEST_PAGE:
            return found


def _say_events(printer: Printer, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        details = " ".join(f"{name}={js_json.dumps(value)}" for name, value in row.get("details", {}).items())
        printer.say(f"{row['at']}  {row['event']}  {details}".rstrip())
