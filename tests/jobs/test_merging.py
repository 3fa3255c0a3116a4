"""Round 5 and 7: a round becomes exactly one checkpoint, by the formulas, whatever happens on the way."""

import json

import numpy as np
import pytest
from django.utils.timezone import now

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_put_bytes
from checkpoints.store import store
from jobs.models import Attempt, Job, JobEvent, Round
from jobs.services import lifecycle, sweeping
from jobs.services.aggregation import _commit, merge_slots, received_slots, round_merge
from jobs.services.updates import update_accept
from tests.jobs.two_updates import W0, A, B, first_round, latest, pair
from tests.jobs.world import (
    Participant,
    assert_invariants,
    floats,
    make_job,
    merge_due,
    run_to_end,
    start,
    weights_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def test_a_step_that_overflows_fails_whole_and_resume_merges_the_same_updates():
    """C10, U15: pause → settings change → resume."""
    job = make_job(
        chunks=3, weights=[3e38], aggregation={"method": "fedavgm", "serverLearningRate": 10, "momentum": 0.9}
    )
    a = Participant(job)
    start(job)
    a.upload(a.assignment, weights=floats(3.2e38))
    merge_due(job)
    assert (job.status, Round.objects.get(job=job).state) == (Job.Status.PAUSED, "failed")
    assert "Round 1 was not merged" in job.last_error
    assert "serverLearningRate" in job.last_error
    assert Checkpoint.objects.filter(job=job).count() == 1
    assert_invariants(job)
    # Resumed without a change it fails again, and nothing is lost.
    lifecycle.job_resume(job)
    merge_due(job)
    assert job.status == Job.Status.PAUSED
    update = Attempt.objects.get(state="received")
    aggregation = {"method": "fedavgm", "serverLearningRate": 0.1, "momentum": 0.9}
    lifecycle.job_update_settings(job, {"aggregation": aggregation})
    lifecycle.job_resume(job)
    merge_due(job)
    assert weights_of(job)[0] == np.float32(3.02e38)
    assert json.loads(latest(job).ledger_text)["slots"][0]["attempt"] == str(update.pk)
    assert json.loads(latest(job).settings_text)["aggregation"]["serverLearningRate"] == 0.1
    assert a.item == "c2"
    assert_invariants(job)


def test_a_merge_that_fails_while_the_job_is_paused_says_so():
    job, a, b = pair(method="fedadam", epsilon=0)
    a.upload(a.assignment, weights=A)
    lifecycle.job_pause(job)
    b.upload(b.assignment, weights=B)
    merge_due(job)
    assert "Round 1 was not merged" in job.last_error


def test_finish_tries_a_failed_round_with_the_settings_of_now_and_ends_either_way():
    for epsilon, checkpoints in ((0.001, 2), (0, 1)):
        job, a, b = pair(method="fedadam", epsilon=0)
        first_round(job, a, b)
        lifecycle.job_update_settings(job, {"aggregation": {"method": "fedadam", "epsilon": epsilon}})
        lifecycle.job_finish(job)
        merge_due(job)
        assert (job.status, job.incomplete) == (Job.Status.COMPLETED, True)
        assert Checkpoint.objects.filter(job=job).count() == checkpoints


def test_a_merge_killed_after_its_file_makes_the_same_file_again():
    """C44, S1, S10: the rerun reuses the name."""
    job, a, b = pair()
    a.upload(a.assignment, weights=A, uniqueExamples=1)
    b.upload(b.assignment, weights=B, uniqueExamples=3)
    at = Round.objects.select_related("job").get(job=job)
    killed = merge_slots(at, received_slots(at))  # Then the process died, before the commit.
    assert Checkpoint.objects.filter(job=job).count() == 1
    stale = at.merging_at
    sweeping.queue_due(stale)
    round_merge(at.pk)
    assert latest(job).weights_id == killed.weights.sha256
    assert_invariants(job)


def test_two_merges_of_one_round_make_one_checkpoint():
    """S3, S4: both have read and written; one commits."""
    job, a, b = pair()
    a.upload(a.assignment, weights=A, uniqueExamples=1)
    b.upload(b.assignment, weights=B, uniqueExamples=3)
    at = Round.objects.select_related("job__module", "job__dataset").get(job=job)
    slots = received_slots(at)
    merged = [merge_slots(at, slots), merge_slots(at, slots)]
    assert merged[0].weights.sha256 == merged[1].weights.sha256
    for one in merged:
        _commit(at, slots, one)
    round_merge(at.pk)
    job.refresh_from_db()
    assert (Checkpoint.objects.filter(job=job).count(), job.round_no, job.status) == (2, 2, Job.Status.RUNNING)
    assert_invariants(job)


def test_a_merge_of_updates_that_were_replaced_meanwhile_does_not_count():
    """The round was opened and closed again between its reading and its commit."""
    job, a, b = pair()
    a.upload(a.assignment, weights=A)
    b.upload(b.assignment, weights=B)
    at = Round.objects.select_related("job__module", "job__dataset").get(job=job)
    slots = received_slots(at)
    old = merge_slots(at, slots)
    Round.objects.filter(pk=at.pk).update(closing_at=now())
    _commit(at, slots, old)
    assert Checkpoint.objects.filter(job=job).count() == 1


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_lost_update_opens_the_round_and_the_others_close_it_again(how):
    """S11, I10: its slot is stopped as lost, its item requeued, and the ledger says why."""
    job, a, b = pair()
    a.upload(a.assignment, weights=A)
    b.upload(b.assignment, weights=B)
    lost = Attempt.objects.get(peer=a.peer)
    stored = Artifact.objects.filter(pk=lost.sha256)
    if how == "damaged":
        stored.update(body=b"\0" * 16)
    else:
        stored.update(state=Artifact.State.DELETING)
    round_merge(Round.objects.get(job=job).pk)
    at = Round.objects.get(job=job)
    assert (at.state, at.live, at.received, at.tries) == ("closing", 0, 1, 0)
    lost.refresh_from_db()
    assert (lost.state, lost.reason) == ("expired", "The stored update is missing or damaged.")
    merge_due(job)
    assert weights_of(job).tobytes() == B
    assert json.loads(latest(job).ledger_text)["discarded"][0]["reason"] == lost.reason
    assert "c1" in (a.item, b.item)
    assert_invariants(job)


def test_the_only_update_lost_deals_the_round_again_and_the_same_bytes_heal_the_file():
    """Training is deterministic, so the damaged name comes again: the store must take it."""
    job = make_job(chunks=1, weights=np.zeros(8192))
    a = Participant(job)
    start(job)
    body = np.ones(8192, "<f4").tobytes()
    report = json.dumps({"round": 1, "examplesProcessed": 8, "uniqueExamples": 8, "metrics": {}})

    def send():
        update_accept(
            peer=a.peer, attempt_id=a.attempt.pk, artifact=artifact_put_bytes(body, now()), report_text=report
        )

    send()
    sha256 = Attempt.objects.get(state="received").sha256
    path = store().local(sha256)
    path.write_bytes(b"\0" * len(body))
    merge_due(job)
    at = Round.objects.get(job=job)
    assert (at.state, at.received, at.live, at.deal, a.item) == ("open", 0, 1, 1, "c1")
    assert not JobEvent.objects.filter(job=job, event="job.paused").exists()
    send()
    merge_due(job)
    assert (job.status, weights_of(job).tobytes()) == (Job.Status.COMPLETED, body)
    assert_invariants(job)


def test_a_merge_tried_too_often_pauses_the_job_and_resume_gives_new_tries(settings):
    """S14."""
    job, a, b = pair()
    a.upload(a.assignment, weights=A)
    b.upload(b.assignment, weights=B)
    Round.objects.filter(job=job).update(tries=settings.MERGE_TRIES)
    merge_due(job)
    assert job.status == Job.Status.PAUSED
    assert "could not be merged in 5 tries" in job.last_error
    sweeping.queue_due(now())
    lifecycle.job_resume(job)
    merge_due(job)
    assert Checkpoint.objects.filter(job=job).count() == 2
    assert_invariants(job)


def test_a_damaged_start_is_named_after_the_last_try(settings):
    """S11: the round is refused with the name of the file; nothing is lost."""
    settings.MERGE_TRIES = 2
    job, a, b = pair()
    a.upload(a.assignment, weights=A)
    b.upload(b.assignment, weights=B)
    first = Checkpoint.objects.get(job=job)
    Artifact.objects.filter(pk=first.weights_id).update(body=b"\0" * 16)
    merge_due(job)
    assert job.status == Job.Status.RUNNING
    merge_due(job)
    assert job.status == Job.Status.PAUSED
    assert first.weights_id in job.last_error
    Artifact.objects.filter(pk=first.weights_id).update(body=floats(*W0))
    lifecycle.job_resume(job)
    merge_due(job)
    assert job.round_no == 2
    assert_invariants(job)


def test_merging_what_is_not_closing_does_nothing():
    job, a, b = pair()
    at = Round.objects.get(job=job)
    round_merge(at.pk)
    at.refresh_from_db()
    job.refresh_from_db()
    assert (at.state, at.tries, job.status) == ("open", 0, Job.Status.RUNNING)


def test_updates_are_freed_with_their_checkpoint_unless_they_are_kept(settings):
    for keep, left in ((False, 0), (True, 2)):
        settings.KEEP_UPDATES = keep
        job, a, b = pair()
        first_round(job, a, b)
        assert JobArtifact.objects.filter(job=job, kind="update").count() == left


def test_the_same_job_has_the_same_bytes_on_every_database():
    """Decision 7, I6: PostgreSQL and SQLite agree on every checkpoint; so this hash stands for both."""
    job = make_job(
        chunks=7,
        epochs=2,
        seed="2026",
        aggregation={"method": "fedadam"},
        capabilities={"recordRanges": True},
    )
    members = [Participant(job) for _ in range(3)]
    lifecycle.job_shuffle(job)
    start(job)
    run_to_end(job, members)
    assert latest(job).weights_id == "f0b67b644d498fc53d8e2686a8e6328d2326162e1b67dda935dc7702e6bc4b05"
    assert_invariants(job)
