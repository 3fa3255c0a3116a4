"""What a page needs to ask a trained model: whether it answers, what it is called to do so, and the files of a
checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from checkpoints.models import Checkpoint
from jobs.models import Job
from jobs.selectors.pages import CheckpointRow, last_round, metrics_of
from jobs.services.auxiliary import filled_slots
from jobs.services.texts import info_of
from weei_core import js_json


@dataclass(frozen=True)
class Playing:
    """`view` is the picture that a page draws of the answers; "" for a model that only has inputs and outputs."""

    view: str
    title: str
    verb: str
    about: str


_VIEWS = (
    Playing(
        "cartpole", "Watch it", "Watch", "Let the policy of any checkpoint balance the pole, here in this browser."
    ),
    Playing("connect-four", "Play against it", "Play", "A game against any checkpoint, here in this browser."),
)
_FORM = Playing("", "Try it", "Try", "Give any checkpoint an input and see what it answers, here in this browser.")


def playing_of(job: Job) -> Playing | None:
    """None for a model that does not answer single questions."""
    info = info_of(job)
    if not info.capabilities.inference:
        return None
    view = (info.inference or {}).get("view")
    return next((playing for playing in _VIEWS if playing.view == view), _FORM)


def model_facts(job: Job) -> str:
    """JSON for the script of the page: the module, and the form of its questions and answers."""
    module = {"sha256": job.module_id, "bytes": job.module.bytes}
    return js_json.dumps({"module": module, "inference": info_of(job).inference or {}})


def checkpoint_files(checkpoint: Checkpoint) -> dict[str, Any]:
    """Weights and filled slots by hash, and how good the checkpoint is."""
    job, row = checkpoint.job, CheckpointRow(checkpoint)
    return {
        "round": checkpoint.round,
        "newest": last_round(job),
        "weights": {"sha256": checkpoint.weights_id, "bytes": checkpoint.weights.bytes},
        "auxiliary": [asdict(slot) for slot in filled_slots(job, checkpoint.round)],
        "metrics": [
            {"label": metric.label, "training": row.training.get(metric.id), "checked": row.validated.get(metric.id)}
            for metric in metrics_of(job)
        ],
    }
