"""The list of jobs: found by words and status, sorted, a page at a time, with how far each is. The number of queries
does not grow with the jobs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Lower

from checkpoints.models import Checkpoint
from jobs.domain.rounds import rounds_estimate
from jobs.models import Attempt, Job, JobDraft, Requeued, Round
from jobs.selectors.kind import Kind, checks_of, kind_of
from jobs.selectors.pages import CheckpointRow, metrics_of, settings_of, storage_used
from peers.models import Membership

JOBS_PER_PAGE = 25
MAX_SEARCH = 120
DRAFTS_SHOWN_FOR = timedelta(days=1)
PACE_ROUNDS = 5
"""As many rounds as the job page's time left is told from."""
STATUSES = {"": "All", "running": "Running", "ready": "Ready to start", "paused": "Paused", "completed": "Completed"}
SORTS = {"newest": "Newest first", "oldest": "Oldest first", "name": "By name"}
_ORDER: dict[str, tuple[str | Lower, ...]] = {
    "newest": ("-created", "pk"),
    "oldest": ("created", "pk"),
    "name": (Lower("name"), "pk"),
}


@dataclass(frozen=True)
class ListQuery:
    """What is asked of the list. What an address gets wrong is left out, so that an old bookmark still shows a list."""

    text: str = ""
    status: str = ""
    sort: str = "newest"
    page: int = 1

    @classmethod
    def read(cls, sent: Mapping[str, Any]) -> ListQuery:
        def known(name: str, choices: Mapping[str, str], default: str) -> str:
            value = str(sent.get(name, ""))
            return value if value in choices else default

        page = str(sent.get("page", ""))
        return cls(
            text=str(sent.get("q", "")).replace("\0", "").strip()[:MAX_SEARCH],
            status=known("status", STATUSES, ""),
            sort=known("sort", SORTS, "newest"),
            page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1,
        )

    @property
    def filters(self) -> bool:
        return bool(self.text or self.status)

    @property
    def encoded(self) -> str:
        """As the query of an address, without what is as usual."""
        values = {"q": self.text, "status": self.status, "sort": self.sort, "page": self.page}
        usual = {"q": "", "status": "", "sort": "newest", "page": 1}
        return urlencode({name: value for name, value in values.items() if value != usual[name]})

    def at(self, page: int) -> ListQuery:
        return replace(self, page=page)


@dataclass(frozen=True)
class ListProgress:
    """`fraction` from 0 to 1; `remaining_ms` is None where nothing can be said."""

    fraction: float
    remaining_ms: int | None


@dataclass(frozen=True)
class JobRow:
    """A job in the list, with its newest checkpoint's round and metrics."""

    job: Job
    last_round: int | None
    values: list[tuple[str, float | None, float | None]]
    """(label, training value, validation value) of the newest checkpoint."""
    planned: int
    kind: Kind
    check: str
    """What the value beside training is called."""
    progress: ListProgress | None
    """None for a job that has not begun, and for one that has ended."""


