"""The demo: the digits job, its two agents, and one line per finished round."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_put_bytes
from jobs.models import Job, JobDraft
from jobs.selectors.status import progress
from jobs.services.dealing import active_members
from jobs.services.drafts import draft_prepare
from jobs.services.lifecycle import job_start
from peers.services.invitations import invitation_create
from weei_core import js_json, strict_json
from weei_core.errors import WeeiError
from weei_site.launch import services
from weei_site.launch.machine import CannotStart

NAME = "Demo: handwritten digits"
AGENTS = ("agent-1", "agent-2")
PASSES = 6
INVITATION_USES = 50
VALIDATION_SECONDS = 15
"""So long a line waits for its round's validation."""


def owner() -> User:
    """The account that the sign-in link signs in. It has no password until its owner gives it one."""
    user, created = User.objects.get_or_create(username="owner", defaults={"is_staff": True, "is_superuser": True})
    if created:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def demo_job(user: User, say: Callable[[str], None]) -> Job:
    """The demo's job: the one of the last run, or a new one made from the shipped files."""
    job = Job.objects.filter(owner=user, name=NAME).order_by("-created").first()
    if job is None:
        say("Creating the digits job …")
        return _create(user)
    last = Checkpoint.objects.filter(job=job).order_by("-round").first()
    say(f"Going on with the digits job of the last run, which has {last.round if last else 0} rounds.")
    return job


def agents(link: str, url: str, rest_seconds: float) -> list[services.Service]:
    """The demo's agents, which reach the server at `url` and not over the network."""
    local = f"{url}/join/{link.rpartition('/join/')[2]}"
    return [services.agent(name, local, settings.VAR_DIR / "agents", rest_seconds) for name in AGENTS]


def _create(user: User) -> Job:
    folder = settings.REFERENCE_MODELS_DIR / "digits"
    preset = json.loads((folder / "preset.json").read_text())
    now = timezone.now()

    def put(name: str) -> dict[str, Any]:
        made = artifact_put_bytes((folder / name).read_bytes(), now)
        return {"fileName": Path(name).name, "bytes": made.bytes, "sha256": made.sha256}

    request = {
        "name": NAME,
        "module": put(preset["module"]),
        "manifest": put(preset["manifest"]),
        "files": [put(name) for name in preset["files"]],
        "validation": put(preset["validation"]),
        "settings": {**preset["settings"], "epochs": PASSES, "coordinatorParticipates": True},
    }
    draft = JobDraft.objects.create(owner=user, request_text=js_json.dumps(request))
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    if draft.job is None:
        raise CannotStart(f"The demo job could not be made: {draft.error}")
    return draft.job


def invitation_link(job: Job) -> str | None:
    if job.status == Job.Status.COMPLETED:
        return None
    return invitation_create(job, uses=INVITATION_USES)[1]


@dataclass
class Watcher:
    """Starts the job when its agents are ready, and tells about each new checkpoint, and each end or pause, once."""

    job: Job
    told: int = field(init=False)
    told_status: str = field(init=False)

    def __post_init__(self) -> None:
        last = Checkpoint.objects.filter(job=self.job).order_by("-round").first()
        self.told = last.round if last else 0
        self.told_status = Job.Status.RUNNING

    def look(self) -> Iterator[str]:
        try:
            self.job.refresh_from_db()
        except Job.DoesNotExist:  # Its owner deleted it.
            return
        now = timezone.now()
        if self.job.status == Job.Status.READY and active_members(self.job, now).count() >= len(AGENTS):
            with contextlib.suppress(WeeiError):  # Somebody at the page was quicker.
                job_start(self.job)
            yield "Both agents are ready: the job starts."
        waiting = [Checkpoint.Validation.DUE, Checkpoint.Validation.RUNNING]
        for made in Checkpoint.objects.filter(job=self.job, round__gt=self.told).order_by("round"):
            if made.validation in waiting and (now - made.created).total_seconds() < VALIDATION_SECONDS:
                break
            self.told = made.round
            yield self._line(made, progress(self.job, now)["roundsEstimate"])
        if self.job.status != self.told_status and self._all_told():
            self.told_status = self.job.status
            yield from self._status()

    def _status(self) -> Iterator[str]:
        if self.job.status == Job.Status.COMPLETED:
            yield "The job is completed. The page shows its checkpoints; Ctrl-C stops everything."
        elif self.job.status == Job.Status.PAUSED:
            yield f"The job is paused: {self.job.last_error or 'the page says how it goes on.'}"

    def _all_told(self) -> bool:
        return not Checkpoint.objects.filter(job=self.job, round__gt=self.told).exists()

    @staticmethod
    def _line(made: Checkpoint, estimate: int | None) -> str:
        rounds = f"Round {made.round}/~{estimate}" if estimate else f"Round {made.round}"
        parts = [rounds, *_values("", strict_json.loads(made.metrics_text), ("loss",))]
        if made.validation_text:
            found = strict_json.as_object(strict_json.loads(made.validation_text), "validation")
            parts += _values("validation ", found["metrics"], ("accuracy",))
        elif made.validation_error:
            parts.append(f"validation failed: {made.validation_error}")
        return " · ".join(parts)


def _values(prefix: str, metrics: Any, names: tuple[str, ...]) -> list[str]:
    return [f"{prefix}{name} {metrics[name]:.2f}" for name in names if name in metrics]
