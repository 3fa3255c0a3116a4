"""Jobs of the reference models and their agents, on a running stack."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.stack.stack import ROOT, Stack

CREATE = """
from pathlib import Path
from django.contrib.auth.models import User
from django.utils import timezone
from checkpoints.services.artifacts import artifact_put_bytes
from jobs.services.drafts import draft_create

def put(name):
    made = artifact_put_bytes(Path(folder, name).read_bytes(), timezone.now())
    return {"fileName": Path(name).name, "bytes": made.bytes, "sha256": made.sha256}

request = {
    "name": preset["name"], "module": put(preset["module"]), "manifest": put(preset["manifest"]),
    "files": [put(name) for name in preset["files"]],
    "settings": {**preset["settings"], "coordinatorParticipates": False, **chosen},
}
if preset.get("validation"):
    request["validation"] = put(preset["validation"])
answer = str(draft_create(User.objects.get_or_create(username="alice")[0], request).pk)
"""

DRAFT = """
from jobs.models import JobDraft
from peers.services.invitations import invitation_create
draft = JobDraft.objects.get(pk=draft_id)
answer = {"state": draft.state, "error": draft.error}
if draft.job:
    answer |= {"job": str(draft.job_id), "link": invitation_create(draft.job, uses=20)[1]}
"""

ACTIVE = """
from jobs.models import Job
from jobs.services.dealing import active_members
from django.utils import timezone
answer = active_members(Job.objects.get(pk=job_id), timezone.now()).count()
"""

START = """
from jobs.models import Job
from jobs.services.lifecycle import job_start
from jobs.services.dealing import active_members
from django.utils import timezone
job = Job.objects.get(pk=job_id)
answer = active_members(job, timezone.now()).count()
if answer >= wanted:
    job_start(job)
"""

FACTS = """
from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Slot
from jobs.services.settling import slot_item_id
job = Job.objects.get(pk=job_id)
made = list(Checkpoint.objects.filter(job=job).order_by("round"))
answer = {
    "status": job.status, "error": job.last_error, "rounds": [c.round for c in made],
    "sha256": [c.weights_id for c in made], "validation": [c.validation_text for c in made],
    "attempts": sorted(set(Attempt.objects.filter(slot__round__job=job).values_list("state", flat=True))),
    "expired": Attempt.objects.filter(slot__round__job=job, state="expired").count(),
    "reasons": list(Attempt.objects.filter(slot__round__job=job).exclude(reason="").values_list("reason", flat=True)),
    "trained": [
        [s.round.pass_no, slot_item_id(s)]
        for s in Slot.objects.filter(round__job=job, status="received").select_related("round", "chunk")
    ],
}
"""


STATUS = """
from checkpoints.models import Checkpoint
from jobs.models import Job, Round
job = Job.objects.get(pk=job_id)
at = Round.objects.filter(job=job, number=job.round_no).first()
answer = {
    "status": job.status, "error": job.last_error, "checkpoints": Checkpoint.objects.filter(job=job).count() - 1,
    "round": at and {"number": at.number, "state": at.state, "live": at.live, "received": at.received},
    "validating": Checkpoint.objects.filter(job=job, validation__in=["due", "running"]).count(),
}
"""


class ModelJob:
    """A job of `preset`, whose files lie in `folder`, made through the `slow` worker."""

    def __init__(self, stack: Stack, folder: Path, preset: dict[str, Any], **chosen: Any) -> None:
        self.stack = stack
        draft = stack.shell(CREATE, folder=str(folder), preset=preset, chosen=chosen)
        found: dict[str, Any] = {}

        def made() -> bool:
            found.update(stack.shell(DRAFT, draft_id=draft))
            assert found["state"] != "failed", found
            return found["state"] == "done"

        stack.wait(made, 60, "the job to be made")
        self.id, self.link = found["job"], found["link"]

    def link_at(self, other: Stack) -> str:
        """The invitation as it looks at another web process of the same installation."""
        return self.link.replace(self.stack.url, other.url)

    def wait_for_participants(self, wanted: int) -> None:
        """Until so many are ready."""
        self.stack.wait(lambda: self.stack.shell(ACTIVE, job_id=self.id) >= wanted, 60, f"{wanted} ready participants")

    def start(self, wanted: int) -> None:
        """Start when so many participants are ready."""
        self.stack.wait(
            lambda: self.stack.shell(START, job_id=self.id, wanted=wanted) >= wanted, 60, f"{wanted} ready participants"
        )

    def status(self) -> dict[str, Any]:
        """Cheap enough to be asked often."""
        return self.stack.shell(STATUS, job_id=self.id)

    def facts(self) -> dict[str, Any]:
        return self.stack.shell(FACTS, job_id=self.id)

    def wait_for_round(self, number: int, seconds: float) -> None:
        """Until that round's checkpoint is there."""
        self.stack.wait(lambda: self._going()["checkpoints"] >= number, seconds, f"the checkpoint of round {number}")

    def wait_until_completed(self, seconds: float) -> dict[str, Any]:
        """Until it is completed and every validation is done; the facts."""

        def completed() -> bool:
            found = self._going()
            return found["status"] == "completed" and not found["validating"]

        self.stack.wait(completed, seconds, "the job to be completed")
        return self.facts()

    def _going(self) -> dict[str, Any]:
        found = self.status()
        assert found["status"] in ("running", "completed"), found
        return found


def preset_of(model: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a shipped model, and its preset."""
    folder = ROOT / "reference_models" / model
    return folder, json.loads((folder / "preset.json").read_text())


class DigitsJob(ModelJob):
    def __init__(self, stack: Stack, **chosen: Any) -> None:
        super().__init__(stack, *preset_of("digits"), **chosen)


class CartPoleJob(ModelJob):
    def __init__(self, stack: Stack, **chosen: Any) -> None:
        super().__init__(stack, *preset_of("cartpole"), **chosen)


class Agent:
    """`weei-agent` as its user would start it; ends with the block."""

    def __init__(self, stack: Stack, link: str, name: str, *options: str) -> None:
        self._output = (stack.folder / f"{name}.jsonl").open("a+")
        command = [sys.executable, "-m", "weei_agent", link, "--yes", "--json", "--name", name]
        command += ["--state-dir", str(stack.folder / "agents"), "--workers", "1", *options]
        self.process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT, cwd=ROOT)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *args: object) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._output.close()

    def events(self) -> list[dict[str, Any]]:
        self._output.seek(0)
        return [json.loads(line) for line in self._output.read().splitlines() if line.startswith("{")]
