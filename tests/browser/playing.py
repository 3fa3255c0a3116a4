"""Jobs whose model is watched and played: made by the server, and trained here, at full speed, before anybody looks."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from jobs.services.simulating import Simulation
from tests.stack.stack import ROOT, Stack

SEED = 5

CREATE = """
import json
from pathlib import Path
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from checkpoints.services.artifacts import artifact_put_bytes
from jobs.services.drafts import draft_create

folder = settings.REFERENCE_MODELS_DIR / model
preset = json.loads((folder / "preset.json").read_text())

def put(name):
    made = artifact_put_bytes((folder / name).read_bytes(), timezone.now())
    return {"fileName": Path(name).name, "bytes": made.bytes, "sha256": made.sha256}

request = {
    "name": preset["name"], "module": put(preset["module"]), "manifest": put(preset["manifest"]),
    "files": [put(name) for name in preset["files"]],
    "settings": {**preset["settings"], "coordinatorParticipates": False, "seed": seed},
}
answer = str(draft_create(User.objects.get_or_create(username=owner)[0], request).pk)
"""
DRAFT = """
from jobs.models import JobDraft
draft = JobDraft.objects.get(pk=draft_id)
answer = {"state": draft.state, "error": draft.error, "job": draft.job_id and str(draft.job_id)}
"""
CHECKPOINTS = """
import base64
from django.utils import timezone
from checkpoints.models import Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_put_bytes, job_artifact_add
from jobs.models import Job
job = Job.objects.get(pk=job_id)
for made in rounds:
    weights = artifact_put_bytes(base64.b64decode(made["weights"]), timezone.now())
    job_artifact_add(job, weights.sha256, JobArtifact.Kind.WEIGHTS, "")
    Checkpoint.objects.create(
        job=job, round=made["round"], weights=weights, progress_text="{}", settings_text=job.settings_text,
        ledger_text="{}", metrics_text=made["metrics"], next_unit=made["nextUnit"], created=timezone.now(),
    )
Job.objects.filter(pk=job_id).update(round_no=rounds[-1]["round"], next_unit=rounds[-1]["nextUnit"])
"""


def make_job(stack: Stack, model: str, owner: str) -> str:
    """The job of a shipped model, with its first checkpoint. Returns its id."""
    draft = stack.shell(CREATE, model=model, owner=owner, seed=str(SEED))
    found: dict[str, Any] = {}

    def made() -> bool:
        found.update(stack.shell(DRAFT, draft_id=draft))
        assert found["state"] != "failed", found
        return found["state"] == "done"

    stack.wait(made, 60, "the job to be made")
    return str(found["job"])


def train(stack: Stack, job_id: str, model: str, folder: Path, *, epochs: int, keep: range, units: int) -> None:
    """Give the job the checkpoints that two participants would have made, those of the rounds to keep."""
    preset = json.loads((ROOT / f"reference_models/{model}/preset.json").read_text())
    settings = {**preset["settings"], "epochs": epochs, "experience": {"unitsPerAssignment": units}}
    settings["validationSchedule"] = {"enabled": False, "unit": "round", "every": 1}
    module = ROOT / f"reference_models/{model}" / preset["module"]
    with Simulation(module, folder, settings=settings, job_seed=SEED, participants=2) as simulation:
        rounds = [
            {
                "round": made.round,
                "weights": base64.b64encode(made.weights.read_bytes()).decode(),
                "metrics": json.dumps(made.metrics),
                "nextUnit": made.round * 2 * units,
            }
            for made in simulation.run()
            if made.round in keep
        ]
    stack.shell(CHECKPOINTS, job_id=job_id, rounds=rounds)
