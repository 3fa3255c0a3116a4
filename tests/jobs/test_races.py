"""What happens at the same instant: real threads, real transactions, behind a barrier, on both databases.

The two counter races of the design (two last updates; the last update and a late joiner), accepting against expiring,
two mergers, two dealers, one-use invitations, and every pair of operations that lock the same rows in the middle of a
round: none may deadlock, and after each repetition all invariants hold.
"""

import itertools
import random
import time

import pytest
from django.utils.timezone import now

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Requeued, Round, Slot
from jobs.services import lifecycle, participants
from jobs.services.aggregation import round_merge
from jobs.services.settling import attempt_end
from peers.models import Membership
from peers.services.tokens import peer_create
from tests.jobs.racing import FEW, TIMES, together
from tests.jobs.world import (
    Participant,
    assert_invariants,
    hello,
    make_experience_job,
    make_job,
    merge_due,
    open_link,
    received_items,
    run_to_end,
    start,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db, pytest.mark.usefixtures("no_messages")]


def uploader(member, **report):
    """Its upload, with everything read before, so that threads meet in the transaction."""
    assignment = member.assignment
    return lambda: member.upload(assignment, **report)


def round_of(job):
    return Round.objects.filter(job=job).latest("number")


def test_two_last_updates_close_the_round_once():
    """Decision 3: a look at other rows leaves it open for ever here."""
    job = make_job(chunks=2 * TIMES)
    a, b = Participant(job), Participant(job)
    start(job)
    for number in range(1, TIMES + 1):
        assert together(uploader(a), uploader(b)) == [False, False]
        at = round_of(job)
        assert (at.number, at.state, at.live, at.received) == (number, "closing", 0, 2)
        merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)


@pytest.mark.parametrize("inputs", ["none", "dataset"])
def test_two_last_updates_of_no_unit_deal_once_more(inputs):
    """A round in which nobody finished a unit is dealt again by one of them, and nobody else gets its units."""
    job = make_experience_job(inputs=inputs, chunks=2 * FEW, epochs=FEW)
    a, b = Participant(job), Participant(job)
    start(job)
    for number in range(1, FEW + 1):
        assert together(uploader(a, uniqueExamples=0), uploader(b, uniqueExamples=0)) == [False, False]
        at = round_of(job)
        assert (at.number, at.state, at.deal, at.live, at.received) == (number, "open", 1, 2, 0)
        assert together(uploader(a, uniqueExamples=0), uploader(b)) == [False, False]
        at = round_of(job)
        assert (at.state, at.deal, at.live, at.received) == ("closing", 1, 0, 1)
        Requeued.objects.filter(job=job).update(errors=0)
        merge_due(job)
        assert_counters(job)
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)


def test_the_last_update_and_a_late_joiner():
    """Decision 3: the round closes without it, or waits for it; never closes over it."""
    job = make_job(chunks=3 * TIMES)
    a, late = Participant(job), Participant(job)
    late.lost()
    start(job)
    joined = 0
    for _ in range(TIMES):
        late.seen(now())
        results = together(uploader(a), late.ready)
        assert results == [False, None]
        at = round_of(job)
        if late.assignment and late.assignment["round"] == at.number and at.state == "open":
            joined += 1
            late.lost()
            late.train()
        late.lost()
        assert merge_due(job) == 1
        assert late.item is None
        assert_counters(job)
    assert_invariants(job)
    print(f"the late joiner was in time {joined} times of {TIMES}")


def test_accepting_against_expiring():
    """One wins: the update counts, or the item goes back; the round's counters know which."""
    job = make_job(chunks=3 * TIMES)
    a, b = Participant(job), Participant(job)
    start(job)
    won = 0
    for _ in range(TIMES):
        b.train()
        attempt = a.attempt

        def expire(attempt=attempt):
            return attempt_end(attempt.pk, state=Attempt.State.EXPIRED, reason="time is up", now=now())

        accepted, expired = together(uploader(a), expire)
        if accepted is False:
            won += 1
            assert expired is False
        else:
            assert isinstance(accepted, Conflict) and accepted.code == "stale_attempt"
            assert expired is True
        assert round_of(job).state == "closing"
        merge_due(job)
        assert_counters(job)
    assert_invariants(job)
    print(f"accepting won {won} times of {TIMES}")


def test_the_same_upload_many_times_at_once():
    """C24, U1."""
    job = make_job(chunks=3 * FEW)
    a, b = Participant(job), Participant(job)
    start(job)
    for _ in range(FEW):
        send = uploader(a)
        results = together(send, send, send)
        assert sorted(results) == [False, True, True]
        b.train()
        merge_due(job)
    assert_invariants(job)


