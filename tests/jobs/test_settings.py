"""What changes between rounds: settings, the order of chunks, and which checkpoints are validated."""

import json

import pytest

from checkpoints.models import Checkpoint
from jobs.models import Job, PassOrder
from jobs.services import lifecycle, participants
from jobs.services.dealing import order_of
from peers.models import Membership
from peers.services.tokens import peer_create
from tests.jobs.world import (
    Participant,
    assert_invariants,
    checkpoint_lists,
    make_job,
    merge_due,
    received_items,
    run_to_end,
    start,
)
from weei_core import seeds
from weei_core.errors import Conflict, Invalid

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def running(chunks=4, members=2, **settings):
    job = make_job(chunks=chunks, **settings)
    made = [Participant(job) for _ in range(members)]
    start(job)
    return job, made


# --- settings ---


def test_settings_count_from_the_next_round():
    job, (a, b) = running(learningRate=0.5)
    lifecycle.job_update_settings(job, {"aggregation": {"method": "fedavgm", "momentum": 0.5}})
    a.train()
    b.train()
    merge_due(job)
    first = Checkpoint.objects.get(job=job, round=1)
    assert (first.aggregation_method, json.loads(first.settings_text)["aggregation"]["method"]) == ("", "fedavg")
    a.train()
    b.train()
    merge_due(job)
    second = Checkpoint.objects.get(job=job, round=2)
    assert (second.aggregation_method, second.aggregation_step) == ("fedavgm", 1)


def test_epochs_can_be_raised_and_lowered_to_the_pass_at_work():
    job, (a, b) = running(chunks=2, epochs=1)
    lifecycle.job_update_settings(job, {"epochs": 2})
    a.train()
    b.train()
    merge_due(job)
    assert (job.status, job.pass_no) == (Job.Status.RUNNING, 1)
    with pytest.raises(Invalid, match="pass 2 is at work"):
        lifecycle.job_update_settings(job, {"epochs": 1})
    run_to_end(job, [a, b])
    assert received_items(job) == {0: ["c1", "c2"], 1: ["c1", "c2"]}


@pytest.mark.parametrize(
    "patch", [{"seed": "8"}, {"epochs": 0}, {"epochs": 3, "rounds": 4}, {"colour": 1}, {"batchSize": True}]
)
def test_settings_that_are_not_allowed_are_refused_and_nothing_changes(patch):
    """C05, C47, F14: and the seed cannot change."""
    job = make_job()
    before = job.settings_text
    with pytest.raises(Invalid):
        lifecycle.job_update_settings(job, patch)
    job.refresh_from_db()
    assert job.settings_text == before


def test_settings_of_a_completed_job_cannot_change():
    job, (a, b) = running(chunks=2)
    run_to_end(job, [a, b])
    with pytest.raises(Conflict):
        lifecycle.job_update_settings(job, {"learningRate": 1})


def test_coordinator_participates_is_about_the_device_that_opened_last():
    job = make_job(coordinatorParticipates=True)
    first, second = peer_create()[0], peer_create()[0]
    participants.job_open(job, first)
    participants.job_open(job, second)
    trains = Membership.objects.filter(job=job, trains=True)
    assert [m.peer_id for m in trains] == [second.pk]
    job.refresh_from_db()
    lifecycle.job_update_settings(job, {"coordinatorParticipates": False})
    assert not trains.all()
    lifecycle.job_update_settings(job, {"coordinatorParticipates": True})
    assert [m.peer_id for m in trains.all()] == [second.pk]


# --- shuffle ---


def ids(order):
    return [f"c{i + 1}" for i in order]


def test_shuffle_reorders_what_is_left_and_all_later_passes():
    job, (a, b) = running(chunks=8, epochs=2, seed="5")
    assert [a.item, b.item] == ["c1", "c2"]
    lifecycle.job_shuffle(job)
    full = seeds.shuffle_order(5, 1, range(8))
    left = [index for index in full if index > 1]
    assert (job.shuffles, a.item) == (1, "c1")
    order = []
    for _ in range(7):
        a.train()
        b.train()
        merge_due(job)
        order += [a.item, b.item]
    assert order[:6] == ids(left)
    assert order[6:14] == ids(full)
    run_to_end(job, [a, b])
    assert_invariants(job)


def test_shuffle_keeps_lost_items_before_the_rest():
    job, (a, b) = running(chunks=6, seed="5")
    b.leave()
    lifecycle.job_shuffle(job)
    assert Participant(job).item == "c2"
    assert_invariants(job)


def test_second_shuffle_draws_another_order():
    job = make_job(chunks=12, seed="5")
    lifecycle.job_shuffle(job)
    lifecycle.job_shuffle(job)
    assert list(order_of(job.pass_order, 12)) == list(seeds.shuffle_order(5, 2, range(12)))
    assert PassOrder.objects.count() == 4


def test_shuffle_of_a_completed_job_is_refused():
    job, (a, b) = running(chunks=2)
    run_to_end(job, [a, b])
    with pytest.raises(Conflict, match="completed"):
        lifecycle.job_shuffle(job)


def test_shuffled_chunks_are_all_trained_once_per_pass():
    """C32: and the checkpoint knows the order."""
    job = make_job(chunks=5, epochs=2, seed="3")
    a = Participant(job)
    lifecycle.job_shuffle(job)
    start(job)
    a.train()
    merge_due(job)
    a.train()
    merge_due(job)
    made = Checkpoint.objects.select_related("job__dataset", "pass_order").get(job=job, round=2)
    lists = checkpoint_lists(made)
    order = ids(seeds.shuffle_order(3, 1, range(5)))
    assert (lists.trained, lists.remaining) == (order[:2], order[2:])
    assert made.dataset_progress == 0.4
    run_to_end(job, [a])
    assert received_items(job) == {0: order, 1: order}
    assert_invariants(job)


# --- validation by schedule ---


def validated(job):
    return list(Checkpoint.objects.filter(job=job, validation="due").values_list("round", flat=True))


def schedule(unit, every):
    return {"validationSchedule": {"enabled": True, "unit": unit, "every": every}}


def test_validation_is_due_after_rounds_divisible_by_every_and_at_the_end():
    """Round 6. The first checkpoint is asked for when the job is made."""
    job, (a, b) = running(chunks=5, epochs=2, validation=True, **schedule("round", 4))
    run_to_end(job, [a, b])
    assert validated(job) == [4, 6]


def test_validation_by_pass():
    job, (a,) = running(chunks=2, epochs=5, members=1, validation=True, **schedule("epoch", 2))
    run_to_end(job, [a])
    assert validated(job) == [4, 8, 10]


def test_validation_of_the_last_checkpoint_when_the_job_ends_without_another():
    job, (a, b) = running(chunks=6, validation=True, **schedule("round", 100))
    a.train()
    b.train()
    merge_due(job)
    assert validated(job) == []
    lifecycle.job_finish(job)
    assert validated(job) == [1]


def test_no_validation_without_a_schedule_or_a_file():
    for job, (a, b) in (running(chunks=2, validation=True), running(chunks=2, **schedule("round", 1))):
        run_to_end(job, [a, b])
        assert validated(job) == []
