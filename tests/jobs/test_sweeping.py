"""Round 4 and 7, design decision 5: who is expired, who is not, and what the sweep queues again. `now` is a parameter
everywhere, so that no test waits."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, JobDraft, Requeued, Round, Slot, Sweep
from jobs.services import lifecycle, sweeping
from jobs.services.sweeping import Sweeper, expire, queue_due
from peers.models import Membership, Peer
from peers.services.presence import heartbeats
from tests.jobs.world import (
    Participant,
    assert_invariants,
    make_job,
    merge_due,
    owner,
    run_to_end,
    start,
)

pytestmark = [pytest.mark.django_db, pytest.mark.db]
HOUR = timedelta(hours=1)


def seconds(count):
    return timedelta(seconds=count)


class Clock:
    """Wall and monotonic time of one server, and a sweeper in it."""

    def __init__(self):
        self.now, self.monotonic, self.sweeper = now(), 1000.0, Sweeper()

    def step(self, wall, monotonic=None):
        self.now += seconds(wall)
        self.monotonic += wall if monotonic is None else monotonic

    def sweep(self):
        return self.sweeper.sweep(self.now, self.monotonic)


@pytest.fixture
def clock():
    heartbeats.flush(now())
    made = Clock()
    assert made.sweep() is False  # A first look expires nothing.
    return made


@pytest.fixture
def two():
    job = make_job(chunks=6)
    members = Participant(job), Participant(job)
    start(job)
    return job, *members


@pytest.fixture
def queued(monkeypatch):
    found = []
    monkeypatch.setattr(sweeping, "enqueue", lambda task, *args: found.append((task.rsplit(".", 1)[1], *args)))
    return found


# --- leases ---


def test_a_peer_that_is_silent_for_thirty_seconds_loses_its_slot(two, clock):
    """C25, C27, P1: whatever became of its socket."""
    job, a, b = two
    clock.step(5)
    assert clock.sweep()
    assert a.item and b.item
    for _ in range(6):
        clock.step(5)
        a.seen(clock.now)
        assert clock.sweep()
    assert (a.item, b.item) == ("c1", None)
    gone = Attempt.objects.get(peer=b.peer)
    assert (gone.state, gone.reason) == ("expired", "The participant was not heard from any more.")
    assert Requeued.objects.get(job=job).position == 1
    assert_invariants(job)


def test_a_heartbeat_of_this_process_counts_before_anything_expires(two, clock):
    job, a, b = two
    Peer.objects.update(lease_until=clock.now + seconds(4))
    heartbeats.note(a.peer.pk)
    clock.step(5)
    assert clock.sweep()
    assert (a.item, b.item) == ("c1", None)


def test_a_peer_heard_from_while_the_sweep_looks_keeps_its_work(two, monkeypatch):
    """The condition is asked again in the update."""
    job, a, b = two
    a.lost()
    ended = sweeping.attempt_end

    def heard_first(attempt_id, **options):
        a.seen(now())
        return ended(attempt_id, **options)

    monkeypatch.setattr(sweeping, "attempt_end", heard_first)
    expire(now())
    assert a.item == "c1"


def test_what_goes_wrong_with_one_does_not_keep_the_others(two, monkeypatch):
    """S14."""
    job, a, b = two
    a.lost()
    b.lost()
    ended = sweeping.attempt_end
    broken = a.attempt.pk

    def fails_for_one(attempt_id, **options):
        if attempt_id == broken:
            raise RuntimeError("boom")
        return ended(attempt_id, **options)

    monkeypatch.setattr(sweeping, "attempt_end", fails_for_one)
    expire(now())
    assert (a.item, b.item) == ("c1", None)


# --- gaps in the server's own life, and clocks that are set ---


@pytest.mark.parametrize("gap", [11, 60, 86_400])
def test_after_an_outage_nobody_loses_work_and_no_time_counts(two, clock, gap):
    """S12, S15: the wall clock tells."""
    job, a, b = two
    deadlines = dict(Attempt.objects.values_list("pk", "deadline"))
    starts = dict(Slot.objects.values_list("pk", "started_at"))
    clock.step(gap)
    assert clock.sweep() is False
    assert a.item and b.item
    for attempt in Attempt.objects.select_related("peer", "slot"):
        assert attempt.deadline == deadlines[attempt.pk] + seconds(gap)
        assert attempt.slot.started_at == starts[attempt.slot_id] + seconds(gap)
        assert attempt.peer.lease_until == clock.now + seconds(30)
    clock.step(5)
    assert clock.sweep()  # Life goes on.
    assert a.item and b.item
    assert_invariants(job)


def test_after_a_sleep_of_the_machine_the_monotonic_clock_tells_nothing(two, clock):
    """C75: Linux stops it; the wall clock still shows the gap."""
    job, a, b = two
    clock.step(600, monotonic=0)
    assert clock.sweep() is False
    assert a.item and b.item


def test_a_process_that_was_stopped_expires_nothing_at_its_first_look(two, clock):
    """Another process kept sweeping, so there is no gap on the wall; this one missed its heartbeats."""
    job, a, b = two
    other = Sweeper()
    for _ in range(7):
        clock.step(5)
        Peer.objects.update(lease_until=clock.now + seconds(30))
        other.sweep(clock.now, clock.monotonic)
    Peer.objects.update(lease_until=clock.now + seconds(1))
    clock.step(3)
    assert clock.sweep() is False
    assert a.item and b.item


def test_a_clock_set_forward_an_hour_expires_nobody(two, clock):
    """S12."""
    job, a, b = two
    clock.step(3600, monotonic=5)
    assert clock.sweep() is False
    assert a.item and b.item
    clock.step(5)
    assert clock.sweep()
    assert a.item and b.item
    assert_invariants(job)


def test_a_clock_set_back_an_hour_leaves_no_lease_in_the_future(two, clock):
    """S12: whoever was gone stays gone, whoever was there has 30 s, deadlines are as far away as they were."""
    job, a, b = two
    b.seen(clock.now - seconds(50))
    deadline = a.attempt.deadline
    clock.step(5)
    before = clock.now
    assert clock.sweep()
    assert b.item is None
    clock.step(-3600, monotonic=5)
    assert clock.sweep() is False
    a.peer.refresh_from_db()
    b.peer.refresh_from_db()
    assert a.peer.lease_until == clock.now + seconds(30)
    assert b.peer.lease_until < clock.now
    assert a.attempt.deadline == deadline + (clock.now - before)
    clock.step(5)
    assert clock.sweep()
    assert a.item == "c1"
    for _ in range(7):
        clock.step(5)
        clock.sweep()
    assert a.item is None  # And the lease does end.
    assert_invariants(job)


def test_a_clock_set_back_does_not_keep_a_dead_merge_waiting(two, clock, queued):
    job, a, b = two
    a.train()
    b.train()
    Round.objects.filter(job=job).update(merging_at=clock.now)
    clock.step(-3600, monotonic=5)
    clock.sweep()
    queued.clear()
    for _ in range(4):
        clock.step(5)
        clock.sweep()
    assert ("merge", Round.objects.get(job=job).pk) in queued


def test_two_sweepers_are_one_sequence(two):
    """S15: a gap counts once."""
    job, a, b = two
    at, first, second = now(), Sweeper(), Sweeper()
    for sweeper in (first, second):
        sweeper.sweep(at, 0)
    deadline = a.attempt.deadline
    first.sweep(at + seconds(60), 60)
    second.sweep(at + seconds(60), 60)
    assert a.attempt.deadline == deadline + seconds(60)
    assert Sweep.objects.count() == 1


def test_a_sweep_that_another_process_took_does_nothing(two, clock, monkeypatch):
    job, a, b = two
    a.lost()
    monkeypatch.setattr(Sweeper, "_take", lambda self, at: (False, None))
    clock.step(5)
    assert clock.sweep() is False
    assert a.item == "c1"


@pytest.mark.parametrize("gone", [{"current": False}, {"paused_by_peer": True}, {"paused_by_coordinator": True}])
def test_work_of_somebody_who_left_or_paused_goes_back_though_the_server_died_in_between(two, gone):
    job, a, b = two
    mine, other = b.attempt, a.attempt
    Membership.objects.filter(pk=b.membership.pk).update(**gone)
    expire(now())
    assert Attempt.objects.get(pk=mine.pk).state == "expired"
    assert Attempt.objects.get(pk=other.pk).state == "live"


# --- what is due ---


def test_merges_are_queued_again_after_fifteen_seconds_without_a_sign(two, queued):
    """S1, S2: a worker began to merge and was killed."""
    job, a, b = two
    a.train()
    b.train()
    Round.objects.filter(job=job).update(tries=1)
    at = Round.objects.get(job=job)
    queue_due(at.merging_at + seconds(14))
    assert queued == []
    queue_due(at.merging_at + seconds(16))
    assert queued == [("merge", at.pk)]
    lifecycle.job_pause(job)
    queued.clear()
    queue_due(at.merging_at + seconds(16))
    assert queued == [("merge", at.pk)]  # What was received before the pause is merged.


def test_a_merge_that_nobody_began_is_queued_again_at_the_next_sweep(two, queued):
    """S6: the web server died, or Redis was away, between the commit and the queueing."""
    job, a, b = two
    a.train()
    b.train()
    at = Round.objects.get(job=job)
    queue_due(at.closing_at + seconds(4))
    assert queued == []
    queue_due(at.closing_at + seconds(6))
    assert queued == [("merge", at.pk)]


def test_a_paused_job_whose_merge_used_up_its_tries_waits_for_its_coordinator(two, queued, settings):
    job, a, b = two
    a.train()
    b.train()
    Round.objects.filter(job=job).update(tries=settings.MERGE_TRIES)
    merge_due(job)
    queue_due(now() + HOUR)
    assert (job.status, queued) == (Job.Status.PAUSED, [])


def test_a_failed_round_of_a_running_job_is_merged_again(two):
    """A resume that was cut short."""
    job, a, b = two
    a.train()
    b.train()
    Round.objects.filter(job=job).update(state="failed")
    queue_due(now())
    assert Round.objects.get(job=job).state == "closing"
    run_to_end(job, [a, b])
    assert_invariants(job)


def test_validations_and_drafts_whose_worker_is_gone_are_queued_again(queued):
    job = make_job()
    first = Checkpoint.objects.get(job=job)
    made = JobDraft.objects.create(owner=owner(), request_text="{}")
    at = now()
    for state, lease, due in (
        ("due", None, True),
        ("running", at - seconds(1), True),
        ("running", at + seconds(1), False),
        ("done", None, False),
        ("failed", None, False),
    ):
        Checkpoint.objects.filter(pk=first.pk).update(validation=state, validation_lease=lease)
        queued.clear()
        queue_due(at)
        assert (("evaluate", first.pk) in queued) is due
    for state, lease, due in (
        ("queued", None, True),
        ("preparing", at - seconds(1), True),
        ("preparing", at + seconds(1), False),
        ("done", None, False),
    ):
        JobDraft.objects.filter(pk=made.pk).update(state=state, lease_until=lease)
        queued.clear()
        queue_due(at)
        assert (("prepare", str(made.pk)) in queued) is due


def test_sweeping_a_job_at_work_changes_nothing(two, queued):
    job, a, b = two
    a.train()
    before = list(Attempt.objects.order_by("pk").values()), list(Round.objects.values()), list(Job.objects.values())
    for _ in range(3):
        queue_due(now())
    after = list(Attempt.objects.order_by("pk").values()), list(Round.objects.values()), list(Job.objects.values())
    assert (before, queued) == (after, [])


def test_a_job_goes_on_by_polling_and_sweeping_alone(two):
    """P12, I9: no message arrives; only the database, the sweep and the merges that it queues."""
    job, a, b = two
    at = now()
    for _ in range(40):
        at += seconds(16)
        for member in (a, b):
            member.seen(at)
            if member.item:
                member.train()
        queue_due(at)
        merge_due(job)
        if job.status == Job.Status.COMPLETED:
            break
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)
