"""Making a model package: a row, and one background task at a time that looks at its file, shows what it would become,
or makes it. A failure leaves what was there before; nothing half-made is ever referred to.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from checkpoints.selectors.storage import held_hashes
from checkpoints.services.artifacts import artifact_reference
from jobs.models import JobDraft, Package, PackageFile
from jobs.services.drafts import draft_create
from jobs.services.events import enqueue
from weei_core import js_json, strict_json
from weei_core.errors import Conflict, Invalid
from weei_core.generator.request import FORMATS, PackageRequest
from weei_core.schema_types import Exact, FileName, Sha256, validate
from weei_core.strict_json import JsonValue, as_choice

logger = logging.getLogger(__name__)
State, Task, Kind = Package.State, Package.Task, PackageFile.Kind
AT_WORK = (State.QUEUED, State.WORKING)


class _Source(Exact):
    file_name: FileName
    sha256: Sha256
    format: str = ""


def package_create(owner: Any, source: dict[str, object]) -> Package:
    """Begin with a file that was uploaded before; it is looked at first. `format` is "" to tell it from the file.

    Raises `Invalid` ("not_uploaded") for a file that is not this person's.
    """
    file = validate(_Source, source, "")
    if file.format:
        as_choice(file.format, "format", FORMATS)
    if not held_hashes(owner.pk, [file.sha256]):
        raise Invalid(f"Not uploaded yet: {file.file_name}.", field="file", code="not_uploaded")
    with transaction.atomic():
        now = timezone.now()
        artifact_reference(file.sha256, now)
        package = Package.objects.create(
            owner=owner,
            source_id=file.sha256,
            source_name=file.file_name,
            source_format=file.format,
            step="Waiting for a worker",
            touched=now,
        )
        enqueue("jobs.tasks.package", str(package.pk))
    return package


def package_inspect(package: Package) -> None:
    """Look at the file again, after a failure or a stop."""
    _ask(package, Task.INSPECT)


def package_preview(package: Package, request: dict[str, JsonValue]) -> None:
    """Show what the request would make. Raises `Invalid` by field, `Conflict` while something else is at work."""
    _ask(package, Task.PREVIEW, _checked(request))


def package_make(package: Package, request: dict[str, JsonValue]) -> None:
    """Make the files. What was made before stays until they are there. Raises as `package_preview`."""
    _ask(package, Task.MAKE, _checked(request))


def _checked(request: dict[str, JsonValue]) -> str:
    PackageRequest.parse(request)
    text = js_json.dumps(request)
    strict_json.loads(text, what="request")
    return text


def _ask(package: Package, task: str, request_text: str | None = None) -> None:
    changes: dict[str, Any] = {
        "task": task,
        "state": State.QUEUED,
        "step": "Waiting for a worker",
        "touched": timezone.now(),
    }
    cleared = {"error": "", "error_field": "", "error_code": "", "done": 0, "total": 0, "tries": 0, "lease_until": None}
    if request_text is not None:
        changes["request_text"] = request_text
    with transaction.atomic():
        idle = Package.objects.filter(pk=package.pk).exclude(state__in=AT_WORK)
        if idle.update(**changes, **cleared) != 1:
            raise Conflict("This package is being worked on. Wait until that is done, or stop it.")
        enqueue("jobs.tasks.package", str(package.pk))


def package_cancel(package: Package) -> None:
    """Stop what is at work: its next step finds that it must change nothing any more. Said too late it does nothing."""
    at_work = Package.objects.filter(pk=package.pk, state__in=AT_WORK)
    at_work.update(state=State.CANCELLED, step="", lease_until=None, touched=timezone.now())


def package_delete(package: Package) -> None:
    """The collector frees the files that nothing else uses. What is at work for it ends at its next step."""
    package.delete()


def package_start_job(package: Package) -> JobDraft:
    """Begin making a job from the files, which are not uploaded again. Raises `Conflict` while there are none."""
    files = list(package.files.select_related("artifact"))
    if not files:
        raise Conflict("There are no files of this package yet. Make it first.")
    made = strict_json.as_object(strict_json.loads(package.made_text), "made")

    def named(kind: str) -> list[dict[str, object]]:
        return [
            {"fileName": file.file_name, "bytes": file.artifact.bytes, "sha256": file.artifact_id}
            for file in files
            if file.kind == kind
        ]

    request: dict[str, Any] = {
        "name": made["name"],
        "module": named(Kind.MODULE)[0],
        "manifest": named(Kind.MANIFEST)[0],
        "files": named(Kind.CHUNK),
        "settings": made["settings"],
    }
    if validation := named(Kind.VALIDATION):
        request["validation"] = validation[0]
    with transaction.atomic():
        Package.objects.filter(pk=package.pk).update(touched=timezone.now())
        return draft_create(package.owner, request)


def packages_due(now: datetime) -> list[UUID]:
    """What nobody is known to be working at."""
    due = Q(state=State.QUEUED) | Q(state=State.WORKING, lease_until__lt=now)
    return list(Package.objects.filter(due).values_list("pk", flat=True)[:50])


def packages_renew(now: datetime) -> None:
    """After a change of the clock no lease may end later than a new one would."""
    latest = now + timedelta(seconds=settings.MERGE_LEASE_SECONDS)
    Package.objects.filter(state=State.WORKING, lease_until__gt=latest).update(lease_until=latest)


def packages_collect(now: datetime) -> int:
    """Remove what nobody has asked anything of for `PACKAGE_DAYS`."""
    old = Package.objects.filter(touched__lt=now - settings.PACKAGE_DAYS).exclude(state__in=AT_WORK)
    count = 0
    for package in old[:100]:
        package.delete()
        count += 1
    return count
