"""Opening a round and handing out its items.

Locks are taken in one order everywhere: membership, attempt, round, slot, job, queue. The first statement on the round
row holds it until the commit, so dealing, accepting and closing of one round come one after another; the job row is
locked before its queue is read, so that pausing, shuffling and dealing do too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import F, QuerySet

from checkpoints.models import Checkpoint
from jobs.domain.experience import split_of, unit_starts
from jobs.domain.progress import Progress
from jobs.domain.queue import Item, PassQueue, deal
from jobs.domain.rounds import After, Position, after_checkpoint, after_experience
from jobs.models import Attempt, Chunk, Job, PassOrder, Requeued, Round, Slot
from jobs.services.events import job_event
from jobs.services.status import job_complete
from jobs.services.texts import info_of, settings_in, settings_of
from peers.models import Membership
from peers.outbox import hint_job, hint_peers
from weei_core import seeds


def order_of(order: PassOrder | None, count: int) -> Sequence[int]:
    """Chunk index by position."""
    return range(count) if order is None else np.frombuffer(order.body, "<u4").tolist()


def order_store(order: Sequence[int]) -> PassOrder:
    return PassOrder.objects.create(body=np.asarray(order, "<u4").tobytes())


def active_members(job: Job, now: datetime) -> QuerySet[Membership]:
    """Who can be given work now, in order of acceptance."""
    return (
        Membership.objects.filter(
            job=job,
            current=True,
            trains=True,
            state=Membership.State.MODEL_LOADED,
            ready_for=job.ready_key,
            paused_by_peer=False,
            paused_by_coordinator=False,
            peer__lease_until__gte=now,
        )
        .order_by("accepted_at", "id")
        .select_related("peer")
    )


def job_locked(job_id: uuid.UUID) -> Job:
    """The job as it is, held until the commit. Nothing that this transaction does later waits for a round's lock."""
    jobs = Job.objects.select_for_update(no_key=True, of=("self",))
    return jobs.select_related("dataset", "pass_order", "next_order").get(pk=job_id)


def round_open(job: Job, number: int, now: datetime) -> Round | None:
    """Start round `number` on the checkpoint before it. None: the job does not run, or another process was first."""
    moved = Job.objects.filter(pk=job.pk, round_no=number - 1, status=Job.Status.RUNNING, finishing=False).update(
        round_no=number, failed_deals=0
    )
    if moved != 1:
        return None
    job.refresh_from_db()
    start = Checkpoint.objects.get(job=job, round=number - 1)
    opened = Round.objects.create(
        job=job,
        number=number,
        pass_no=job.pass_no,
        settings_text=job.settings_text,
        start_weights=start.weights_id,
        opened_at=now,
    )
    deal_round(opened.pk, now)
    hint_job(job.pk, "round", "status")
    return opened


def deal_round(round_id: int, now: datetime) -> int:
    """Hand items to the active participants that have no slot in this deal. Call it inside a transaction."""
    if not Round.objects.filter(pk=round_id, state=Round.State.OPEN).update(state=Round.State.OPEN):
        return 0
    at = Round.objects.get(pk=round_id)
    job = job_locked(at.job_id)
    if job.status != Job.Status.RUNNING or job.finishing:
        return 0
    nothing_yet = at.live == 0 and at.received == 0
    if nothing_yet and job.dataset is not None and job_left(job) == 0 and not _pass_go_on(job, at, now):
        return 0
    in_deal = Slot.objects.filter(round=at, deal=at.deal)
    busy = Attempt.objects.filter(state=Attempt.State.LIVE)
    waiting = active_members(job, now).exclude(peer__in=in_deal.values("peer")).exclude(peer__in=busy.values("peer"))
    members = list(waiting)
    if not members:
        return 0
    begins = not in_deal.exists()
    give = _units_deal if job.dataset is None else _items_deal
    slots = give(job, at, members, now, begins=begins)
    if not slots:
        return 0
    _slots_insert(job, at, slots, now)
    hint_peers([slot.peer_id for slot in slots])
    hint_job(job.pk, "round", "participants")
    return len(slots)


