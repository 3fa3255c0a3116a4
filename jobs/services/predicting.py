"""Asking a job's model on the server, with one of its checkpoints loaded: in the jail, like everything modules do."""

from __future__ import annotations

from collections.abc import Mapping

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from jobs.services.auxiliary import filled_slots
from jobs.services.modules import open_jail
from jobs.services.texts import info_of
from weei_core.errors import NotFound
from weei_core.jail.parent import InputFile
from weei_core.prediction import JsonObject, check_predicts, predict
from weei_core.strict_json import JsonValue


def prediction_run(job: Job, asked: Mapping[str, JsonValue], *, round_no: int | None = None) -> JsonObject:
    """The module's `output` for the input `asked`, with the checkpoint of `round_no` (the latest by default)."""
    info = info_of(job)
    check_predicts(info)
    found = Checkpoint.objects.filter(job=job)
    checkpoint = found.order_by("-round").first() if round_no is None else found.filter(round=round_no).first()
    if checkpoint is None:
        raise NotFound(f"The job has no checkpoint of round {round_no}.", field="round")
    slots = {slot.id: artifact_path(slot.sha256) for slot in filled_slots(job, checkpoint.round)}
    with open_jail(job.module_id, info.auxiliary_weights) as jail:
        return predict(jail, asked, InputFile(artifact_path(checkpoint.weights_id)), slots)
