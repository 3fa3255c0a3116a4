"""The participants panel: who takes part, with their item of the round at work, and the round's slots by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs.selectors.status import ParticipantRow, RoundView, SlotRow

# Not yet, or not any more, able to take an assignment.
_CANNOT_TRAIN = frozenset({"invited", "declined", "approved", "modelLoadFailed", "unknown"})


@dataclass(frozen=True)
class PersonRow:
    person: ParticipantRow
    work: SlotRow | None
    """Its newest slot in the round at work."""


@dataclass(frozen=True)
class NamedSlot:
    row: SlotRow
    label: str


@dataclass(frozen=True)
class PeopleView:
    """`active` counts those that could be dealt work now: each peer once, the coordinator's device if it trains."""

    rows: Sequence[PersonRow]
    active: int
    round_number: int | None
    slots: Sequence[NamedSlot]


def people_view(participants: Sequence[ParticipantRow], round_view: RoundView | None) -> PeopleView:
    slots = round_view.slots if round_view else []
    work = {row.slot.pk: row for row in slots}
    labels = {person.peer_id: person.label for person in participants}
    return PeopleView(
        rows=[PersonRow(person, work.get(person.slot.pk) if person.slot else None) for person in participants],
        active=sum(1 for person in participants if _can_train(person)),
        round_number=round_view.round.number if round_view else None,
        slots=[NamedSlot(row, labels.get(row.peer_id) or _gone(row.peer_id)) for row in slots],
    )


def _can_train(person: ParticipantRow) -> bool:
    paused = person.paused_by_peer or person.paused_by_coordinator
    return person.trains and person.connected and not paused and person.state not in _CANNOT_TRAIN


def _gone(peer_id: UUID) -> str:
    """A participant that left meanwhile."""
    return f"Peer {str(peer_id)[:8]}"
