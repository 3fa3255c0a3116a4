"""The formulas of aggregation through whole rounds: what is uploaded, and what the checkpoint holds."""

import json

import numpy as np
import pytest

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Round
from jobs.services import lifecycle
from tests.jobs.two_updates import ROUND_1, W0, A, B, first_round, latest, pair, state_of
from tests.jobs.world import (
    Participant,
    assert_invariants,
    floats,
    make_job,
    merge_due,
    start,
    weights_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def second_round(job, a, b):
    """Both send the result of round 1 plus the second change."""
    update = (weights_of(job) + np.asarray([0.125, 0.25, 0, 0], "<f4")).tobytes()
    for member in (a, b):
        member.upload(member.assignment, weights=update)
    merge_due(job)


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
