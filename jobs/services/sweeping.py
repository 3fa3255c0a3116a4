"""The sweeper: the only retry. It ends what has run out of time and queues again what is due.

It may expire only while the server lives without a gap, by two clocks: the wall clock against the last sweep of any
process, and the monotonic clock against this process's last look. After a gap every live lease is renewed instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q

from checkpoints.models import Checkpoint, Upload
from jobs.domain.rounds import straggler_limit
from jobs.models import Attempt, Job, JobDraft, Round, Slot, Sweep
from jobs.services.events import enqueue
from jobs.services.lifecycle import job_go_on
from jobs.services.packaging import packages_due, packages_renew
from jobs.services.settling import attempt_end
from jobs.services.texts import settings_in
from peers.models import Membership
from peers.services.presence import heartbeats, leases_renew

logger = logging.getLogger(__name__)
PEER_SAMPLES = 9
ARRIVING_SECONDS = 30


class Sweeper:
    """One per web process. `sweep` is called every few seconds with both clocks."""

    def __init__(self) -> None:
        self._looked_at: float | None = None

    def sweep(self, now: datetime, monotonic: float) -> bool:
        """One look. True: it expired what was due; False: it renewed leases, or another process was at it."""
        mine = self._looked_at is not None and monotonic - self._looked_at <= settings.SWEEP_GAP_SECONDS
        self._looked_at = monotonic
        heartbeats.flush(now)
        gap, alive_at = self._take(now)
        if alive_at is None:
            return False
        if gap or not mine:
            _renew(now, alive_at)
            queue_due(now)
            return False
        expire(now)
        queue_due(now)
        return True

    def _take(self, now: datetime) -> tuple[bool, datetime | None]:
        """Take the sweep by compare-and-swap: (is there a gap before now, when the server was last alive)."""
        last, _ = Sweep.objects.get_or_create(pk=1, defaults={"ended_at": now})
        if Sweep.objects.filter(pk=1, ended_at=last.ended_at).update(ended_at=now) != 1:
            return False, None
        age = (now - last.ended_at).total_seconds()
        return not 0 <= age <= settings.SWEEP_GAP_SECONDS, last.ended_at


def _renew(now: datetime, alive_at: datetime) -> None:
    """The server was away, or its clock was set: nobody's work is taken, and no time counts that nobody could use.

    `gap` is negative when the clock was set back. Times that it left in the future are cut to what they may be.
    """
    gap = now - alive_at
    renewed = leases_renew(now, alive_at)
    Attempt.objects.filter(state=Attempt.State.LIVE).update(deadline=F("deadline") + gap)
    Slot.objects.filter(attempts__state=Attempt.State.LIVE).update(started_at=F("started_at") + gap)
    Round.objects.filter(state=Round.State.CLOSING, merging_at__gt=now).update(merging_at=now)
    lease = now + timedelta(seconds=settings.MERGE_LEASE_SECONDS)
    running = Checkpoint.objects.filter(validation=Checkpoint.Validation.RUNNING)
    running.filter(validation_lease__gt=lease).update(validation_lease=lease)
    JobDraft.objects.filter(state=JobDraft.State.PREPARING, lease_until__gt=lease).update(lease_until=lease)
    packages_renew(now)
    Upload.objects.filter(touched__gt=now).update(touched=now)
    logger.info("a gap of %.0f s: %d leases renewed", gap.total_seconds(), renewed)


def expire(now: datetime) -> None:
    """End the attempts whose peer is gone, whose time is up, or that are stragglers."""
    gone = Q(peer__lease_until__lt=now) | Q(peer__lease_until=None)
    _expire_all(gone, "The participant was not heard from any more.", now)
    # Leaving and pausing end the attempt in a transaction of its own; a server may die between the two.
    taking_part = Membership.objects.filter(
        peer=OuterRef("peer"),
        job=OuterRef("slot__round__job"),
        current=True,
        paused_by_peer=False,
        paused_by_coordinator=False,
    )
    _expire_all(Q(~Exists(taking_part)), "The participant does not take part any more.", now)
    _expire_all(Q(deadline__lt=now), f"It took longer than {settings.ASSIGNMENT_TIMEOUT_MINUTES:g} minutes.", now)
    for attempt, limit in stragglers(now):
        reason = f"It took longer than {limit:.0f} s, far more than the others."
        _each([attempt.pk], partial(attempt_end, state=Attempt.State.EXPIRED, reason=reason, now=now))


def _expire_all(due: Q, reason: str, now: datetime) -> None:
    """The condition is asked again in each update: whoever was heard from meanwhile keeps its work."""
    found = Attempt.objects.filter(due, state=Attempt.State.LIVE).values_list("pk", flat=True)
    _each(list(found), partial(attempt_end, state=Attempt.State.EXPIRED, reason=reason, now=now, only=due))


def _each(ids: Iterable[UUID], work: Callable[[UUID], object]) -> None:
    """What goes wrong with one is a log line; the others proceed, and the next sweep tries it again."""
    for one in ids:
        try:
            work(one)
        except Exception:
            logger.exception("the sweep could not deal with %s", one)


def stragglers(now: datetime) -> list[tuple[Attempt, float]]:
    """Live attempts over their round's limit, unless bytes of their update are arriving."""
    late = []
    since = now - timedelta(seconds=ARRIVING_SECONDS)
    uploads = Upload.objects.filter(kind=Upload.Kind.UPDATE, done=False, touched__gt=since)
    arriving = [attempt_id for attempt_id in uploads.values_list("attempt_id", flat=True) if attempt_id is not None]
    for at in Round.objects.filter(state=Round.State.OPEN, live__gt=0).select_related("job"):
        factor = settings_in(at.job, at.settings_text).straggler_factor
        received = Slot.objects.filter(round=at, status=Slot.Status.RECEIVED)
        finished = [_seconds(slot) for slot in received.only("started_at", "finished_at")]
        limit_of = partial(straggler_limit, factor=factor, floor=settings.STRAGGLER_FLOOR_SECONDS)
        least = limit_of(round_seconds=finished, peer_seconds=[])
        if least is None:
            continue
        slow = Attempt.objects.filter(
            slot__round=at, state=Attempt.State.LIVE, slot__started_at__lt=now - timedelta(seconds=least)
        )
        for attempt in slow.exclude(pk__in=arriving).select_related("slot"):
            limit = limit_of(round_seconds=finished, peer_seconds=_own_seconds(attempt.peer_id, at.job_id))
            if limit is not None and (now - attempt.slot.started_at).total_seconds() > limit:
                late.append((attempt, limit))
    return late


