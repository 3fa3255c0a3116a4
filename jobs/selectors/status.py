"""What a job is doing right now, in sentences and rows: for pages, for the API, for peers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from diagnostics.live import job_snapshots
from jobs.domain.rounds import rounds_estimate
from jobs.domain.states import ParticipantFacts, participant_state
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.dealing import active_members, job_left
from jobs.services.lifecycle import round_at_work
from jobs.services.settling import slot_item_id
from jobs.services.texts import info_of, settings_of
from peers.models import Membership, Peer
from peers.services.presence import is_connected

Row = TypeVar("Row", Membership, Slot)


@dataclass(frozen=True)
class ParticipantRow:
    peer_id: UUID
    label: str
    state: str
    role: str
    connected: bool
    trains: bool
    paused_by_peer: bool
    paused_by_coordinator: bool
    load_error: str
    slot: Slot | None
    snapshot: dict[str, Any] | None
    age_ms: int | None


def participants(job: Job, now: datetime, *, only: UUID | None = None) -> list[ParticipantRow]:
    """Everybody who was invited or takes part, in order of acceptance, or one peer. Three queries whatever their
    number."""
    found = Membership.objects.filter(job=job).exclude(state__in=[Membership.State.LEFT, Membership.State.REMOVED])
    members = list(_of_peer(found, only).select_related("peer").order_by("accepted_at", "id"))
    at = round_at_work(job)
    slots: dict[UUID, Slot] = {}
    if at is not None:
        for slot in _of_peer(Slot.objects.filter(round=at), only).select_related("chunk").order_by("deal", "id"):
            slots[slot.peer_id] = slot
    held = job_snapshots(job.pk, [m.peer_id for m in members])
    return [_participant(m, slots.get(m.peer_id), held.get(str(m.peer_id)), now) for m in members]


def _of_peer(rows: QuerySet[Row], peer_id: UUID | None) -> QuerySet[Row]:
    return rows if peer_id is None else rows.filter(peer_id=peer_id)


def _participant(member: Membership, slot: Slot | None, held: dict[str, Any] | None, now: datetime) -> ParticipantRow:
    connected = is_connected(member.peer, now)
    snapshot = held["snapshot"] if held else None
    of_slot = snapshot and (snapshot.get("assignment") or {}).get("assignmentId") == (str(slot.pk) if slot else None)
    state = participant_state(
        ParticipantFacts(
            membership=member.state,
            connected=connected,
            heard_from=member.peer.seen_at is not None,
            paused=member.paused_by_peer or member.paused_by_coordinator,
            slot_status=slot.status if slot else None,
            stage=snapshot["stage"] if snapshot and of_slot else None,
        )
    )
    return ParticipantRow(
        peer_id=member.peer_id,
        label=peer_label(member.peer, snapshot),
        state=state,
        role=member.role,
        connected=connected,
        trains=member.trains,
        paused_by_peer=member.paused_by_peer,
        paused_by_coordinator=member.paused_by_coordinator,
        load_error=member.load_error,
        slot=slot,
        snapshot=snapshot,
        age_ms=held["heldMs"] if held else None,
    )


def peer_label(peer: Peer, snapshot: dict[str, Any] | None) -> str:
    """Browser and system as the peer says, else a short form of its id."""
    environment = (snapshot or {}).get("environment")
    if isinstance(environment, dict) and environment.get("browser", "unknown") != "unknown":
        version = str(environment.get("browserVersion", "")).split(".")[0].replace("unknown", "").lstrip("0")
        system = str(environment.get("os", "unknown"))
        return f"{environment['browser']} {version}".strip() + ("" if system == "unknown" else f" on {system}")
    return peer.label or f"Peer {str(peer.pk)[:8]}"


@dataclass(frozen=True)
class SlotRow:
    slot: Slot
    item: str
    status: str
    peer_id: UUID
    seconds: float


@dataclass(frozen=True)
class RoundView:
    round: Round
    slots: list[SlotRow]


def round_view(job: Job, now: datetime, *, only: UUID | None = None) -> RoundView | None:
    """The slots of the round at work, or those of one peer in it; those of its current deal first."""
    at = round_at_work(job)
    if at is None:
        return None
    found = _of_peer(Slot.objects.filter(round=at), only).select_related("chunk")
    slots = list(found.order_by("-deal", "position", "record_start"))
    held = job_snapshots(job.pk, {slot.peer_id for slot in slots if slot.status == Slot.Status.LOADING})
    return RoundView(at, [_slot_row(slot, held.get(str(slot.peer_id)), now) for slot in slots])


def _slot_row(slot: Slot, held: dict[str, Any] | None, now: datetime) -> SlotRow:
    status = slot.status
    snapshot = held["snapshot"] if held else {}
    of_slot = (snapshot.get("assignment") or {}).get("assignmentId") == str(slot.pk)
    if status == Slot.Status.LOADING and of_slot and snapshot.get("stage") in ("training", "uploading"):
        status = Slot.Status.TRAINING
    seconds = ((slot.finished_at or now) - slot.started_at).total_seconds()
    return SlotRow(slot, slot_item_id(slot), status, slot.peer_id, max(0.0, seconds))


def passes_done(job: Job, at: Round | None) -> int:
    """Completed passes over the dataset; of an experience job the rounds, counted like `epochs` from its very first.
    `at` is its round at work."""
    if info_of(job).is_experience:
        return _last_round(job, at)
    whole = job.status == Job.Status.COMPLETED and not job.incomplete
    return settings_of(job).epochs if whole else job.pass_no


def last_round(job: Job) -> int:
    """The round of the latest checkpoint."""
    return _last_round(job, round_at_work(job))


def _last_round(job: Job, at: Round | None) -> int:
    return job.round_no if at is None or at.state == Round.State.DONE else job.round_no - 1


def progress(job: Job, now: datetime) -> dict[str, Any]:
    """Passes (or rounds) and items done and left, and estimates: None where nothing can be said."""
    total = job.dataset.count if job.dataset else 0
    left = job_left(job)
    live = Attempt.objects.filter(slot__round__job=job, state=Attempt.State.LIVE).count() if job.dataset else 0
    epochs = settings_of(job).epochs
    at = round_at_work(job)
    done = _last_round(job, at) - job.first_round
    estimate = done if job.status == Job.Status.COMPLETED else _rounds_estimate(job, now, left, done)
    items_done = job.pass_no * total + (total - left - live)
    return {
        "passesDone": passes_done(job, at),
        "plannedPasses": epochs,
        "remainingItems": left + live,
        "totalItems": total,
        "itemsDone": max(0, items_done),
        "itemsPlanned": epochs * total,
        "roundsDone": done,
        "roundsEstimate": estimate,
        "remainingMs": _remaining_ms(job, done, estimate),
    }


def _rounds_estimate(job: Job, now: datetime, left: int, done: int) -> int | None:
    """How many rounds the job will have made in all. Known for experience jobs, which are planned in rounds."""
    epochs = settings_of(job).epochs
    if info_of(job).is_experience:
        return epochs - job.first_round
    assert job.dataset is not None
    return rounds_estimate(
        items_left=left,
        items_per_pass=job.dataset.count,
        passes_left=max(0, epochs - job.pass_no - 1),
        active=active_members(job, now).count(),
        # The round at work counts once it has been dealt: its items are not among those left.
        rounds_done=done + _is_dealt(round_at_work(job)),
    )


def _is_dealt(at: Round | None) -> bool:
    return at is not None and at.state != Round.State.DONE and at.live + at.received > 0


def _remaining_ms(job: Job, done: int, estimate: int | None) -> int | None:
    """From the last rounds' pace; None before there is one."""
    if job.status != Job.Status.RUNNING or estimate is None or done == 0:
        return None
    recent = list(
        Round.objects.filter(job=job, state=Round.State.DONE)
        .order_by("-number")
        .values_list("opened_at", "done_at")[:5]
    )
    paces = [(ended - opened).total_seconds() for opened, ended in recent if ended is not None]
    return round(1000 * max(0, estimate - done) * sum(paces) / len(paces)) if paces else None


