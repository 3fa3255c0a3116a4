"""Making a job: a draft row, then one background step that checks everything and, at its end, makes the job at once.
A failure leaves no job, only the draft's reason; the collector frees the files."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from jobs.models import JobDraft
from jobs.services.events import enqueue
from jobs.services.lease import kept_alive
from jobs.services.preparing import prepare
from weei_core import js_json, strict_json
from weei_core.errors import Conflict, WeeiError

State = JobDraft.State


def draft_create(owner: Any, request: dict[str, Any]) -> JobDraft:
    """Queue the making of a job from files that were uploaded before."""
    with transaction.atomic():
        draft = JobDraft.objects.create(owner=owner, request_text=js_json.dumps(request), step="Waiting for a worker")
        enqueue("jobs.tasks.prepare", str(draft.pk))
    return draft


def _lease() -> datetime:
    return timezone.now() + timedelta(seconds=settings.MERGE_LEASE_SECONDS)


def draft_prepare(draft_id: UUID) -> None:
    """Run a queued draft, or one whose worker is gone (3 times at most)."""
    now = timezone.now()
    row = JobDraft.objects.filter(pk=draft_id)
    taken = row.filter(Q(state=State.QUEUED) | Q(state=State.PREPARING, lease_until__lt=now)).update(
        state=State.PREPARING, lease_until=_lease(), tries=F("tries") + 1, done=0, total=0
    )
    if not taken:
        return
    draft = row.get()
    try:
        if draft.tries > settings.TASK_TRIES:
            raise Conflict("The worker died three times while it made this job; the module may need too much memory.")
        with kept_alive(lambda: row.update(lease_until=_lease())):
            job = prepare(draft, Step(draft))
    except WeeiError as error:
        _failed(row, error)
        return
    row.filter(state=State.PREPARING).update(state=State.DONE, job=job, step="Done", lease_until=None)


def _failed(row: Any, error: WeeiError) -> None:
    files = error.extra.get("files")
    listed = "\n".join(str(file) for file in files) if isinstance(files, list) else ""
    row.filter(state=State.PREPARING).update(
        state=State.FAILED,
        error=f"{error.message}\n{listed}".strip()[:8000],
        error_field=(error.field or "")[:255],
        error_code=error.code,
        lease_until=None,
    )


class Step:
    """Progress of a draft, written at most a few times a second."""

    def __init__(self, draft: JobDraft) -> None:
        self._row = JobDraft.objects.filter(pk=draft.pk)
        self._written = 0.0

    def __call__(self, step: str, done: int = 0, total: int = 0) -> None:
        now = timezone.now().timestamp()
        if done not in (0, total) and now - self._written < 0.3:
            return
        self._written = now
        self._row.update(step=step, done=done, total=total, lease_until=_lease())


def draft_json(draft: JobDraft) -> dict[str, object]:
    return {
        "draftId": str(draft.pk),
        "state": draft.state,
        "step": draft.step,
        "done": draft.done,
        "total": draft.total,
        "error": draft.error or None,
        "code": draft.error_code or None,
        "field": draft.error_field or None,
        "jobId": str(draft.job_id) if draft.job_id else None,
    }


def draft_name(draft: JobDraft) -> str:
    value = strict_json.loads(draft.request_text)
    return str(value.get("name") or "New job") if isinstance(value, dict) else "New job"
