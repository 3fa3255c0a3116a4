"""How attempts end, and what an open round does then. Counters on the round row decide, never a look at other rows."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from jobs.domain.experience import units_id
from jobs.domain.queue import Item, item_id
from jobs.domain.rounds import Outcome, failed_deals_after
from jobs.models import Attempt, Job, Requeued, Round, Slot
from jobs.services.dealing import deal_round, requeued_row
from jobs.services.events import enqueue, job_event
from jobs.services.status import job_pause_with_error
from jobs.services.texts import info_of
from peers.outbox import hint_job, hint_peers

OUTCOMES = {
    Attempt.State.FAILED: Outcome.ERROR,
    Attempt.State.EXPIRED: Outcome.LOSS,
    Attempt.State.LEFT: Outcome.LOSS,
    Attempt.State.REPLACED: Outcome.LOSS,
}


def attempt_end(attempt_id: UUID, *, state: Attempt.State, reason: str, now: datetime, only: Q | None = None) -> bool:
    """End a live attempt without an update: its slot stops, its item goes back, the round settles.

    `failed` is an error of the item; every other state is a loss. `only` is what must (still) hold of the attempt.
    False: it was not live any more, or that does not hold.
    """
    with transaction.atomic():
        live = Attempt.objects.filter(only or Q(), pk=attempt_id, state=Attempt.State.LIVE)
        if live.update(state=state, reason=reason[:500], finished_at=now) != 1:
            return False
        attempt = Attempt.objects.select_related("slot__round__job", "slot__chunk").get(pk=attempt_id)
        slot = attempt.slot
        Round.objects.filter(pk=slot.round_id).update(live=F("live") - 1)
        slot_stop(slot, reason=reason, is_error=state == Attempt.State.FAILED, now=now)
        round_settle(slot.round_id, now)
        # If the round goes on, its item may be for somebody who joined late and waits.
        deal_round(slot.round_id, now)
        hint_peers([attempt.peer_id])
        hint_job(slot.round.job_id, "round", "participants")
        return True


def slot_stop(slot: Slot, *, reason: str, is_error: bool, now: datetime) -> None:
    """Take the slot out of its round and put its item at the front of the queue. Units are dropped: a later deal plays
    new ones."""
    Slot.objects.filter(pk=slot.pk).update(status=Slot.Status.STOPPED, error=reason[:500], finished_at=now)
    job = slot.round.job
    job_event(
        job.pk, "slot.stopped", round=slot.round.number, item=slot_item_id(slot), peer=str(slot.peer_id), reason=reason
    )
    if slot.chunk is None:
        return
    item = item_of(slot, errors=slot.errors + is_error)
    too_often = item.errors >= settings.ITEM_ERRORS
    Requeued.objects.bulk_create([requeued_row(job, item, held=too_often, error=reason[:500])])
    if too_often:
        job_pause_with_error(
            job.pk,
            f"{slot_item_id(slot)} failed {item.errors} times, last on peer {str(slot.peer_id)[:8]}: {reason} "
            "Retry it, or skip it and go on without it.",
        )


def item_of(slot: Slot, *, errors: int) -> Item:
    assert slot.chunk is not None
    return Item(slot.position, slot.chunk.index, slot.record_start, slot.record_count, slot.whole, errors)


def slot_item_id(slot: Slot) -> str:
    if slot.chunk is None:
        return units_id(slot.record_start, slot.record_count)
    return item_id(slot.chunk.chunk_id, item_of(slot, errors=0))


def round_settle(round_id: int, now: datetime, *, received: bool = False) -> None:
    """Close the round if its last slot ended and something was received; deal anew if nothing was. `received`: this
    transaction has just counted something, so that the round is not empty.

    Call it when a counter has just changed, in the same transaction: an empty round counts as one more deal.
    """
    closed = Round.objects.filter(pk=round_id, state=Round.State.OPEN, live=0, received__gt=0).update(
        state=Round.State.CLOSING, closing_at=now, merging_at=now
    )
    if closed:
        enqueue("jobs.tasks.merge", round_id)
    if closed or received:
        return
    empty = Round.objects.filter(pk=round_id, state=Round.State.OPEN, live=0, received=0).update(deal=F("deal") + 1)
    if empty and _deals_may_go_on(round_id):
        deal_round(round_id, now)


def _deals_may_go_on(round_id: int) -> bool:
    """Count a deal that ended without any weight; pause the job after too many in a row."""
    ended = Round.objects.select_related("job").get(pk=round_id)
    last = Attempt.objects.filter(slot__round=ended, slot__deal=ended.deal - 1).exclude(state=Attempt.State.REPLACED)
    outcomes = [OUTCOMES.get(Attempt.State(state), Outcome.EMPTY) for state in last.values_list("state", flat=True)]
    failed = failed_deals_after(ended.job.failed_deals, outcomes)
    Job.objects.filter(pk=ended.job_id).update(failed_deals=failed)
    if failed < settings.DEAL_ERRORS:
        return True
    nothing = " or without a finished unit" if info_of(ended.job).is_experience else ""
    job_pause_with_error(
        ended.job_id,
        f"Round {ended.number}: {failed} deals in a row ended only in errors{nothing}. Look at what the slots say, "
        "then resume.",
    )
    return False
