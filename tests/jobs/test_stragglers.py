"""Round 4: how long a slot may take."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from checkpoints.models import Upload
from jobs.models import Attempt, Slot
from jobs.services.sweeping import expire, stragglers
from tests.jobs.world import (
    Participant,
    assert_invariants,
    hello,
    make_experience_job,
    make_job,
    merge_due,
    start,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def seconds(count):
    return timedelta(seconds=count)


@pytest.fixture
def two():
    job = make_job(chunks=6)
    members = Participant(job), Participant(job)
    start(job)
    return job, *members


def age(member, by):
    """Its slot began so long ago."""
    Slot.objects.filter(peer=member.peer, status="loading").update(started_at=now() - seconds(by))


def test_any_slot_ends_after_the_assignment_timeout(two):
    job, a, b = two
    Attempt.objects.filter(peer=a.peer).update(deadline=now() - seconds(1))
    expire(now())
    assert (a.item, b.item) == (None, "c2")
    assert Attempt.objects.get(peer=a.peer).reason == "It took longer than 30 minutes."
    assert Attempt.objects.get(peer=a.peer).state == "expired"


def test_a_reload_does_not_extend_the_time():
    job = make_job()
    a = Participant(job)
    start(job)
    age(a, 1700)
    hello(a.peer)
    assert a.attempt.deadline <= now() + seconds(101)


def test_a_straggler_is_stopped_and_its_late_update_refused(two):
    """P4, C30: max(30 s, 5 × the median of the finished)."""
    job, a, b = two
    late = b.assignment
    age(a, 20)
    a.train()
    age(b, 99)
    assert stragglers(now()) == []
    age(b, 102)
    expire(now())
    gone = Attempt.objects.get(peer=b.peer)
    assert (gone.state, b.item) == ("expired", None)
    assert gone.reason.startswith("It took longer than 10")
    with pytest.raises(Conflict):
        b.upload(late)
    merge_due(job)
    assert a.item == "c2"
    assert_invariants(job)


@pytest.mark.parametrize("units", [0, 8])
def test_units_have_stragglers_too(units):
    """Also when those who wait have finished no unit: `received` does not count them."""
    job = make_experience_job()
    a, b = Participant(job), Participant(job)
    start(job)
    late = b.attempt
    a.train(uniqueExamples=units)
    age(b, 29)
    assert stragglers(now()) == []
    age(b, 31)
    expire(now())
    late.refresh_from_db()
    assert late.state == "expired"
    merge_due(job)
    assert (a.item, b.item) == ("units-16-24", "units-24-32")
    assert_invariants(job)


def test_nobody_is_a_straggler_within_thirty_seconds_or_before_anybody_finished(two):
    job, a, b = two
    age(a, 1000)
    age(b, 1000)
    assert stragglers(now()) == []
    age(a, 0)
    a.train()
    age(b, 29)
    assert stragglers(now()) == []
    age(b, 31)
    assert [attempt.peer_id for attempt, _ in stragglers(now())] == [b.peer.pk]


def test_a_peer_that_is_always_slow_is_measured_by_its_own_median(two):
    job, a, b = two
    for _ in range(2):
        age(a, 1)
        age(b, 60)
        a.train()
        b.train()
        merge_due(job)
    age(a, 1)
    a.train()
    age(b, 250)
    assert stragglers(now()) == []
    age(b, 310)
    assert len(stragglers(now())) == 1


def test_straggler_factor_zero_means_never():
    job = make_job(stragglerFactor=0)
    a, b = Participant(job), Participant(job)
    start(job)
    a.train()
    age(b, 1700)
    assert stragglers(now()) == []


def test_the_deadline_moves_while_bytes_arrive(two):
    """Round 4: slices of its update came within the last 30 s."""
    job, a, b = two
    a.train()
    age(b, 500)
    upload = Upload.objects.create(
        kind="update", peer=b.peer, attempt_id=b.attempt.pk, sha256="0" * 64, length=16, touched=now() - seconds(20)
    )
    assert stragglers(now()) == []
    assert len(stragglers(now() + seconds(11))) == 1
    Upload.objects.filter(pk=upload.pk).update(done=True)
    assert len(stragglers(now())) == 1
