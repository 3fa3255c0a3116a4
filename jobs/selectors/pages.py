"""What the pages show, read with a fixed number of queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Max, Sum

from checkpoints.models import Artifact, Checkpoint
from jobs.domain.debug_log import PHASE_FINISHED
from jobs.models import Chunk, Job, JobEvent, Requeued
from jobs.selectors.kind import Checks, checks_of, kind_of
from jobs.selectors.units import auxiliary_rows
from peers.models import Invitation
from weei_core import js_json
from weei_core.errors import NotFound

CHECKPOINTS_PER_PAGE = 50
NEWEST_CHECKPOINTS = 8
EVENTS_SHOWN = 30


@dataclass(frozen=True)
class Metric:
    id: str
    label: str
    direction: str


def model_info(job: Job) -> dict[str, Any]:
    """ModelInfo as stored: it was checked when the job was made."""
    info: dict[str, Any] = json.loads(job.model_info_text)
    return info


def metrics_of(job: Job) -> list[Metric]:
    """The model's metrics, in its order."""
    return [Metric(str(m["id"]), str(m["label"]), str(m["direction"])) for m in model_info(job).get("metrics", [])]


def settings_of(job: Job) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(job.settings_text)
    return settings


def storage_used(user: User) -> int:
    """Bytes of the files of this person's jobs; a file that two jobs share counts once."""
    used = Artifact.objects.filter(pk__in=Artifact.objects.filter(uses__job__owner=user)).aggregate(total=Sum("bytes"))
    return used["total"] or 0


class CheckpointRow:
    """A checkpoint with its texts read."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    @cached_property
    def training(self) -> dict[str, float]:
        values: dict[str, float] = json.loads(self.checkpoint.metrics_text)
        return values

    @cached_property
    def validated(self) -> dict[str, float]:
        text = self.checkpoint.validation_text
        values: dict[str, float] = json.loads(text)["metrics"] if text else {}
        return values


@dataclass(frozen=True)
class CheckpointPage:
    """Newest first. `older` is the round to ask for next with `before`, or None."""

    rows: Sequence[CheckpointRow]
    metrics: Sequence[Metric]
    checks: Checks
    older: int | None
    newest: bool


def checkpoint_page(job: Job, before: int | None = None, limit: int = CHECKPOINTS_PER_PAGE) -> CheckpointPage:
    found = (
        Checkpoint.objects.filter(job=job)
        .select_related("weights", "state")
        .defer("progress_text", "settings_text", "ledger_text")
    )
    if before is not None:
        found = found.filter(round__lt=before)
    rows = [CheckpointRow(checkpoint) for checkpoint in found.order_by("-round")[: limit + 1]]
    shown = rows[:limit]
    older = shown[-1].checkpoint.round if len(rows) > len(shown) else None
    return CheckpointPage(shown, metrics_of(job), checks_of(job), older, before is None)


@dataclass(frozen=True)
class InvitationRow:
    invitation: Invitation
    state: str
    """"active", "used", "expired" or "revoked"."""


def invitation_rows(job: Job, now: datetime) -> list[InvitationRow]:
    """Newest first."""
    found = Invitation.objects.filter(job=job).order_by("-created")
    return [InvitationRow(invitation, _invitation_state(invitation, now)) for invitation in found]


def _invitation_state(invitation: Invitation, now: datetime) -> str:
    if invitation.revoked_at is not None:
        return "revoked"
    if invitation.uses >= invitation.max_uses:
        return "used"
    return "expired" if invitation.expires_at <= now else "active"


@dataclass(frozen=True)
class HeldItem:
    """An item that failed too often and waits for the coordinator."""

    id: int
    name: str
    errors: int
    reason: str


def held_items(job: Job) -> list[HeldItem]:
    held = list(Requeued.objects.filter(job=job, held=True))
    indexes = {item.chunk_index for item in held}
    names = dict(
        Chunk.objects.filter(dataset__jobs=job, index__in=indexes).values_list("index", "chunk_id") if indexes else ()
    )
    return [HeldItem(item.pk, _item_name(item, names), item.errors, item.last_error) for item in held]


def _item_name(item: Requeued, names: dict[int, str]) -> str:
    name = names.get(item.chunk_index, f"item {item.position}")
    return name if item.whole else f"{name}@{item.record_start}+{item.record_count}"


@dataclass(frozen=True)
class EventRow:
    event: JobEvent
    facts: list[tuple[str, Any]]
    """Pairs, because a template would take a fact that is named "items" for the method of a dictionary."""


def recent_events(job: Job) -> list[EventRow]:
    """Newest first. How long phases took is for the debug log."""
    found = JobEvent.objects.filter(job=job).exclude(event=PHASE_FINISHED).order_by("-id")[:EVENTS_SHOWN]
    return [EventRow(event, list(json.loads(event.details_text).items())) for event in found]


def checkpoint_of(job: Job, round_no: int) -> Checkpoint:
    """`job` is one that this person may see."""
    checkpoint = Checkpoint.objects.select_related("job", "weights", "state").filter(job=job, round=round_no).first()
    if checkpoint is None:
        raise NotFound(f"This job has no checkpoint of round {round_no}.", field="round")
    return checkpoint


def last_round(job: Job) -> int | None:
    """Round of the newest checkpoint."""
    newest: int | None = Checkpoint.objects.filter(job=job).aggregate(newest=Max("round"))["newest"]
    return newest


def continue_page(source: Checkpoint) -> dict[str, Any]:
    """What the continue page knows when it begins with a checkpoint of this server."""
    job = source.job
    kind, settings = kind_of(job), settings_of(job)
    if kind.experience and settings["epochs"] <= source.round:
        # The last round of the old job is behind the new one: as many rounds again.
        settings["epochs"] += source.round - job.first_round
    return {
        "source": source,
        "kind": kind,
        "own_data": not kind.reads_data,
        "settings": settings,
        "from_round": source.round,
        "work_source": js_json.dumps(model_info(job)["workSource"]) if kind.experience else "",
        "auxiliary_files": [slot for slot in auxiliary_rows(job) if slot.sha256],
    }


@dataclass(frozen=True)
class ProgressView:
    """The job's progress, and how full its bar is: 0 to 1, by passes."""

    passes_done: int
    planned_passes: int
    remaining_items: int
    total_items: int
    rounds_done: int
    rounds_estimate: int | None
    remaining_ms: float | None
    fraction: float


def progress_view(progress: dict[str, Any]) -> ProgressView:
    """`progress` is that of `jobs.selectors.status`."""
    total = progress["totalItems"]
    in_pass = 1 - progress["remainingItems"] / total if total else 0.0
    planned = progress["plannedPasses"]
    done = progress["passesDone"]
    whole = done if done >= planned else done + in_pass
    return ProgressView(
        passes_done=done,
        planned_passes=planned,
        remaining_items=progress["remainingItems"],
        total_items=total,
        rounds_done=progress["roundsDone"],
        rounds_estimate=progress.get("roundsEstimate"),
        remaining_ms=progress.get("remainingMs"),
        fraction=min(1.0, max(0.0, whole / planned)) if planned else 0.0,
    )
