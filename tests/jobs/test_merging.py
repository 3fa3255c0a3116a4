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
from tests.jobs.world import (
    Participant,
    artifact_body,
    assert_invariants,
    floats,
    make_job,
    merge_due,
    run_to_end,
    start,
    weights_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.db]
W0 = (1, -2, 0.5, 0)
A = floats(2, -3, 0.5, 0.25)
B = floats(1.5, -1, 0.5, -0.25)
ROUND_1 = (1.625, -1.5, 0.5, -0.125)


def latest(job) -> Checkpoint:
    return Checkpoint.objects.filter(job=job).latest("round")


def state_of(job):
    return np.frombuffer(artifact_body(latest(job).state_id), "<f4")


def pair(**aggregation):
    """A job on w0 whose two participants answer A (1 example) and B (3)."""
    method = {"aggregation": aggregation} if aggregation else {}
    job = make_job(chunks=8, weights=W0, epochs=3, **method)
    members = Participant(job), Participant(job)
    start(job)
    return job, *members


def first_round(job, a, b):
    a.upload(a.assignment, weights=A, uniqueExamples=1)
    b.upload(b.assignment, weights=B, uniqueExamples=3)
    merge_due(job)


def second_round(job, a, b):
    """Both send the result of round 1 plus the second change."""
    update = (weights_of(job) + np.asarray([0.125, 0.25, 0, 0], "<f4")).tobytes()
    for member in (a, b):
        member.upload(member.assignment, weights=update)
    merge_due(job)


# --- the formulas, through whole rounds ---


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_fedavg_weighs_by_examples_in_any_order_of_arrival(order):
    """C01, I6."""
    job, a, b = pair()
    sends = {
        "A": lambda: a.upload(a.assignment, weights=A, uniqueExamples=1),
        "B": lambda: b.upload(b.assignment, weights=B, uniqueExamples=3),
    }
    for name in order:
        sends[name]()
    merge_due(job)
    assert latest(job).weights_id == "4a838096569b0541e943476d0bec85dac5a1e2fa7d00c4cdb7d2165d53cf678b"
    assert tuple(weights_of(job)) == ROUND_1
    assert_invariants(job)


def test_fedavgm_is_plain_momentum():
    """C02."""
    job, a, b = pair(method="fedavgm", serverLearningRate=1, momentum=0.5)
    first_round(job, a, b)
    assert state_of(job).tobytes().hex() == "0000203f0000003f00000000000000be"
    second_round(job, a, b)
    assert weights_of(job).tobytes().hex() == "00000440000080bf0000003f000040be"
    assert tuple(state_of(job)) == (0.4375, 0.5, 0, -0.0625)
    assert latest(job).aggregation_step == 2
    assert_invariants(job)


def test_fedadam_divides_the_smoothed_change():
    """C04."""
    job, a, b = pair(method="fedadam", serverLearningRate=0.1, beta1=0.9, beta2=0.99, epsilon=0.001)
    first_round(job, a, b)
    assert np.allclose(weights_of(job), [1.09984028, -1.90019965, 0.5, -0.0992063507], rtol=0, atol=1e-6)
    second_round(job, a, b)
    assert np.allclose(weights_of(job), [1.18013418, -1.80709076, 0.5, -0.165611193], rtol=0, atol=1e-6)


def test_rate_zero_freezes_the_weights_and_keeps_the_state():
    """C05b."""
    job, a, b = pair(method="fedavgm", serverLearningRate=0, momentum=0.9)
    first_round(job, a, b)
    assert (tuple(weights_of(job)), tuple(state_of(job))) == (W0, (0.625, 0.5, 0, -0.125))


def test_neutral_options_are_fedavg_with_a_state():
    """C05a."""
    job, a, b = pair(method="fedavgm", serverLearningRate=1, momentum=0)
    first_round(job, a, b)
    assert tuple(weights_of(job)) == ROUND_1
    assert (latest(job).state.bytes, latest(job).aggregation_step) == (16, 1)


def test_zero_by_zero_fails_the_round_and_nothing_changes():
    """C11."""
    job, a, b = pair(method="fedadam", epsilon=0)
    first_round(job, a, b)
    assert (job.status, Checkpoint.objects.filter(job=job).count()) == (Job.Status.PAUSED, 1)
    lifecycle.job_update_settings(job, {"aggregation": {"method": "fedadam", "epsilon": 0.001}})
    lifecycle.job_resume(job)
    merge_due(job)
    assert weights_of(job)[2] == 0.5
    assert_invariants(job)


