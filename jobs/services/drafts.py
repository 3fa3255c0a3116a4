"""Making a job: a draft row, then one background step that checks everything and, at its end, makes the job at once.
A failure leaves no job, only the draft's reason; the collector frees the files."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from jobs.models import Job, JobDraft
from jobs.services.creating import dataset_create, datasets_clean, job_create
from jobs.services.events import enqueue
from jobs.services.fenced import FencedRun, LeaseLost, lease_end, reason_of
from jobs.services.lease import kept_alive
from jobs.services.preparing import prepare
from weei_core import js_json, strict_json
from weei_core.errors import Conflict, WeeiError

logger = logging.getLogger(__name__)
State = JobDraft.State


def draft_create(owner: Any, request: dict[str, Any]) -> JobDraft:
    """Queue the making of a job from files that were uploaded before. Raises `Invalid` for text that no database
    holds (NUL, lone surrogates)."""
    text = js_json.dumps(request)
    strict_json.loads(text, what="request")
    with transaction.atomic():
        draft = JobDraft.objects.create(owner=owner, request_text=text, step="Waiting for a worker")
        enqueue("jobs.tasks.prepare", str(draft.pk))
    return draft


def draft_retry(draft: JobDraft) -> JobDraft:
    """What a failed draft asked for, as a new one; files that were collected meanwhile are its reason then. Raises
    `Conflict` for one that did not fail."""
    if draft.state != State.FAILED:
        raise Conflict(f"Only a draft that failed can be tried again; this one is {draft.state}.", field="draft.state")
    return draft_create(draft.owner, strict_json.as_object(strict_json.loads(draft.request_text), "request"))


def draft_prepare(draft_id: UUID) -> None:
    """Run a queued draft, or one whose worker is gone. Beside another run, or after one, it does nothing."""
    run = _take(draft_id)
    if run is None:
        return
    try:
        _prepare(run)
    except WeeiError as error:
        run.fail(error)
    except LeaseLost:
        logger.warning("draft %s: another worker makes this job", draft_id)


def _take(draft_id: UUID) -> Run | None:
    """The lease of a draft that is due, by compare-and-swap; `tries` fences what a run before may still write."""
    now = timezone.now()
    row = JobDraft.objects.filter(pk=draft_id)
    due = Q(state=State.QUEUED) | Q(state=State.PREPARING, lease_until__lt=now)
    taken = row.filter(due).update(
        state=State.PREPARING, lease_until=lease_end(now), tries=F("tries") + 1, done=0, total=0
    )
    draft = row.select_related("owner").first() if taken else None
    return Run(draft, draft.tries) if draft else None


def _prepare(run: Run) -> None:
    if run.tries > settings.TASK_TRIES:
        raise Conflict(
            f"The job could not be made in {settings.TASK_TRIES} tries: the worker ended each time. "
            "The module may need too much memory; the server's log may say more.",
            code="worker_lost",
        )
    with kept_alive(run.renew):
        datasets_clean(timezone.now())
        plan = prepare(strict_json.as_object(strict_json.loads(run.draft.request_text), "request"), run.step)
        run.step("Saving")
        dataset = dataset_create(plan) if plan.info.reads_data else None
        try:
            with transaction.atomic():
                run.done(job_create(plan, run.draft.owner, dataset))
        except BaseException:
            if dataset is not None:
                dataset.delete()
            raise


@dataclass
class Run(FencedRun):
    """One try of a draft. Every write is fenced: once another try has begun it changes nothing."""

    draft: JobDraft
    tries: int

    @property
    def row(self) -> QuerySet[JobDraft]:
        return JobDraft.objects.filter(pk=self.draft.pk, state=State.PREPARING, tries=self.tries)

    def done(self, job: Job) -> None:
        """In the transaction that makes the job, so that a draft makes one job however often it is run."""
        self.write(state=State.DONE, job=job, step="Done", lease_until=None)

    def fail(self, error: WeeiError) -> None:
        self.end(State.FAILED, reason_of(error), error)


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
    return str(strict_json.as_object(strict_json.loads(draft.request_text), "request").get("name") or "New job")
