"""Commands that only look."""

from __future__ import annotations

import argparse
from typing import Any

from weei_cli.api import LARGEST_PAGE, Api
from weei_cli.outcomes import Exit
from weei_cli.output import Printer, amount, duration, metrics_of, when

JOBS = "/api/v1/jobs"


async def jobs(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    """Pages are asked for until enough jobs fit; `next` is where the list goes on."""
    shown: list[dict[str, Any]] = []
    cursor: str | None = options.page
    while True:
        wanted = LARGEST_PAGE if options.all else min(LARGEST_PAGE, options.limit - len(shown))
        rows, cursor = await api.page(JOBS, limit=wanted, cursor=cursor)
        shown += [row for row in rows if options.status in (None, row["status"])]
        if cursor is None or (not options.all and len(shown) >= options.limit):
            break
    printer.data({"jobs": shown, "next": cursor})
    printer.table(
        ("Id", "Name", "Status", "Round", "Model", "Created"),
        [
            (row["id"][:8], row["name"], row["status"], row["round"], row["modelName"], when(row["createdAt"]))
            for row in shown
        ],
        empty=f"You have no job that is {options.status}."
        if options.status
        else "You have no job yet; see weei create.",
    )
    if cursor:
        printer.note(f"There are more: --page {cursor}")
    return Exit.DONE


async def show(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    job = await api.get(f"{JOBS}/{(await api.job_named(options.job))['id']}")
    newest = await api.checkpoint(job["id"], None)
    printer.data(job)
    describe(printer, job, newest)
    return Exit.DONE


def describe(printer: Printer, job: dict[str, Any], newest: dict[str, Any] | None = None) -> None:
    at = job["progress"]
    metrics = metrics_of(newest or {}, "metrics")
    held_out = metrics_of(newest or {}, "validationMetrics")
    people = job["participants"].values()
    printer.facts(
        [
            ("Job", job["name"]),
            ("Id", job["id"]),
            ("Status", job["status"] + (" (incomplete: work was left out)" if job["incomplete"] else "")),
            *([("Error", job["error"])] if job["error"] else []),
            ("Waits for", job["waitingFor"]),
            ("Model", f"{job['modelName']} ({job['modelId']} {job['info'].get('version', '')})"),
            ("Module", f"{job['module']['fileName']}, {amount(job['module']['bytes'])}, {job['module']['sha256']}"),
            ("Round", job["round"]),
            ("Passes", f"{at['datasetEpoch']} of {at['plannedEpochs']}"),
            ("Left in this pass", f"{at['remainingChunks']} of {at['totalChunks']}"),
            ("Time left", duration(at.get("estimatedRemainingMs"))),
            ("Participants", f"{sum(one['connected'] for one in people)} connected of {len(people)}"),
            *[(f"Training {name}", value) for name, value in metrics.items()],
            *[(f"Held-out {name}", value) for name, value in held_out.items()],
            ("Created", when(job["createdAt"])),
            ("Completed", when(job["completedAt"])),
        ]
    )


async def participants(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    job = await api.get(f"{JOBS}/{(await api.job_named(options.job))['id']}")
    people = [row async for row in api.pages(f"{JOBS}/{job['id']}/participants")]
    printer.data(people)
    printer.table(*participant_rows(people, job["slots"]), empty="Nobody was invited yet; see weei invite.")
    return Exit.DONE


def participant_rows(
    people: list[dict[str, Any]], slots: list[dict[str, Any]]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    working = {slot["peerId"]: slot for slot in slots}
    rows: list[tuple[object, ...]] = []
    for person in people:
        slot = working.get(person["peerId"])
        work = f"{slot['chunkId']}, {slot['status']}" if slot else None
        rows.append((person["peerId"][:8], person["label"] or None, person["state"], work, person.get("error")))
    return ("Peer", "Device", "State", "Works on", "Error"), rows


async def checkpoints(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    saved = await api.job_named(options.job)
    found: list[dict[str, Any]] = []
    cursor = None
    while len(found) < options.limit:
        wanted = min(LARGEST_PAGE, options.limit - len(found))
        rows, cursor = await api.page(f"{JOBS}/{saved['id']}/checkpoints", limit=wanted, cursor=cursor)
        found += rows
        if cursor is None:
            break
    printer.data(found)
    printer.table(*checkpoint_rows(found), empty="There is no checkpoint.")
    return Exit.DONE


def checkpoint_rows(found: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """A column for each metric that any of them has; what one lacks is shown as missing."""
    trained = list(dict.fromkeys(name for row in found for name in metrics_of(row, "metrics")))
    tested = list(dict.fromkeys(name for row in found for name in metrics_of(row, "validationMetrics")))
    rows: list[tuple[object, ...]] = [
        (
            row["artifact"]["round"],
            *(metrics_of(row, "metrics").get(name) for name in trained),
            *(metrics_of(row, "validationMetrics").get(name) for name in tested),
            amount(row["artifact"]["bytes"]),
            row["artifact"]["sha256"][:12],
            when(row["createdAt"]),
        )
        for row in found
    ]
    return ("Round", *trained, *(f"held-out {name}" for name in tested), "Weights", "SHA-256", "Made"), rows