def test_momentum_over_whole_passes_overshoots():
    """C20: a toy model that moves nine tenths of the way to its target, 0."""
    expected = {"fedavgm": [0.1, -0.8, -0.89, -0.17, 0.631, 0.784], "fedavg": [0.1, 0.01, 0.001]}
    for method, errors in expected.items():
        options = {"momentum": 0.9} if method == "fedavgm" else {}
        job = make_job(chunks=1, epochs=9, weights=[1.0], aggregation={"method": method, **options})
        a = Participant(job)
        start(job)
        found = []
        for _ in errors:
            a.upload(a.assignment, weights=floats(0.1 * weights_of(job)[0]))
            merge_due(job)
            found.append(weights_of(job)[0])
        assert np.allclose(found, errors, atol=1e-3)


def test_average_only_ranges_take_the_average():
    """Formulas: outside `averageOnly` only; its state is 0."""
    info = {"aggregation": {"averageOnly": [{"offset": 0, "bytes": 8}], "methods": ["fedavg", "fedavgm"]}}
    job = make_job(weights=W0, info=info, aggregation={"method": "fedavgm", "serverLearningRate": 2})
    a = Participant(job)
    start(job)
    a.upload(a.assignment, weights=floats(3, -3, 1, 1))
    merge_due(job)
    assert tuple(weights_of(job)) == (3, -3, 1.5, 2)
    assert tuple(state_of(job)) == (0, 0, 0.5, 1)


def test_the_state_follows_the_checkpoint():
    """C14: other options keep it, another method starts at zero."""
    job = make_job(chunks=9, weights=[1.0], epochs=9, aggregation={"method": "fedavgm", "momentum": 0.5})
    a = Participant(job)
    start(job)

    def play(change, next_method=None):
        if next_method:
            lifecycle.job_update_settings(job, {"aggregation": next_method})
        a.upload(a.assignment, weights=floats(weights_of(job)[0] + change))
        merge_due(job)
        return float(weights_of(job)[0]), list(state_of(job)), latest(job).aggregation_step

    def check(found, weight, state, step):
        assert np.allclose([found[0], *found[1]], [weight, *state], atol=1e-6)
        assert found[2] == step

    adam = {"method": "fedadam", "serverLearningRate": 0.1, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.001}
    # The settings given with a round are those of the next one.
    check(play(0.5, {"method": "fedavgm", "momentum": 0.25}), 1.5, [0.5], 1)
    check(play(0.25, adam), 1.875, [0.375], 2)
    check(play(0.5, {"method": "fedavgm", "momentum": 0.25}), 1.9748003, [0.25, 0.0625], 1)
    check(play(0.125), 2.0998003, [0.125], 1)
    assert_invariants(job)


def test_metrics_are_divided_by_those_who_reported_them():
    """C17: 0.9, not 0.675; what nobody reported is absent."""
    metrics = [{"id": name, "label": name, "direction": "maximize"} for name in ("loss", "accuracy", "f1")]
    job = make_job(records=300, info={"metrics": metrics})
    a, b = Participant(job), Participant(job)
    start(job)
    a.train(uniqueExamples=100, metrics={"loss": 0.8})
    b.train(uniqueExamples=300, metrics={"loss": 0.4, "accuracy": 0.9, "unknown": 7})
    merge_due(job)
    assert json.loads(latest(job).metrics_text) == pytest.approx({"loss": 0.5, "accuracy": 0.9})


def test_an_update_of_zero_units_counts_neither_in_weights_nor_in_metrics(settings):
    """C06: only an experience report may say 0; here the row is made as its service would."""
    job, a, b = pair()
    b.upload(b.assignment, weights=B, uniqueExamples=3, metrics={"loss": 0.25})
    a.upload(a.assignment, weights=A, uniqueExamples=1, metrics={"loss": 9})
    Attempt.objects.filter(peer=a.peer).update(unique_examples=0)
    Round.objects.filter(job=job).update(received=1)
    merge_due(job)
    assert weights_of(job).tobytes() == B
    assert json.loads(latest(job).metrics_text) == {"loss": 0.25}


# --- failures ---


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