def _own_seconds(peer_id: UUID, job_id: UUID) -> list[float]:
    own = Slot.objects.filter(peer_id=peer_id, status=Slot.Status.RECEIVED, round__job_id=job_id)
    return [_seconds(slot) for slot in own.order_by("-finished_at")[:PEER_SAMPLES]]


def _seconds(slot: Slot) -> float:
    assert slot.finished_at is not None
    return max(0.0, (slot.finished_at - slot.started_at).total_seconds())


def queue_due(now: datetime) -> None:
    """Queue again whatever the database says is due and nobody is known to be doing."""
    stale = now - timedelta(seconds=settings.MERGE_LEASE_SECONDS)
    unbegun = now - timedelta(seconds=settings.SWEEP_SECONDS)
    merges = Round.objects.filter(state=Round.State.CLOSING)
    # Nobody says any more that it merges; or nobody has begun to, because the queueing was lost.
    merges = merges.filter(Q(merging_at__lt=stale) | Q(tries=0, closing_at__lt=unbegun))
    # A paused job's round is merged too, but one that used up its tries waits for the coordinator.
    to_try = Q(job__status=Job.Status.RUNNING) | Q(job__status=Job.Status.PAUSED, tries__lt=settings.MERGE_TRIES)
    for round_id in merges.filter(to_try).values_list("pk", flat=True):
        enqueue("jobs.tasks.merge", round_id)
    running = Job.objects.filter(status=Job.Status.RUNNING).values_list("pk", flat=True)
    _each(list(running), partial(job_go_on, now=now))
    due = Q(validation=Checkpoint.Validation.DUE) | Q(validation_lease__lt=now)
    for checkpoint_id in Checkpoint.objects.filter(Checkpoint.UNDER_WAY, due).values_list("pk", flat=True)[:50]:
        enqueue("jobs.tasks.evaluate", checkpoint_id)
    drafts = Q(state=JobDraft.State.QUEUED) | Q(state=JobDraft.State.PREPARING, lease_until__lt=now)
    for draft_id in JobDraft.objects.filter(drafts).values_list("pk", flat=True)[:50]:
        enqueue("jobs.tasks.prepare", str(draft_id))
    for package_id in packages_due(now):
        enqueue("jobs.tasks.package", str(package_id))