def test_different_bytes_of_one_attempt_at_once():
    """C24, U2."""
    job = make_job(chunks=3 * FEW)
    a, b = Participant(job), Participant(job)
    start(job)
    for _ in range(FEW):
        assignment = a.assignment
        results = together(
            lambda assignment=assignment: a.upload(assignment),
            lambda assignment=assignment: a.upload(assignment, weights=bytes(16)),
        )
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "bool"]
        b.train()
        merge_due(job)
    assert_invariants(job)


def test_two_mergers_make_one_checkpoint():
    """S3."""
    job = make_job(chunks=2 * TIMES)
    a, b = Participant(job), Participant(job)
    start(job)
    for number in range(1, TIMES + 1):
        a.train()
        b.train()
        at = round_of(job).pk
        assert together(lambda at=at: round_merge(at), lambda at=at: round_merge(at)) == [None, None]
        assert Checkpoint.objects.filter(job=job).count() == number + 1
    assert_invariants(job)
    assert job.status == Job.Status.COMPLETED


def test_two_dealers_open_one_round():
    """One wins the job's round number; nobody gets two items, no item goes to two."""
    job = make_job(chunks=4 * TIMES)
    members = [Participant(job) for _ in range(3)]
    start(job)
    for _ in range(TIMES):
        lifecycle.job_pause(Job.objects.get(pk=job.pk))
        for member in members:
            if member.item:
                member.train()
        merge_due(job)
        Job.objects.filter(pk=job.pk).update(status=Job.Status.RUNNING)
        go_on = lambda: lifecycle.job_go_on(job.pk, now())  # noqa: E731
        together(go_on, go_on, members[0].ready, members[1].ready)
        assert Attempt.objects.filter(slot__round=round_of(job), state="live").count() == 3
        assert_counters(job)
    assert_invariants(job)


def test_peers_that_get_ready_at_the_same_instant_get_different_items():
    """C29."""
    job = make_job(chunks=4, epochs=FEW)
    members = [Participant(job, ready=False) for _ in range(4)]
    start(job)
    for _ in range(FEW):
        assert together(*(member.ready for member in members)) == [None] * 4
        assert sorted(member.item for member in members) == ["c1", "c2", "c3", "c4"]
        Membership.objects.update(ready_for="")
        for member in members:
            member.train()
        merge_due(job)
    assert_invariants(job)


def test_peers_that_get_ready_at_the_same_instant_get_different_units():
    """One of them begins the deal, with all that are ready then; the others wait for the next."""
    job = make_experience_job(epochs=FEW)
    members = [Participant(job, ready=False) for _ in range(3)]
    start(job)
    for number in range(1, FEW + 1):
        assert together(*(member.ready for member in members)) == [None] * 3
        found = [member for member in members if member.item]
        assert found and len({member.item for member in found}) == len(found)
        assert (round_of(job).number, round_of(job).live) == (number, len(found))
        Membership.objects.update(ready_for="")
        for member in found:
            member.train()
        merge_due(job)
    assert_invariants(job)


def test_forty_chunks_four_threads_three_epochs():
    """C29: no chunk in two slots of a round, each once per pass, 3 × 40 accepted updates."""
    job = make_job(chunks=40, epochs=3)
    members = [Participant(job) for _ in range(4)]
    start(job)

    def play(member):
        def run():
            for _ in range(2000):
                if Job.objects.get(pk=job.pk).status == Job.Status.COMPLETED:
                    return
                if member.assignment:
                    member.train()
                else:
                    time.sleep(0.005)
                for at in Round.objects.filter(job=job, state="closing").values_list("pk", flat=True):
                    round_merge(at)
            raise AssertionError("the job did not end")

        return run

    assert together(*(play(member) for member in members)) == [None] * 4
    everything = sorted(f"c{i + 1}" for i in range(40))
    assert {p: sorted(c) for p, c in received_items(job).items()} == dict.fromkeys(range(3), everything)
    assert Attempt.objects.filter(state="received").count() == 120
    assert Checkpoint.objects.filter(job=job).count() == 31
    assert_invariants(job)


