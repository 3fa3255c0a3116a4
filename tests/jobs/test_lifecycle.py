"""What a coordinator does with a job, in each of its states."""

import pytest
from django.utils.timezone import now

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Dataset, Job, JobEvent, Requeued, Round
from jobs.services import lifecycle, sweeping
from peers.models import Membership
from tests.jobs.world import (
    Participant,
    assert_invariants,
    checkpoint_lists,
    hello,
    make_job,
    merge_due,
    run_to_end,
    start,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def round_of(job):
    return Round.objects.filter(job=job).latest("number")


def running(chunks=4, members=2, **settings):
    job = make_job(chunks=chunks, **settings)
    made = [Participant(job) for _ in range(members)]
    start(job)
    return job, made


# --- start ---


def test_only_a_ready_job_can_be_started():
    job, _ = running()
    with pytest.raises(Conflict, match="only a ready job"):
        lifecycle.job_start(job)


def test_start_counts_whoever_accepted_even_if_they_are_away():
    job = make_job()
    member = Participant(job, ready=False)
    start(job)
    assert (job.status, job.round_no, round_of(job).live) == (Job.Status.RUNNING, 1, 0)
    member.ready()
    assert member.item == "c1"


def test_start_is_refused_when_everybody_left():
    """C19."""
    job = make_job()
    Participant(job).leave()
    with pytest.raises(Conflict) as refused:
        start(job)
    assert refused.value.code == "nobody_trains"


# --- pause and resume ---


def test_pause_lets_slots_finish_and_merges_their_round_but_deals_nothing_new():
    job, (a, b) = running()
    lifecycle.job_pause(job)
    late = Participant(job)
    assert late.item is None
    a.train()
    b.train()
    assert merge_due(job) == 1
    assert Checkpoint.objects.filter(job=job, round=1).exists()
    assert (job.status, job.round_no, a.item, b.item) == (Job.Status.PAUSED, 1, None, None)
    assert_invariants(job)
    lifecycle.job_resume(job)
    assert (a.item, b.item, a.assignment["round"]) == ("c3", "c4", 2)
    assert_invariants(job)


def test_pause_while_slots_fail_requeues_and_deals_after_resume():
    job, (a, b) = running()
    lifecycle.job_pause(job)
    a.fail()
    b.fail()
    assert (a.item, round_of(job).live, round_of(job).deal) == (None, 0, 1)
    lifecycle.job_resume(job)
    assert (a.item, b.item) == ("c1", "c2")
    assert_invariants(job)


def test_resume_before_anything_ended_changes_nothing():
    job, (a, b) = running()
    before = a.assignment["attemptId"]
    lifecycle.job_pause(job)
    lifecycle.job_resume(job)
    assert a.assignment["attemptId"] == before
    assert_invariants(job)


@pytest.mark.parametrize("action", [lifecycle.job_pause, lifecycle.job_resume])
def test_pause_and_resume_are_refused_before_the_start(action):
    job = make_job()
    with pytest.raises(Conflict, match="The job is ready"):
        action(job)


def test_pause_of_a_stale_page_is_told_to_look_again():
    job, _ = running()
    stale = Job.objects.get(pk=job.pk)
    lifecycle.job_pause(job)
    with pytest.raises(Conflict, match="changed meanwhile"):
        lifecycle.job_pause(stale)


def test_going_on_twice_deals_once():
    job, (a, b) = running()
    before = Attempt.objects.count()
    lifecycle.job_go_on(job.pk, now())
    lifecycle.job_go_on(job.pk, now())
    assert Attempt.objects.count() == before
    a.train()
    b.train()
    merge_due(job)
    Job.objects.filter(pk=job.pk).update(status=Job.Status.PAUSED)
    lifecycle.job_go_on(job.pk, now())
    assert_invariants(job)


def test_a_process_that_died_between_two_rounds_is_no_loss():
    """The sweep opens the round that the database says is next."""
    job, (a, b) = running()
    lifecycle.job_pause(job)
    a.train()
    b.train()
    merge_due(job)
    Job.objects.filter(pk=job.pk).update(status=Job.Status.RUNNING)  # Resumed, and killed before going on.
    sweeping.queue_due(now())
    assert (a.item, b.item) == ("c3", "c4")
    assert_invariants(job)


# --- finish ---


def test_finish_merges_what_was_received_and_stops_the_rest():
    job, (a, b) = running()
    stopped = b.attempt
    a.train()
    lifecycle.job_finish(job)
    assert (job.status, round_of(job).state) == (Job.Status.RUNNING, "closing")
    merge_due(job)
    assert (job.status, job.incomplete) == (Job.Status.COMPLETED, True)
    stopped.refresh_from_db()
    assert (stopped.state, stopped.reason) == ("left", "The coordinator finished the job.")
    last = Checkpoint.objects.select_related("job__dataset").get(job=job, round=1)
    lists = checkpoint_lists(last)
    assert (lists.trained, lists.remaining) == (["c1"], ["c2", "c3", "c4"])
    assert b.item is None
    assert_invariants(job)


def test_finish_ends_at_once_when_nothing_was_received():
    job, (a, b) = running()
    lifecycle.job_finish(job)
    assert (job.status, job.incomplete, a.item) == (Job.Status.COMPLETED, True, None)
    assert Checkpoint.objects.filter(job=job).count() == 1
    assert_invariants(job)


def test_finish_after_one_of_three_passes_is_incomplete():
    """Every chunk of this pass is trained, but passes remain."""
    job, (a, b) = running(chunks=2, epochs=3)
    a.train()
    b.train()
    lifecycle.job_finish(job)
    merge_due(job)
    assert (job.status, job.incomplete) == (Job.Status.COMPLETED, True)


def test_finish_of_the_very_last_round_leaves_nothing_incomplete():
    job, (a, b) = running(chunks=2)
    a.train()
    b.train()
    lifecycle.job_finish(job)
    merge_due(job)
    assert (job.status, job.incomplete) == (Job.Status.COMPLETED, False)


def test_finish_while_paused_merges_too():
    job, (a, b) = running()
    a.train()
    lifecycle.job_pause(job)
    lifecycle.job_finish(job)
    merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert Checkpoint.objects.filter(job=job).count() == 2
    assert_invariants(job)


def test_finish_of_a_job_paused_between_rounds_ends_it():
    job, (a, b) = running()
    lifecycle.job_pause(job)
    a.train()
    b.train()
    merge_due(job)
    lifecycle.job_finish(job)
    assert (job.status, job.incomplete) == (Job.Status.COMPLETED, True)


def test_finish_twice_and_finish_of_a_completed_job_change_nothing():
    job, (a, b) = running()
    a.train()
    lifecycle.job_finish(job)
    lifecycle.job_finish(job)
    merge_due(job)
    lifecycle.job_finish(job)
    assert job.status == Job.Status.COMPLETED
    assert JobEvent.objects.filter(job=job, event="job.completed").count() == 1


def test_finish_is_refused_before_the_start():
    with pytest.raises(Conflict, match="delete it instead"):
        lifecycle.job_finish(make_job())


def test_finish_cut_short_is_ended_by_the_sweep():
    job, (a, b) = running()
    a.train()
    Job.objects.filter(pk=job.pk).update(finishing=True)  # Killed right after the first statement.
    sweeping.queue_due(now())
    assert round_of(job).state == "closing"
    merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)


def test_finish_deals_nothing_to_a_late_joiner():
    job, (a, b) = running()
    a.train()
    lifecycle.job_finish(job)
    assert Participant(job).item is None


# --- delete, history ---


def test_delete_is_refused_while_the_job_runs_and_leaves_nothing_behind():
    job, (a, b) = running()
    with pytest.raises(Conflict, match="Pause or finish"):
        lifecycle.job_delete(job)
    a.train()
    lifecycle.job_pause(job)
    lifecycle.job_delete(job)
    for model in (Job, Round, Attempt, Requeued, Checkpoint, Dataset, Membership):
        assert not model.objects.exists(), model
    assert hello(a.peer)


def test_every_change_of_status_is_in_the_history():
    job, (a, b) = running(chunks=2)
    lifecycle.job_pause(job)
    lifecycle.job_resume(job)
    run_to_end(job, [a, b])
    events = [e for e in JobEvent.objects.filter(job=job).values_list("event", flat=True) if e.startswith("job.")]
    assert events == ["job.running", "job.paused", "job.running", "job.completed"]
