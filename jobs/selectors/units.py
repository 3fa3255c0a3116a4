"""Where an experience job stands, and what fills the model's auxiliary slots."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.models import Job, Slot
from jobs.services.lifecycle import round_at_work
from jobs.services.texts import info_of, settings_of
from weei_core.model_info import SlotSource


@dataclass(frozen=True)
class UnitsView:
    """`first` and `last` are those of the units dealt for the round at work, and `dealt` their number; `first` is None
    before anything is dealt, and where chunks are dealt."""

    round: int
    last_round: int
    per_participant: int | None
    used: int
    """Units dealt since the job seed was drawn; where chunks are dealt, those of the passes before."""
    fraction: float
    first: int | None = None
    last: int | None = None
    dealt: int = 0


def units_view(job: Job, newest: int | None) -> UnitsView:
    """`newest` is the round of the newest checkpoint."""
    settings, done = settings_of(job), job.first_round if newest is None else newest
    planned = settings.epochs - job.first_round
    at = round_at_work(job)
    slots = Slot.objects.filter(round=at, deal=at.deal, chunk=None) if at else Slot.objects.none()
    ranges = slots.exclude(status=Slot.Status.STOPPED).values_list("record_start", "record_count")
    units = [(start, start + count) for start, count in ranges]
    return UnitsView(
        round=at.number if at else done,
        last_round=settings.epochs,
        per_participant=settings.units_per_assignment,
        used=job.next_unit,
        fraction=min(1.0, max(0.0, (done - job.first_round) / planned)) if planned > 0 else 0.0,
        first=min((start for start, _ in units), default=None),
        last=max(end for _, end in units) - 1 if units else None,
        dealt=sum(end - start for start, end in units),
    )


@dataclass(frozen=True)
class AuxiliaryRow:
    """`origin` says in words what fills the slot; `sha256` is None for snapshots."""

    id: str
    role: str
    bytes: int
    sha256: str | None
    origin: str


def auxiliary_rows(job: Job) -> list[AuxiliaryRow]:
    slots = info_of(job).auxiliary_weights
    return [AuxiliaryRow(slot.id, slot.role, slot.bytes, slot.sha256, _origin(slot.source)) for slot in slots]


def _origin(source: SlotSource | None) -> str:
    if source is None:
        return "a file of the package"
    if source.kind == "initial":
        return "the job's first checkpoint"
    ago = source.rounds_ago or 0
    return f"the checkpoint of {ago} round{'' if ago == 1 else 's'} before" if ago else "the checkpoint itself"