def job_list_page(user: User, now: datetime, query: ListQuery) -> dict[str, Any]:
    """What the list of jobs shows."""
    marker = time.time_ns() // 1000
    drafts = drafts_of(user, now)
    own = Job.objects.filter(owner=user)
    total = own.count()
    found = _matching(own, query)
    matching = found.count() if query.filters else total
    pages = max(1, -(-matching // JOBS_PER_PAGE))
    query = query.at(min(query.page, pages))
    return {
        "rows": job_rows(found, now, query),
        "total": total,
        "matching": matching,
        "query": query,
        "pages": pages,
        "before": query.at(query.page - 1) if query.page > 1 else None,
        "after": query.at(query.page + 1) if query.page < pages else None,
        "statuses": STATUSES,
        "sorts": SORTS,
        "drafts": drafts,
        "making": any(draft.state != JobDraft.State.FAILED for draft in drafts),
        "deleted": deleted_jobs(user, now),
        "storage": storage_used(user),
        "marker": marker,
    }


def _matching(jobs: QuerySet[Job], query: ListQuery) -> QuerySet[Job]:
    """Every word is in the name of the job or of its model."""
    for word in query.text.split():
        jobs = jobs.filter(Q(name__icontains=word) | Q(model_name__icontains=word))
    return jobs.filter(status=query.status) if query.status else jobs


def job_rows(jobs: QuerySet[Job], now: datetime, query: ListQuery) -> list[JobRow]:
    """One page of these jobs, in the order that is asked for."""
    newest = Checkpoint.objects.filter(job=OuterRef("pk")).order_by("-round").values("pk")[:1]
    begin = (query.page - 1) * JOBS_PER_PAGE
    annotated = jobs.select_related("dataset").annotate(newest=Subquery(newest))
    found = list(annotated.order_by(*_ORDER[query.sort])[begin : begin + JOBS_PER_PAGE])
    light = Checkpoint.objects.only("round", "metrics_text", "validation_text")
    checkpoints = light.in_bulk([job.newest for job in found if job.newest is not None])
    progress = progress_of(found, now)
    return [_job_row(job, checkpoints.get(job.newest or 0), progress.get(job.pk)) for job in found]


def _job_row(job: Job, checkpoint: Checkpoint | None, progress: ListProgress | None) -> JobRow:
    row = CheckpointRow(checkpoint) if checkpoint else None
    values = [
        (metric.label, row.training.get(metric.id), row.validated.get(metric.id)) for metric in metrics_of(job) if row
    ]
    planned = settings_of(job).get("epochs", 0)
    last = checkpoint.round if checkpoint else None
    return JobRow(job, last, values, planned, kind_of(job), checks_of(job).noun, progress)


@dataclass
class _Counts:
    """What the progress of one job is told from."""

    requeued: int = 0
    live: int = 0
    active: int = 0
    at: Round | None = None


def progress_of(jobs: Sequence[Job], now: datetime) -> dict[UUID, ListProgress]:
    """How far the running and paused ones of these jobs are, and how long the running ones still take: the same figures
    as `jobs.selectors.status.progress` has for one job, with five queries for all of them."""
    begun = [job for job in jobs if job.status in (Job.Status.RUNNING, Job.Status.PAUSED)]
    if not begun:
        return {}
    counts = _counts(begun, now)
    paces = _paces([job for job in begun if job.status == Job.Status.RUNNING])
    return {job.pk: _progress(job, counts[job.pk], paces.get(job.pk)) for job in begun}


def _counts(jobs: Sequence[Job], now: datetime) -> dict[UUID, _Counts]:
    counts: dict[UUID, _Counts] = defaultdict(_Counts)
    ids = [job.pk for job in jobs]
    requeued = Requeued.objects.filter(job__in=ids, skipped=False).values_list("job").annotate(Count("pk"))
    for job_id, number in requeued.order_by():
        counts[job_id].requeued = number
    live = Attempt.objects.filter(slot__round__job__in=ids, state=Attempt.State.LIVE).values_list("slot__round__job")
    for job_id, number in live.annotate(Count("pk")).order_by():
        counts[job_id].live = number
    active = Membership.objects.filter(
        job__in=ids,
        current=True,
        trains=True,
        state=Membership.State.MODEL_LOADED,
        ready_for=F("job__ready_key"),
        paused_by_peer=False,
        paused_by_coordinator=False,
        peer__lease_until__gte=now,
    )
    for job_id, number in active.values_list("job").annotate(Count("pk")).order_by():
        counts[job_id].active = number
    for at in Round.objects.filter(job__in=ids, number=F("job__round_no"), number__gt=F("job__first_round")):
        counts[at.job_id].at = at
    return counts


def _paces(jobs: Sequence[Job]) -> dict[UUID, float]:
    """Seconds for each round, from the last ones of each job."""
    recent = Round.objects.filter(
        job__in=[job.pk for job in jobs], state=Round.State.DONE, number__gte=F("job__round_no") - PACE_ROUNDS
    )
    took: dict[UUID, list[float]] = defaultdict(list)
    for job_id, opened, ended in recent.order_by("-number").values_list("job", "opened_at", "done_at"):
        if ended is not None and len(took[job_id]) < PACE_ROUNDS:
            took[job_id].append((ended - opened).total_seconds())
    return {job_id: sum(seconds) / len(seconds) for job_id, seconds in took.items()}


def _progress(job: Job, counts: _Counts, pace: float | None) -> ListProgress:
    at, epochs = counts.at, settings_of(job)["epochs"]
    done = (job.round_no if at is None or at.state == Round.State.DONE else job.round_no - 1) - job.first_round
    if kind_of(job).experience or job.dataset is None:
        estimate: int | None = epochs - job.first_round
        part = done / estimate if estimate else 0.0
    else:
        total = job.dataset.count
        left = total - job.cursor + counts.requeued
        dealt = at is not None and at.state != Round.State.DONE and at.live + at.received > 0
        estimate = rounds_estimate(
            items_left=left,
            items_per_pass=total,
            passes_left=max(0, epochs - job.pass_no - 1),
            active=counts.active,
            rounds_done=done + dealt,
        )
        part = (job.pass_no + 1 - (left + counts.live) / total) / epochs if total and epochs else 0.0
    remaining = None
    if pace is not None and estimate is not None and done > 0:
        remaining = round(1000 * max(0, estimate - done) * pace)
    return ListProgress(min(1.0, max(0.0, part)), remaining)


def drafts_of(user: User, now: datetime) -> list[JobDraft]:
    """Jobs being made, and those that failed in the last day."""
    drafts = JobDraft.objects.filter(owner=user).exclude(state=JobDraft.State.DONE)
    return list(drafts.filter(created__gt=now - DRAFTS_SHOWN_FOR).order_by("-created")[:10])


def deleted_jobs(user: User, now: datetime) -> list[Job]:
    """What an undo is still promised for."""
    since = now - settings.UNDO_DELETE
    return list(Job.objects.filter(deleted_by=user, deleted_at__gt=since).order_by("-deleted_at")[:10])
