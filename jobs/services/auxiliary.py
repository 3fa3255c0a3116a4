"""What fills a model's auxiliary slots: files of its package, or snapshots of the job's own checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.models import Checkpoint
from jobs.domain.experience import snapshot_round
from jobs.models import Job
from jobs.services.texts import info_of
from weei_core.model_info import AuxiliarySlot, ModelInfo


@dataclass(frozen=True)
class FilledSlot:
    id: str
    sha256: str
    bytes: int


def file_slots(info: ModelInfo) -> dict[str, str]:
    """SHA-256 by id of the slots that files fill, in declared order."""
    return {slot.id: slot.sha256 for slot in info.auxiliary_weights if slot.sha256 is not None}


def filled_slots(job: Job, loaded: int) -> list[FilledSlot]:
    """All slots in declared order, while the checkpoint of round `loaded` is loaded. A function of the rule and the
    round alone: every try of an assignment, and every evaluation of a checkpoint, gets the same ones."""
    declared = info_of(job).auxiliary_weights
    rounds = {slot.id: _round_of(job, slot, loaded) for slot in declared if slot.source is not None}
    found = Checkpoint.objects.filter(job=job, round__in=set(rounds.values())) if rounds else Checkpoint.objects.none()
    weights = dict(found.values_list("round", "weights_id"))
    return [FilledSlot(slot.id, slot.sha256 or weights[rounds[slot.id]], slot.bytes) for slot in declared]


def _round_of(job: Job, slot: AuxiliarySlot, loaded: int) -> int:
    assert slot.source is not None
    return snapshot_round(rounds_ago=slot.source.rounds_ago, first=job.first_round, loaded=loaded)