def waiting_for(job: Job, now: datetime) -> str:
    """What the job waits for, always one sentence."""
    if job.status == Job.Status.READY:
        ready = active_members(job, now).count()
        return f"Ready: {_people(ready)} ready to train. Press Start." if ready else "Waiting for participants to join."
    if job.status == Job.Status.COMPLETED:
        return _ended(job)
    at = round_at_work(job)
    if job.status == Job.Status.PAUSED:
        if job.last_error:
            return "Paused because of an error: decide what to do, then resume."
        if at is not None and at.state == Round.State.OPEN and at.live:
            return f"Paused; {_count(at.live)} may still finish round {at.number}."
        return "Paused. Press Resume to go on."
    if at is None:
        return "Starting the first round."
    return _round_waits(job, at, now)


def _ended(job: Job) -> str:
    if info_of(job).is_experience:
        return "Finished early; not all rounds were played." if job.incomplete else "All planned rounds are done."
    return "Finished early; some data was not trained." if job.incomplete else "All planned passes are done."


def _round_waits(job: Job, at: Round, now: datetime) -> str:
    if at.state == Round.State.CLOSING:
        return f"Round {at.number}: merging {at.received} update{'s' if at.received != 1 else ''}."
    if at.state == Round.State.FAILED:
        return f"Round {at.number} could not be merged."
    if at.state == Round.State.DONE:
        return f"Round {at.number} is saved; the next one begins."
    if at.live:
        live = Slot.objects.filter(round=at, status__in=[Slot.Status.LOADING, Slot.Status.TRAINING])
        names = [slot_item_id(slot) for slot in live.select_related("chunk")[:3]]
        rest = f" and {at.live - len(names)} more" if at.live > len(names) else ""
        return f"Round {at.number}: {at.received} received, waiting for {', '.join(names)}{rest}."
    joined = Membership.objects.filter(job=job, trains=True, current=True).count()
    if joined == 0:
        return f"Round {at.number} waits for participants: nobody takes part at the moment."
    return f"Round {at.number} waits for participants: {_count(joined)} joined, nobody is connected and ready."


