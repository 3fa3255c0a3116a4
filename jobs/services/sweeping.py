"""The sweeper: the only retry. It ends what has run out of time and queues again what is due.

It may expire only while the server lives without a gap, by two clocks: the wall clock against the last sweep of any
process, and the monotonic clock against this process's last look. After a gap every live lease is renewed instead.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from checkpoints.models import Checkpoint, Upload
from jobs.domain.rounds import straggler_limit
from jobs.models import Attempt, Job, JobDraft, Round, Slot, Sweep
from jobs.services.events import enqueue
from jobs.services.lifecycle import job_go_on, parse_settings_text
from jobs.services.settling import attempt_end, round_settle
from peers.outbox import hint_job
from peers.services.presence import heartbeats, leases_renew

logger = logging.getLogger(__name__)
PEER_SAMPLES = 9


class Sweeper:
    """One per web process. `sweep` is called every few seconds with both clocks."""

    def __init__(self) -> None:
        self._looked_at: float | None = None

    def sweep(self, now: datetime, monotonic: float) -> bool:
        """One look. True: it expired what was due; False: it renewed leases, or another process was at it."""
        mine = self._looked_at is not None and monotonic - self._looked_at <= settings.SWEEP_GAP_SECONDS
        self._looked_at = monotonic
        for peer_id in heartbeats.flush(now):
            logger.info("peer %s is back", peer_id)
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
    """The server was away: nobody's work is taken, and no time counts that nobody could have used."""
    # Leases in the future of a clock that was set back are cut to the new clock as well.
    renewed = leases_renew(now, min(alive_at, now))
    gap = max(now - alive_at, timedelta(0))
    Attempt.objects.filter(state=Attempt.State.LIVE).update(deadline=F("deadline") + gap)
    Slot.objects.filter(attempts__state=Attempt.State.LIVE).update(started_at=F("started_at") + gap)
    logger.info("a gap of %.0f s: %d leases renewed", gap.total_seconds(), renewed)


def expire(now: datetime) -> None:
    """End the attempts whose peer is gone, whose time is up, or that are stragglers."""
    live = Attempt.objects.filter(state=Attempt.State.LIVE)
    gone = live.filter(Q(peer__lease_until__lt=now) | Q(peer__lease_until=None))
    for attempt_id in list(gone.values_list("pk", flat=True)):
        _expire(attempt_id, "The participant was not heard from any more.", now)
    for attempt_id in list(live.filter(deadline__lt=now).values_list("pk", flat=True)):
        _expire(attempt_id, f"It took longer than {settings.ASSIGNMENT_TIMEOUT_MINUTES:g} minutes.", now)
    for attempt, limit in stragglers(now):
        _expire(attempt.pk, f"It took longer than {limit:.0f} s, far more than the others.", now)


def _expire(attempt_id: object, reason: str, now: datetime) -> None:
    attempt_end(attempt_id, state=Attempt.State.EXPIRED, reason=reason, now=now)  # type: ignore[arg-type]


def stragglers(now: datetime) -> list[tuple[Attempt, float]]:
    """Live attempts over their round's limit, unless bytes of their update are arriving."""
    late = []
    arriving = set(
        Upload.objects.filter(kind=Upload.Kind.UPDATE, done=False, touched__gt=now - timedelta(seconds=30)).values_list(
            "attempt_id", flat=True
        )
    )
    rounds = Round.objects.filter(state=Round.State.OPEN, live__gt=0, received__gt=0).select_related("job")
    for at in rounds:
        factor = parse_settings_text(at.settings_text).straggler_factor
        received = Slot.objects.filter(round=at, status=Slot.Status.RECEIVED)
        finished = [_seconds(slot) for slot in received.only("started_at", "finished_at")]
        for attempt in Attempt.objects.filter(slot__round=at, state=Attempt.State.LIVE).select_related("slot"):
            own = Slot.objects.filter(peer_id=attempt.peer_id, status=Slot.Status.RECEIVED, round__job=at.job).order_by(
                "-finished_at"
            )[:PEER_SAMPLES]
            limit = straggler_limit(
                factor=factor,
                floor=settings.STRAGGLER_FLOOR_SECONDS,
                round_seconds=finished,
                peer_seconds=[_seconds(slot) for slot in own],
            )
            took = (now - attempt.slot.started_at).total_seconds()
            if limit is not None and took > limit and attempt.pk not in arriving:
                late.append((attempt, limit))
    return late


def _seconds(slot: Slot) -> float:
    assert slot.finished_at is not None
    return max(0.0, (slot.finished_at - slot.started_at).total_seconds())


def queue_due(now: datetime) -> None:
    """Queue again whatever the database says is due and nobody is known to be doing."""
    stale = now - timedelta(seconds=settings.MERGE_LEASE_SECONDS)
    for at in Round.objects.filter(state=Round.State.CLOSING, merging_at__lt=stale, job__status=Job.Status.RUNNING):
        enqueue("jobs.tasks.merge", at.pk)
    # Paused jobs too: what was received before the pause is merged.
    paused = Round.objects.filter(state=Round.State.CLOSING, merging_at__lt=stale, job__status=Job.Status.PAUSED)
    for at in paused.filter(tries__lt=settings.MERGE_TRIES):
        enqueue("jobs.tasks.merge", at.pk)
    idle = Round.objects.filter(state=Round.State.OPEN, live=0)
    for round_id in idle.filter(received__gt=0).values_list("pk", flat=True):
        with transaction.atomic():
            round_settle(round_id, now)
    for job_id in idle.filter(job__status=Job.Status.RUNNING).values_list("job_id", flat=True):
        job_go_on(job_id, now)
    # A running job whose latest round is done and that has no next one: a process died between two statements.
    between = Job.objects.filter(status=Job.Status.RUNNING, finishing=False).exclude(
        rounds__state__in=[Round.State.OPEN, Round.State.CLOSING, Round.State.FAILED]
    )
    for job_id in between.values_list("pk", flat=True):
        job_go_on(job_id, now)
    due = Q(validation=Checkpoint.Validation.DUE) | Q(
        validation=Checkpoint.Validation.RUNNING, validation_lease__lt=now
    )
    for checkpoint_id in Checkpoint.objects.filter(due).values_list("pk", flat=True)[:50]:
        enqueue("jobs.tasks.evaluate", checkpoint_id)
    drafts = Q(state=JobDraft.State.QUEUED) | Q(state=JobDraft.State.PREPARING, lease_until__lt=now)
    for draft_id in JobDraft.objects.filter(drafts).values_list("pk", flat=True)[:50]:
        enqueue("jobs.tasks.prepare", str(draft_id))


def hint_presence(now: datetime, before: datetime) -> None:
    """Pages look again when somebody's lease ended since the last look."""
    lost = Job.objects.filter(
        memberships__current=True, memberships__peer__lease_until__range=(before, now), status=Job.Status.RUNNING
    ).distinct()
    for job_id in lost.values_list("pk", flat=True):
        hint_job(job_id, "participants", "status")