def _units_deal(job: Job, at: Round, members: Sequence[Membership], now: datetime, *, begins: bool) -> list[Slot]:
    """A range of new units for each member. The units of a deal are made at its start: who joins later waits."""
    if not begins:
        return []
    chosen, info = settings_in(job, at.settings_text), info_of(job)
    units = chosen.units_per_assignment
    assert units is not None
    starts = unit_starts(job.next_unit, len(members), units)
    Job.objects.filter(pk=job.pk).update(next_unit=starts.stop)
    return [
        Slot(
            record_start=start,
            record_count=units,
            unit_start=start,
            seed=_experience_seed(job, start),
            split=split_of(requested=chosen.workers, device=member.workers, most=info.max_workers, units=units),
            **_common(at, member, 0, now),
        )
        for start, member in zip(starts, members, strict=True)
    ]


def _items_deal(job: Job, at: Round, members: Sequence[Membership], now: datetime, *, begins: bool) -> list[Slot]:
    """Items of the pass at work. They are cut only at the start of a deal; who joins later takes what is left as it
    is."""
    info = info_of(job)
    queue, chunks = queue_of(job, len(members))
    dealt = deal(queue, len(members), cut=info.capabilities.record_ranges and begins, max_parts=settings.MAX_PARTS)
    if dealt.items:
        _queue_store(job, queue, dealt.rest)
    return [
        Slot(
            chunk=chunks[item.chunk_index],
            record_start=item.record_start,
            record_count=item.record_count,
            whole=item.whole,
            errors=item.errors,
            **_seeded(job, at, info.is_experience, chunks[item.chunk_index], item),
            **_common(at, member, item.position, now),
        )
        for member, item in zip(members, dealt.items, strict=False)
    ]


def _common(at: Round, member: Membership, position: int, now: datetime) -> dict[str, Any]:
    return {"round": at, "deal": at.deal, "position": position, "peer": member.peer, "started_at": now}


def _seeded(job: Job, at: Round, experience: bool, chunk: Chunk, item: Item) -> dict[str, Any]:
    """The seed of an item; records that are units of experience count on over all passes."""
    if experience:
        unit = job.next_unit + chunk.first_example + item.record_start
        return {"unit_start": unit, "seed": _experience_seed(job, unit)}
    job_seed = seeds.parse_seed(job.job_seed, "job_seed")
    return {"seed": seeds.format_seed(seeds.dataset_seed(job_seed, at.number, item.chunk_index, item.record_start))}


def _experience_seed(job: Job, unit_start: int) -> str:
    return seeds.format_seed(seeds.experience_seed(seeds.parse_seed(job.job_seed, "job_seed"), unit_start))


def queue_of(job: Job, wanted: int) -> tuple[PassQueue, Mapping[int, Chunk]]:
    """The queue of the pass at work, and the chunks that a deal of `wanted` items can name."""
    assert job.dataset is not None
    order = order_of(job.pass_order, job.dataset.count)
    requeued = tuple(item_of_row(row) for row in Requeued.objects.filter(job=job, held=False, skipped=False))
    near = {*(item.chunk_index for item in requeued), *order[job.cursor : job.cursor + wanted]}
    chunks = {chunk.index: chunk for chunk in Chunk.objects.filter(dataset_id=job.dataset.pk, index__in=near)}
    return PassQueue(order, job.cursor, requeued, lambda index: chunks[index].example_count), chunks


def item_of_row(row: Requeued) -> Item:
    return Item(row.position, row.chunk_index, row.record_start, row.record_count, row.whole, row.errors)


def job_left(job: Job) -> int:
    """Items of this pass that no round has taken (held ones too, skipped ones not); 0 for a job without data."""
    if job.dataset is None:
        return 0
    return job.dataset.count - job.cursor + Requeued.objects.filter(job=job, skipped=False).count()


