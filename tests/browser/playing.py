"""Checkpoints for a job that is to be looked at: trained here, at full speed, as two participants would have."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from jobs.services.simulating import Simulation
from tests.stack.model_jobs import ModelJob, preset_of

SEED = 5
UNTIMED = {"enabled": False, "unit": "round", "every": 1}

PUT = """
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
        ledger_text="{}", metrics_text=made["metrics"], next_unit=made["nextUnit"],
        examples_processed=made["units"], created=timezone.now(),
    )
Job.objects.filter(pk=job_id).update(round_no=rounds[-1]["round"], next_unit=rounds[-1]["nextUnit"])
"""


def train(job: ModelJob, model: str, folder: Path, *, rounds: range, units: int) -> None:
    """Train from the model's own start up to the last of `rounds`, and give the job these as its checkpoints."""
    home, preset = preset_of(model)
    settings = {**preset["settings"], "epochs": rounds[-1], "validationSchedule": UNTIMED}
    settings["experience"] = {"unitsPerAssignment": units}
    with Simulation(home / preset["module"], folder, settings=settings, job_seed=SEED, participants=2) as simulation:
        made = [one for one in simulation.run() if one.round in rounds]
    found = [
        {
            "round": one.round,
            "weights": base64.b64encode(one.weights.read_bytes()).decode(),
            "metrics": json.dumps(one.metrics),
            "nextUnit": one.round * 2 * units,
            "units": one.units,
        }
        for one in made
    ]
    job.stack.shell(PUT, job_id=job.id, rounds=found)
