"""Round 4 and 5: how slots end, when a round closes, and which failures pause the job."""

import pytest
from django.utils.timezone import now

from checkpoints.models import Checkpoint
from jobs.models import Job, Requeued, Round
from jobs.services import lifecycle
from jobs.services.sweeping import expire, queue_due
from tests.jobs.world import Participant, assert_invariants, checkpoint_lists, make_job, merge_due, run_to_end, start
from weei_core.errors import Conflict, NotFound

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def round_of(job):
    return Round.objects.filter(job=job).latest("number")


def failing(job, members, times):
    """Fail the item at the front so often."""
    for _ in range(times):
        next(m for m in members if m.assignment).fail("it trapped")


def test_a_round_closes_when_every_slot_ended_and_something_was_received():
    job = make_job(chunks=4)
    a, b, c = (Participant(job) for _ in range(3))
    start(job)
    a.train()
    b.fail()
    assert round_of(job).state == "open"
    c.leave()
    at = round_of(job)
    assert (at.state, at.live, at.received) == ("closing", 0, 1)
    assert at.closing_at is not None
    assert_invariants(job)


def test_an_error_counts_for_the_item_and_a_loss_does_not():
    job = make_job(chunks=4)
    a, b, c, d = (Participant(job) for _ in range(4))
    start(job)
    a.fail()
    b.leave()
    c.lost()
    expire(now())
    assert dict(Requeued.objects.filter(job=job).values_list("position", "errors")) == {0: 1, 1: 0, 2: 0}
    d.train()
    merge_due(job)
    assert (a.item, a.attempt.slot.errors) == ("c1", 1)
    assert (d.item, d.attempt.slot.errors) == ("c2", 0)
    assert_invariants(job)


def test_nothing_received_deals_the_same_round_again():
    """C06, C25, P6, U9: no empty aggregation; the items are back in the queue."""
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    a.leave()
    b.leave()
    at = round_of(job)
    assert (at.number, at.state, at.deal, at.live, at.received) == (1, "open", 1, 0, 0)
    assert list(Requeued.objects.filter(job=job).values_list("position", flat=True)) == [0, 1]
    assert Checkpoint.objects.filter(job=job).count() == 1
    assert job.status == Job.Status.RUNNING
    c = Participant(job)
    assert (c.item, c.assignment["round"]) == ("c1", 1)
    run_to_end(job, [c])
    assert_invariants(job)


def test_an_item_that_failed_three_times_pauses_the_job_and_is_named():
    """Round 5."""
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    b.train()  # Resets what counts as failed deals; c1 alone fails below.
    failing(job, [a], 1)
    merge_due(job)
    failing(job, [a], 1)
    assert job.status == Job.Status.RUNNING
    failing(job, [a], 1)
    job.refresh_from_db()
    assert job.status == Job.Status.PAUSED
    assert f"c1 failed 3 times, last on peer {str(a.peer.pk)[:8]}: it trapped" in job.last_error
    held = Requeued.objects.get(job=job)
    assert (held.held, held.errors, held.last_error) == (True, 3, "it trapped")
    assert a.item is None
    assert_invariants(job)


def paused_by_item(chunks=2, epochs=1, **settings):
    """A job of which c1 was tried three times in vain; the rest of the pass is trained."""
    job = make_job(chunks=chunks, epochs=epochs, **settings)
    a, b = Participant(job), Participant(job)
    start(job)
    for _ in range(20):
        job.refresh_from_db()
        if job.status == Job.Status.PAUSED:
            break
        for member in (a, b):
            if member.item == "c1":
                member.fail()
            elif member.item:
                member.train()
        merge_due(job)
    assert job.status == Job.Status.PAUSED
    merge_due(job)
    return job, a, b, Requeued.objects.get(job=job, held=True)


def test_retry_deals_the_held_item_again_with_its_errors_forgotten():
    job, a, b, held = paused_by_item()
    lifecycle.item_retry(job, held.pk)
    job.refresh_from_db()
    assert (job.status, job.last_error) == (Job.Status.RUNNING, "")
    assert "c1" in (a.item, b.item)
    run_to_end(job, [a, b])
    assert not job.incomplete
    assert_invariants(job)


def test_resume_tries_held_items_again():
    job, a, b, held = paused_by_item()
    lifecycle.job_resume(job)
    run_to_end(job, [a, b])
    assert not job.incomplete
    assert_invariants(job)


def test_skip_of_the_last_item_of_the_last_pass_completes_the_job():
    """A round that has nothing left to deal must not wait for ever. What was skipped remains in the checkpoint."""
    job, a, b, held = paused_by_item()
    lifecycle.item_skip(job, held.pk)
    job.refresh_from_db()
    assert (job.status, job.incomplete, job.skipped_items) == (Job.Status.COMPLETED, True, 1)
    assert a.item is None and b.item is None
    last = Checkpoint.objects.select_related("job__dataset").filter(job=job).last()
    assert checkpoint_lists(last).remaining == ["c1"]
    assert_invariants(job)


