"""The background half of a model package: one run of its task, fenced so that only the newest may write."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_new_file, artifact_path, artifact_reference
from checkpoints.services.uploads import BLOCK_BYTES, check_room
from jobs.models import Package, PackageFile
from jobs.services.fenced import MAX_ERROR_CHARACTERS, FencedRun, LeaseLost, lease_end, reason_of, storable
from jobs.services.lease import kept_alive
from weei_core import js_json, strict_json
from weei_core.errors import Conflict, WeeiError
from weei_core.generator.inspection.inspect import inspect
from weei_core.generator.package import MadePackage, make_package, preview
from weei_core.generator.records import SHOWN_BAD_ROWS
from weei_core.generator.request import PackageRequest
from weei_core.generator.suggestion import suggested
from weei_core.strict_json import JsonValue

logger = logging.getLogger(__name__)
State, Task, Kind = Package.State, Package.Task, PackageFile.Kind
STAGES = {
    "look": "Looking at what it would become",
    "read": "Reading the data",
    "chunks": "Writing the chunks",
    "module": "Configuring the model",
}
WORK_KEPT = timedelta(hours=6)
"""A folder of a run that was killed; a run that lives writes to its own all the time."""


def package_run(package_id: UUID) -> None:
    """Run the task that is queued, or whose worker is gone. Beside another run, or after one, it does nothing."""
    run = _take(package_id)
    if run is None:
        return
    try:
        _work(run)
    except WeeiError as error:
        run.fail(error)
    except LeaseLost:
        logger.info("package %s: stopped, or another worker goes on", package_id)


def _take(package_id: UUID) -> Run | None:
    now = timezone.now()
    due = Q(state=State.QUEUED) | Q(state=State.WORKING, lease_until__lt=now)
    taken = Package.objects.filter(due, pk=package_id).update(
        state=State.WORKING, lease_until=lease_end(now), tries=F("tries") + 1, runs=F("runs") + 1, done=0, total=0
    )
    package = Package.objects.filter(pk=package_id).select_related("source", "owner").first() if taken else None
    return Run(package, package.runs) if package else None


def _work(run: Run) -> None:
    package = run.package
    if package.tries > settings.TASK_TRIES:
        raise Conflict(
            f"This could not be done in {settings.TASK_TRIES} tries: the worker ended each time. "
            "The file may need too much memory; the server's log may say more.",
            code="worker_lost",
        )
    with kept_alive(run.renew):
        run.step("Reading the data")
        source = artifact_path(package.source_id)
        {Task.INSPECT: _inspect, Task.PREVIEW: _preview, Task.MAKE: _make}[Task(package.task)](run, source)


def _inspect(run: Run, source: Path) -> None:
    """What was found is kept even when the suggestion made of it cannot be shown; the form tells why."""
    package = run.package
    found = inspect(source, package.source_name, package.source_format, run.bytes_read)
    request = suggested(found, package.source_name.rpartition(".")[0][:120] or package.source_name[:120])
    run.write(found_text=js_json.dumps(asdict(found)), request_text=js_json.dumps(request))
    package.request_text = js_json.dumps(request)
    _preview(run, source)


def _preview(run: Run, source: Path) -> None:
    request = _request(run.package)
    run.step(STAGES["look"])
    shown = preview(PackageRequest.parse(request), source, run.stage)
    run.finish(preview_text=js_json.dumps({"request": request, "preview": asdict(shown)}))


def _make(run: Run, source: Path) -> None:
    request = _request(run.package)
    with _folder() as folder:
        made = make_package(PackageRequest.parse(request), source, folder, run.stage)
        written = [path for _, path in _files(made)]
        check_room(sum(path.stat().st_size for path in written), run.package.owner_id)
        stored = []
        for index, (kind, path) in enumerate(_files(made)):
            run.step("Storing the files", index, len(written))
            artifact, crc32 = _stored(path)
            stored.append(
                PackageFile(package=run.package, artifact=artifact, kind=kind, file_name=path.name, crc32=crc32)
            )
    about = {
        "name": request["name"],
        "request": request,
        "settings": made.settings,
        "warnings": [warning.text for warning in made.warnings],
        "records": sum(entry.example_count for entry in made.entries),
    }
    with transaction.atomic():
        now = timezone.now()
        for file in stored:
            artifact_reference(file.artifact_id, now)
        run.package.files.all().delete()
        PackageFile.objects.bulk_create(stored, batch_size=500)
        run.finish(made_text=js_json.dumps(about))


def _request(package: Package) -> dict[str, JsonValue]:
    return strict_json.as_object(strict_json.loads(package.request_text, what="request"), "request")


def _files(made: MadePackage) -> list[tuple[str, Path]]:
    """In the order of the archive."""
    validation = [(Kind.VALIDATION, made.validation)] if made.validation else []
    chunks = [(Kind.CHUNK, path) for path in made.chunks]
    return [(Kind.MODULE, made.module), (Kind.MANIFEST, made.manifest), *chunks, *validation]


def _stored(path: Path) -> tuple[Artifact, int]:
    """The file as an artifact, and its CRC."""
    digest, crc = hashlib.sha256(), 0
    with artifact_new_file() as new:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                new.file.write(block)
                digest.update(block)
                crc = zlib.crc32(block, crc)
        return new.commit(digest.hexdigest(), timezone.now()), crc


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder, gone at the end. What a killed run left is removed by `work_clean`."""
    root = _work_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as name:
        made = Path(name) / "package"
        made.mkdir()
        yield made


def _work_root() -> Path:
    root: Path = settings.VAR_DIR / "packages"
    return root


def work_clean(now: datetime) -> int:
    """Remove the folders of runs that were killed; says how many."""
    removed = 0
    for folder in _work_root().glob("*/"):
        with suppress(FileNotFoundError):
            newest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
            if newest < (now - WORK_KEPT).timestamp():
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed


def _reason(error: WeeiError) -> str:
    """The sentence; bad rows one below the other, as a list is read."""
    rows = error.extra.get("rows")
    if not isinstance(rows, list):
        return reason_of(error)
    head = error.message.partition(": ")[0]
    listed = [f"{row['row']}: {row['reason']}" for row in rows[:SHOWN_BAD_ROWS]]
    more = [f"and {len(rows) - SHOWN_BAD_ROWS} more"] if len(rows) > SHOWN_BAD_ROWS else []
    return storable("\n".join([f"{head}:", *listed, *more]))[:MAX_ERROR_CHARACTERS]


@dataclass
class Run(FencedRun):
    """One run of a task. Once another has begun, or the task was stopped, every write of it raises `LeaseLost`."""

    package: Package
    runs: int

    @property
    def row(self) -> QuerySet[Package]:
        return Package.objects.filter(pk=self.package.pk, state=State.WORKING, runs=self.runs)

    def stage(self, stage: str, done: int, total: int) -> None:
        """A step of the generator, by its own word."""
        self.step(STAGES.get(stage, stage), done, total)

    def bytes_read(self, done: int, total: int) -> None:
        self.step("Reading the data", done, total)

    def finish(self, **fields: Any) -> None:
        self.write(state=State.DONE, step="", lease_until=None, touched=timezone.now(), **fields)

    def fail(self, error: WeeiError) -> None:
        self.end(State.FAILED, _reason(error), error)
