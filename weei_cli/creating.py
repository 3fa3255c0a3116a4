"""`weei create`: from files to a job. Only bytes that the server lacks are sent."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import Progress

from weei_cli import inviting, running
from weei_cli.api import Api
from weei_cli.looking import JOBS, describe
from weei_cli.outcomes import Exit, Failed
from weei_cli.output import Printer, amount, clean
from weei_cli.selecting import Chosen, Selection, select
from weei_cli.settings import changes, settings_file
from weei_client.tus import Upload

DRAFT_SECONDS = 0.5
HELD_AT_ONCE = 10_000
INVITED = 10


async def create(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    with tempfile.TemporaryDirectory(prefix="weei-") as scratch:
        selection = select(options, Path(scratch))
        settings = selection.settings
        if options.settings is not None:
            settings |= settings_file(options.settings)
        changes(options.set, settings)
        # A command line is no device that could train.
        settings.setdefault("coordinatorParticipates", False)
        with printer.progress() as progress:
            await _hash(selection, progress)
            selection.check()
            sent = await _send_missing(api, selection, progress)
            draft = await api.call("POST", JOBS, _request(selection, settings, options))
            job_id = await _made(api, draft, progress)
    job = await api.get(f"{JOBS}/{job_id}")
    expires = inviting.expiry(None, datetime.now(UTC))
    link = await inviting.make(api, job_id, INVITED, expires) if options.invite else None
    printer.data({**job, **({"invitation": link} if link else {}), "sentBytes": sent})
    describe(printer, job)
    if link:
        inviting.show(printer, link)
    if options.start:
        # After the link was printed, without which nobody can come.
        await running.start_when_somebody_trains(api, printer, job)
    return Exit.DONE


async def _hash(selection: Selection, progress: Progress) -> None:
    task = progress.add_task("Hashing", total=sum(file.bytes for file in selection.all()), note="")
    for file in selection.all():
        file.sha256 = await asyncio.to_thread(_sha256, file.path)
        progress.advance(task, file.bytes)
    progress.remove_task(task)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _send_missing(api: Api, selection: Selection, progress: Progress) -> int:
    """How many bytes were sent."""
    by_hash = {file.sha256: file for file in selection.all()}
    hashes = sorted(by_hash)
    held: set[str] = set()
    for start in range(0, len(hashes), HELD_AT_ONCE):
        answer = await api.call("POST", "/api/v1/artifacts/held", {"hashes": hashes[start : start + HELD_AT_ONCE]})
        held |= set(answer["held"])
    missing = [file for sha256, file in by_hash.items() if sha256 not in held]
    total = sum(file.bytes for file in missing)
    task = progress.add_task("Sending", total=total, note="")
    before = 0
    for file in missing:
        progress.update(task, note=escape(clean(f"{file.name}, {amount(file.bytes)}")))
        await _send(api, file, lambda offset, before=before: progress.update(task, completed=before + offset))
        before += file.bytes
    progress.remove_task(task)
    return total


async def _send(api: Api, file: Chosen, on_offset: Any) -> None:
    labels = {"kind": "file", "filename": file.name, "sha256": file.sha256}
    await api.wait_for(Upload(api.server, file.path, file.bytes, labels, on_offset).send())


def _request(selection: Selection, settings: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": options.name or selection.name,
        "module": selection.module.to_json(),
        "manifest": selection.manifest.to_json(),
        "files": [file.to_json() for file in selection.files],
        "validation": selection.validation and selection.validation.to_json(),
        "executionFiles": [file.to_json() for file in selection.execution],
        "settings": settings,
        "checkpoint": selection.checkpoint and selection.checkpoint.to_json(),
        "datasetMode": options.dataset_mode,
    }
    return {name: value for name, value in body.items() if value is not None}


async def _made(api: Api, draft: dict[str, Any], progress: Progress) -> str:
    """The job's id, once the server has checked everything."""
    task = progress.add_task("Checking", total=None, note="")
    while draft["state"] in ("queued", "preparing"):
        progress.update(
            task, description=escape(clean(draft["step"])), completed=draft["done"], total=draft["total"] or None
        )
        await asyncio.sleep(DRAFT_SECONDS)
        draft = await api.get(f"/api/v1/drafts/{draft['draftId']}")
    progress.remove_task(task)
    if draft["state"] == "failed":
        field = {"field": draft["field"]} if draft["field"] else {}
        raise Failed(draft["error"], code=draft["code"] or "error", **field)
    job_id: str = draft["jobId"]
    return job_id