def test_leaving_while_work_is_dealt_leaves_no_work_behind():
    """P13: a deal that read the members before must not give an item to one that is gone."""
    job = make_job(chunks=4 * FEW)
    a, b = Participant(job), Participant(job)
    start(job)
    for _ in range(FEW):
        a.train()
        b.train()
        at = round_of(job).pk
        assert together(lambda at=at: round_merge(at), b.leave) == [None, None]
        assert b.item is None
        assert a.item is not None
        assert_counters(job)
        open_link(b.peer, job)
        participants.invitation_decide(b.peer, job.pk, True, now())
        b.ready()
        if b.item is None:
            a.train()
            merge_due(job)
    assert_invariants(job)


def test_pausing_while_the_last_update_comes_keeps_the_update():
    """An accepted update is never rolled back by what its coordinator does at the same time."""
    job = make_job(chunks=3 * FEW)
    a, b = Participant(job), Participant(job)
    start(job)
    for turn in range(FEW):
        b.fail() if turn % 2 else b.train()
        current = Job.objects.get(pk=job.pk)
        accepted, paused = together(uploader(a), lambda current=current: lifecycle.job_pause(current))
        assert (accepted, paused) == (False, None)
        merge_due(job)
        assert job.status == Job.Status.PAUSED
        lifecycle.job_resume(job)
        Requeued.objects.filter(job=job).update(errors=0)
        assert_counters(job)
    assert_invariants(job)


@pytest.mark.parametrize("inputs", [None, "none", "dataset"])
def test_everything_at_once_never_deadlocks(inputs):
    """Whatever meets whatever: pairs and triples of operations on the same rows."""
    options = {"epochs": 50, "coordinatorParticipates": True, "capabilities": {"recordRanges": True}}
    job = make_job(chunks=60, **options) if inputs is None else make_experience_job(inputs=inputs, chunks=6, **options)
    device = peer_create()[0]
    participants.job_open(job, device)
    members = [Participant(job) for _ in range(4)]
    start(job)
    rng = random.Random(7)
    jitter = itertools.count(1)

    def fresh():
        return Job.objects.get(pk=job.pk)

    def toggle():
        current = fresh()
        lifecycle.job_pause(current) if current.status == Job.Status.RUNNING else lifecycle.job_resume(current)

    def upload(member, **report):
        found = member.assignment
        return member.upload(found, **report) if found else None

    def fail(member):
        found = member.assignment
        return member.fail(assignment=found) if found else None

    def merges():
        for at in Round.objects.filter(job=job, state="closing").values_list("pk", flat=True):
            round_merge(at)

    def retry():
        for row in Requeued.objects.filter(job=job, held=True):
            lifecycle.item_retry(fresh(), row.pk)

    def pause_member(member):
        participants.participant_pause(job, member.peer.pk, True)
        participants.participant_pause(job, member.peer.pk, False)

    operations = [
        *(lambda m=m: upload(m) for m in members),
        *(lambda m=m: upload(m) for m in members),
        *(lambda m=m: fail(m) for m in members[:1]),
        *(lambda m=m: upload(m, uniqueExamples=0) for m in members[1:] if inputs),
        *(lambda m=m: pause_member(m) for m in members[1:3]),
        *(lambda m=m: hello(m.peer) for m in members[2:]),
        *(m.ready for m in members),
        toggle,
        merges,
        merges,
        retry,
        lambda: lifecycle.job_shuffle(fresh()),
        lambda: lifecycle.job_update_settings(fresh(), {"batchSize": next(jitter)}),
        lambda: lifecycle.job_update_settings(fresh(), {"coordinatorParticipates": next(jitter) % 2 == 0}),
        lambda: participants.job_open(fresh(), device),
        lambda: participants.participant_ready(device, job.pk, job.module_id, {}),
        lambda: lifecycle.job_go_on(job.pk, now()),
    ]
    for _ in range(4 * FEW):
        for result in together(*rng.sample(operations, 4)):
            assert not isinstance(result, Exception) or isinstance(result, Conflict), result
        assert_counters(job)
    assert_invariants(job)
    if fresh().status == Job.Status.PAUSED:
        lifecycle.job_resume(fresh())
    at_work = fresh().round_no if inputs else fresh().pass_no + 1
    lifecycle.job_update_settings(fresh(), {"epochs": at_work, "coordinatorParticipates": False})
    participants.participant_leave(device, job.pk)
    run_to_end(job, members)
    assert_invariants(job)


def assert_counters(job):
    at = round_of(job)
    assert at.live == Attempt.objects.filter(slot__round=at, state="live").count()
    places = list(Slot.objects.filter(round=at).exclude(status="stopped").values_list("position", "record_start"))
    assert len(set(places)) == len(places)
