"""Commands that change how a job goes on."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from weei_cli.api import Api
from weei_cli.looking import JOBS
from weei_cli.outcomes import Exit, Failed, usage
from weei_cli.output import Printer, metrics_of
from weei_cli.settings import changes
from weei_core import js_json

VALIDATION_SECONDS = 0.5
START_SECONDS = 1.0
SAID = {"start": "runs", "pause": "is paused", "resume": "runs again", "finish": "is finishing"}


async def start(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    if not options.wait:
        return await _act(api, printer, options, "start")
    saved = await api.job_named(options.job)
    printer.data(await start_when_somebody_trains(api, printer, saved))
    return Exit.DONE


async def start_when_somebody_trains(api: Api, printer: Printer, saved: dict[str, Any]) -> dict[str, Any]:
    """The running job. A job that nobody takes part in does not start."""
    told = False
    while True:
        try:
            job: dict[str, Any] = await api.call("POST", f"{JOBS}/{saved['id']}/start", {})
        except Failed as failed:
            if failed.problem["code"] != "nobody_trains":
                raise
            if not told:
                printer.note("Nobody takes part yet; the job starts when the first participant is ready.")
                told = True
            await asyncio.sleep(START_SECONDS)
            continue
        printer.say(f"“{job['name']}” runs.")
        return job


async def pause(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    return await _act(api, printer, options, "pause")


async def resume(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    return await _act(api, printer, options, "resume")


async def finish(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    return await _act(api, printer, options, "finish")


async def _act(api: Api, printer: Printer, options: argparse.Namespace, action: str) -> Exit:
    saved = await api.job_named(options.job)
    job = await api.call("POST", f"{JOBS}/{saved['id']}/{action}", {})
    printer.data(job)
    done = "is completed" if job["status"] == "completed" else SAID[action]
    printer.say(
        f"“{job['name']}” {done}. It waits for: {job['waitingFor']}"
        if job["waitingFor"]
        else f"“{job['name']}” {done}."
    )
    return Exit.DONE


async def delete(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    saved = await api.job_named(options.job)
    if not options.yes:
        _confirm(saved)
    await api.delete(f"{JOBS}/{saved['id']}")
    printer.data({"deleted": saved["id"], "name": saved["name"]})
    printer.say(f"“{saved['name']}” is deleted.")
    return Exit.DONE


def _confirm(saved: dict[str, Any]) -> None:
    if not sys.stdin.isatty():
        raise usage("Nobody can be asked here; add --yes to delete the job without a question.")
    print("Its checkpoints, metrics and links are removed with it.", file=sys.stderr)
    print(f"Type the job's name, {saved['name']}, to delete it: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != saved["name"].strip():
        raise Failed("This is not the name of the job. Nothing was deleted.", code="not_confirmed")


async def settings(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    """Without --set they are only shown."""
    patch = changes(options.set)
    saved = await api.job_named(options.job)
    path = f"{JOBS}/{saved['id']}"
    job = await (api.call("PATCH", f"{path}/settings", patch) if patch else api.get(path))
    printer.data(job["settings"])
    printer.facts((name, js_json.dumps(value)) for name, value in job["settings"].items())
    return Exit.DONE


async def validate(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    saved = await api.job_named(options.job)
    body = {} if options.round is None else {"round": options.round}
    found = await api.call("POST", f"{JOBS}/{saved['id']}/validation", body)
    number = found["artifact"]["round"]
    while not options.no_wait and found["validation"] in ("due", "running"):
        await asyncio.sleep(VALIDATION_SECONDS)
        found = await api.checkpoint(saved["id"], number)
    if found["validation"] == "failed":
        raise Failed(
            f"The validation of round {number} failed: {found.get('validationError')}", code="validation_failed"
        )
    printer.data(found)
    metrics = metrics_of(found, "validationMetrics")
    waits = found["validation"] in ("due", "running")
    printer.say(f"The validation of round {number} {'is asked for' if waits else 'is done'}.")
    printer.facts(metrics.items())
    return Exit.DONE