def test_skip_of_the_last_item_of_a_pass_goes_on_with_the_next_pass():
    job, a, b, held = paused_by_item(epochs=2)
    rounds = job.round_no
    lifecycle.item_skip(job, held.pk)
    job.refresh_from_db()
    assert (job.status, job.pass_no) == (Job.Status.RUNNING, 1)
    at = round_of(job)
    assert at.pass_no == 1
    assert sorted([a.item, b.item]) == ["c1", "c2"]
    run_to_end(job, [a, b])
    assert job.incomplete
    assert job.round_no <= rounds + 2
    assert not Requeued.objects.exists()
    assert_invariants(job)


def test_skip_completes_the_job_also_while_nobody_is_connected():
    job, a, b, held = paused_by_item()
    a.lost()
    b.lost()
    lifecycle.item_skip(job, held.pk)
    job.refresh_from_db()
    assert job.status == Job.Status.COMPLETED


def test_skip_before_the_round_is_merged_lets_the_merge_end_the_pass(settings):
    settings.ITEM_ERRORS = 1
    job = make_job(chunks=2, epochs=2)
    a, b = Participant(job), Participant(job)
    start(job)
    a.train()
    b.fail()
    job.refresh_from_db()
    assert (job.status, round_of(job).state) == (Job.Status.PAUSED, "closing")
    lifecycle.item_skip(job, Requeued.objects.get(job=job).pk)
    assert merge_due(job) == 1
    assert (job.status, job.pass_no, round_of(job).pass_no) == (Job.Status.RUNNING, 1, 1)
    assert [a.item, b.item] == ["c1", "c2"]
    assert_invariants(job)


def test_a_skipped_item_cannot_be_decided_twice():
    job, a, b, held = paused_by_item(epochs=2)
    lifecycle.item_skip(job, held.pk)
    with pytest.raises(NotFound):
        lifecycle.item_skip(job, held.pk)
    with pytest.raises(NotFound):
        lifecycle.item_retry(job, held.pk)
    job.refresh_from_db()
    assert job.skipped_items == 1


def test_the_job_goes_on_only_when_no_item_is_held(settings):
    settings.ITEM_ERRORS = 1
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    a.fail()
    b.fail()
    first, second = Requeued.objects.filter(job=job, held=True)
    lifecycle.item_retry(job, first.pk)
    job.refresh_from_db()
    assert job.status == Job.Status.PAUSED
    lifecycle.item_skip(job, second.pk)
    job.refresh_from_db()
    assert job.status == Job.Status.RUNNING
    assert (a.item, b.item) == ("c1", None)
    assert_invariants(job)


def test_three_deals_that_ended_only_in_errors_pause_the_job(settings):
    """Round 5."""
    settings.ITEM_ERRORS = 100
    job = make_job(chunks=9)
    a, b = Participant(job), Participant(job)
    start(job)
    for deal in range(3):
        assert round_of(job).deal == deal
        a.fail()
        b.fail()
    job.refresh_from_db()
    assert job.status == Job.Status.PAUSED
    assert "3 deals in a row ended only in errors" in job.last_error
    assert not Requeued.objects.filter(held=True).exists()
    lifecycle.job_resume(job)
    assert (a.item, b.item) == ("c1", "c2")
    assert_invariants(job)


def test_a_loss_does_not_count_as_a_failed_deal_and_a_success_starts_anew(settings):
    settings.ITEM_ERRORS = 100
    job = make_job(chunks=20)
    a = Participant(job)
    start(job)
    a.fail()
    a.fail()
    job.refresh_from_db()
    assert job.failed_deals == 2
    a.lost()
    expire(now())
    job.refresh_from_db()
    assert job.failed_deals == 2
    a.seen(now())
    queue_due(now())
    a.train()
    merge_due(job)
    assert job.failed_deals == 0
    a.fail()
    job.refresh_from_db()
    assert (job.status, job.failed_deals) == (Job.Status.RUNNING, 1)
    assert_invariants(job)


def test_a_vanished_participant_does_not_hold_the_others_up():
    """C25, P1: 3 participants, 6 chunks, one is gone; every chunk once per pass."""
    job = make_job(chunks=6)
    a, b, c = (Participant(job) for _ in range(3))
    start(job)
    lost = c.item
    c.lost()
    expire(now())
    assert Requeued.objects.get(job=job).position == 2
    assert lost == "c3"
    a.train()
    b.train()
    merge_due(job)
    assert "c3" in (a.item, b.item)
    run_to_end(job, [a, b])
    assert_invariants(job)
    assert not job.incomplete


def test_ending_an_attempt_twice_changes_nothing():
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    attempt = a.attempt
    a.leave()
    a.leave()
    with pytest.raises(Conflict):
        a.upload({**b.assignment, "attemptId": str(attempt.pk)})
    assert round_of(job).live == 1
    assert_invariants(job)