def _people(count: int) -> str:
    return "nobody is" if count == 0 else f"{_count(count)} {'is' if count == 1 else 'are'}"


def _count(count: int) -> str:
    return "1 participant" if count == 1 else f"{count} participants"


def waiting_for_peer(membership: Membership, at: Round | None, live: Slot | None) -> str:
    """The same, said to one participant. `at` is the job's round at work, `live` the slot that the peer works on."""
    job = membership.job
    if membership.paused_by_coordinator:
        return "The coordinator paused this device."
    if membership.paused_by_peer:
        return "You paused your contribution."
    if not membership.trains:
        return "This browser watches; it does not train."
    if job.status == Job.Status.READY:
        return "Waiting for the coordinator to start the job."
    if job.status == Job.Status.PAUSED:
        return "The coordinator paused the job."
    if job.status == Job.Status.COMPLETED:
        return "The job is completed. Thank you!"
    if at is None:
        return "Waiting for the first round."
    mine = live if live and live.round_id == at.pk else _slot_of(at, membership)
    if mine is None:
        return f"Waiting for round {at.number + 1}: round {at.number} has no work left to give."
    if mine.status in (Slot.Status.LOADING, Slot.Status.TRAINING):
        return f"This device works on {slot_item_id(mine)}."
    if at.state == Round.State.CLOSING:
        return f"Round {at.number} is being merged."
    return f"Waiting for {_others(at.live)} to finish round {at.number}."


def _slot_of(at: Round, membership: Membership) -> Slot | None:
    """The newest of a participant in the deal at work."""
    slots = Slot.objects.filter(round=at, deal=at.deal, peer_id=membership.peer_id).select_related("chunk")
    return max(slots, key=lambda slot: slot.pk, default=None)


def _others(count: int) -> str:
    return "1 other participant" if count == 1 else f"{count} other participants"


def online_peers(job: Job, now: datetime) -> list[UUID]:
    """Whom the coordinator may invite now: connected peers that opened one of this person's links or belong to one of
    their jobs, without the coordinator's own device."""
    known = Peer.objects.filter(lease_until__gte=now, memberships__job__owner=job.owner_id).distinct()
    ids = known.order_by("created", "pk").values_list("pk", flat=True)
    return [peer_id for peer_id in ids if peer_id != job.coordinator_peer_id]


def participant_ids(job_id: UUID, now: datetime) -> dict[UUID, bool]:
    """Who takes part, and whether they are connected."""
    members = Membership.objects.filter(job_id=job_id, current=True).select_related("peer")
    return {member.peer_id: is_connected(member.peer, now) for member in members}
