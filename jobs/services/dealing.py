"""Opening a round and handing out its items.

Locks are taken in one order everywhere: attempt, round, slot and queue, job. The first statement on the round row
holds it until the commit, so dealing, accepting and closing of one round come one after another.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.db.models import QuerySet

from checkpoints.models import Checkpoint
from jobs.domain.progress import Progress
from jobs.domain.queue import Item, PassQueue, deal
from jobs.models import Attempt, Chunk, Job, PassOrder, Requeued, Round, Slot
from jobs.services.events import job_event
from peers.models import Membership
from peers.outbox import hint_job, hint_peers
from weei_core import seeds
from weei_core.errors import Conflict
from weei_core.model_info import parse_model_info


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


def queue_of(job: Job) -> PassQueue:
    """The queue of the pass at work. Counts of records are read for the positions that a caller asks for."""
    assert job.dataset is not None
    dataset_id = job.dataset.pk

    def records_of(chunk_index: int) -> int:
        return Chunk.objects.values_list("example_count", flat=True).get(dataset_id=dataset_id, index=chunk_index)

    requeued = tuple(
        Item(r.position, r.chunk_index, r.record_start, r.record_count, r.whole, r.errors)
        for r in Requeued.objects.filter(job=job, held=False)
    )
    return PassQueue(order_of(job.pass_order, job.dataset.count), job.cursor, requeued, records_of)


def round_open(job: Job, number: int, now: datetime) -> Round | None:
    """Start round `number` on the checkpoint before it. None: the job does not run, or another process was first."""
    moved = Job.objects.filter(pk=job.pk, round_no=number - 1, status=Job.Status.RUNNING, finishing=False).update(
        round_no=number
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
    at = Round.objects.select_related("job__dataset", "job__pass_order", "job__module").get(pk=round_id)
    job = at.job
    if job.status != Job.Status.RUNNING or job.finishing:
        return 0
    in_deal = Slot.objects.filter(round=at, deal=at.deal)
    busy = Attempt.objects.filter(state=Attempt.State.LIVE)
    members = list(
        active_members(job, now).exclude(peer__in=in_deal.values("peer")).exclude(peer__in=busy.values("peer"))
    )
    if not members:
        return 0
    # Items are cut only at the start of a deal; who comes later takes what is left as it is.
    cut = parse_model_info(job.model_info_text.encode()).capabilities.record_ranges and not in_deal.exists()
    queue = queue_of(job)
    dealt = deal(queue, len(members), cut=cut, max_parts=settings.MAX_PARTS)
    if not dealt.items:
        return 0
    _queue_store(job, queue, dealt.rest)
    _slots_create(at, members, dealt.items, now)
    hint_peers([m.peer_id for m in members[: len(dealt.items)]])
    hint_job(job.pk, "round", "participants")
    return len(dealt.items)


def _queue_store(job: Job, before: PassQueue, after: PassQueue) -> None:
    """Write the queue that remains, by compare-and-swap on what it was read from."""
    moved = Job.objects.filter(
        pk=job.pk, cursor=before.cursor, pass_no=job.pass_no, shuffles=job.shuffles, status=Job.Status.RUNNING
    ).update(cursor=after.cursor)
    if moved != 1:
        raise Conflict("The queue changed meanwhile.", code="try_again")
    old, new = set(before.requeued), set(after.requeued)
    rows = Requeued.objects.filter(job=job, held=False)
    for item in old - new:
        rows.filter(position=item.position, record_start=item.record_start).delete()
    Requeued.objects.bulk_create([requeued_row(job, item) for item in sorted(new - old, key=lambda i: i.place)])


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


def _slots_create(at: Round, members: Sequence[Membership], items: Sequence[Item], now: datetime) -> None:
    job = at.job
    chunks = {c.index: c for c in Chunk.objects.filter(dataset=job.dataset, index__in=[i.chunk_index for i in items])}
    job_seed = seeds.parse_seed(job.job_seed, "job_seed")
    slots = Slot.objects.bulk_create(
        [
            Slot(
                round=at,
                deal=at.deal,
                position=item.position,
                chunk=chunks[item.chunk_index],
                record_start=item.record_start,
                record_count=item.record_count,
                whole=item.whole,
                errors=item.errors,
                peer=member.peer,
                seed=seeds.format_seed(seeds.dataset_seed(job_seed, at.number, item.chunk_index, item.record_start)),
                started_at=now,
            )
            for member, item in zip(members, items, strict=False)
        ]
    )
    Attempt.objects.bulk_create([attempt_row(slot, now) for slot in slots])
    Round.objects.filter(pk=at.pk).update(live=at.live + len(slots))
    job_event(job.pk, "round.dealt", round=at.number, deal=at.deal, items=len(slots))


def attempt_row(slot: Slot, now: datetime) -> Attempt:
    """A new try of a slot; its time counts from the slot's start, so a reload does not extend it."""
    deadline = slot.started_at + timedelta(minutes=settings.ASSIGNMENT_TIMEOUT_MINUTES)
    return Attempt(id=uuid.uuid4(), slot=slot, peer_id=slot.peer_id, started_at=now, deadline=deadline)


def progress_of(job: Job) -> Progress:
    """Where the queue stands, held items included: what a checkpoint made now says is left."""
    rows = Requeued.objects.filter(job=job)
    items = tuple(Item(r.position, r.chunk_index, r.record_start, r.record_count, r.whole, r.errors) for r in rows)
    return Progress(job.pass_no, job.cursor, items)


def pass_next(job: Job) -> None:
    """Begin the next pass: all chunks again, in the order that the last shuffle gave to later passes."""
    order = job.next_order_id or job.pass_order_id
    Job.objects.filter(pk=job.pk, pass_no=job.pass_no).update(
        pass_no=job.pass_no + 1, cursor=0, pass_order_id=order, next_order_id=None
    )
    job_event(job.pk, "pass.ended", passes=job.pass_no + 1)
    job.refresh_from_db()


def deal_open_round(job_id: uuid.UUID, now: datetime) -> int:
    """Somebody became active: give out what is left in the round at work, if anything."""
    open_round = Round.objects.filter(job_id=job_id, state=Round.State.OPEN).order_by("-number").first()
    return deal_round(open_round.pk, now) if open_round else 0