def _pass_go_on(job: Job, at: Round, now: datetime) -> bool:
    """What was left of the pass was skipped, so the round has nothing to deal: it takes the next pass, or the job ends.

    Nothing of this round was received, so it mixes no passes. False: the job is completed.
    """
    if after_round(job, at.number - 1, 0) == After.COMPLETED:
        job_complete(job, now, incomplete=True)
        return False
    pass_next(job)
    Round.objects.filter(pk=at.pk).update(pass_no=job.pass_no)
    return True


def _queue_store(job: Job, before: PassQueue, after: PassQueue) -> None:
    """Write the queue that remains. The job is locked."""
    Job.objects.filter(pk=job.pk).update(cursor=after.cursor)
    gone, new = set(before.requeued) - set(after.requeued), set(after.requeued) - set(before.requeued)
    if gone:
        rows = Requeued.objects.filter(job=job, held=False, skipped=False)
        rows.filter(pk__in=[row.pk for row in rows if item_of_row(row) in gone]).delete()
    Requeued.objects.bulk_create([requeued_row(job, item) for item in sorted(new, key=lambda item: item.place)])


def requeued_row(job: Job, item: Item, *, held: bool = False, error: str = "") -> Requeued:
    return Requeued(
        job=job,
        position=item.position,
        chunk_index=item.chunk_index,
        record_start=item.record_start,
        record_count=item.record_count,
        whole=item.whole,
        errors=item.errors,
        held=held,
        last_error=error,
    )


def _slots_insert(job: Job, at: Round, slots: Sequence[Slot], now: datetime) -> None:
    made = Slot.objects.bulk_create(slots)
    Attempt.objects.bulk_create([attempt_row(slot, now) for slot in made])
    Round.objects.filter(pk=at.pk).update(live=F("live") + len(made))
    job_event(job.pk, "round.dealt", round=at.number, deal=at.deal, items=len(made))


def attempt_row(slot: Slot, now: datetime) -> Attempt:
    """A new try of a slot; its time counts from the slot's start, so a reload does not extend it."""
    deadline = slot.started_at + timedelta(minutes=settings.ASSIGNMENT_TIMEOUT_MINUTES)
    return Attempt(id=uuid.uuid4(), slot=slot, peer_id=slot.peer_id, started_at=now, deadline=deadline)


def after_round(job: Job, round_no: int, left: int) -> After:
    """What follows the checkpoint of `round_no` with `left` items in the pass at work."""
    epochs = settings_of(job).epochs
    if info_of(job).is_experience:
        items = None if job.dataset is None else left
        return after_experience(round_no=round_no, epochs=epochs, left=items, finishing=job.finishing)
    return after_checkpoint(Position(job.pass_no, left, epochs), finishing=job.finishing)


def progress_of(job: Job) -> Progress:
    """Where the queue stands, held and skipped items included: what a checkpoint made now says is left."""
    return Progress(job.pass_no, job.cursor, tuple(item_of_row(row) for row in Requeued.objects.filter(job=job)))


def pass_next(job: Job) -> None:
    """Begin the next pass: all chunks again, in the order that the last shuffle gave to later passes."""
    order = job.next_order_id or job.pass_order_id
    moved = Job.objects.filter(pk=job.pk, pass_no=job.pass_no).update(
        pass_no=job.pass_no + 1, cursor=0, pass_order_id=order, next_order_id=None, next_unit=unit_after_pass(job)
    )
    if moved:
        Requeued.objects.filter(job=job, skipped=True).delete()
        job_event(job.pk, "pass.ended", passes=job.pass_no + 1)
    job.refresh_from_db()


def unit_after_pass(job: Job) -> int:
    """The first unit behind the pass at work. Where records are units, `next_unit` is the first one of the pass."""
    records = job.dataset.examples if job.dataset is not None and info_of(job).is_experience else 0
    return job.next_unit + records


def deal_open_round(job_id: uuid.UUID, now: datetime) -> int:
    """Somebody became active: give out what is left in the round at work, if anything."""
    open_round = Round.objects.filter(job_id=job_id, state=Round.State.OPEN).order_by("-number").first()
    return deal_round(open_round.pk, now) if open_round else 0
