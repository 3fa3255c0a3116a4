"""Rounds as a whole: every chunk once per pass, one checkpoint per round, whoever trains and in whatever order."""

import json
import random

import pytest

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Requeued, Round
from tests.jobs.world import (
    Participant,
    assert_invariants,
    make_job,
    merge_due,
    received_items,
    run_to_end,
    start,
    trained,
    weights_of,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def test_forty_chunks_four_participants_three_epochs_make_thirty_checkpoints():
    """C29: each chunk once per pass, 3 x 40 accepted updates."""
    job = make_job(chunks=40, epochs=3)
    members = [Participant(job) for _ in range(4)]
    start(job)
    run_to_end(job, members)
    rounds = list(Checkpoint.objects.filter(job=job).values_list("round", flat=True))
    assert rounds == list(range(31))
    everything = sorted(f"c{i + 1}" for i in range(40))
    assert {p: sorted(c) for p, c in received_items(job).items()} == {0: everything, 1: everything, 2: everything}
    assert Attempt.objects.filter(state="received").count() == 120
    assert not job.incomplete
    assert_invariants(job)


def test_one_participant_alone_gets_its_own_weights_as_the_checkpoint():
    """C19."""
    job = make_job(chunks=1)
    member = Participant(job)
    start(job)
    assignment = member.assignment
    member.train()
    merge_due(job)
    assert weights_of(job).tobytes() == trained(assignment)
    assert job.status == Job.Status.COMPLETED


def test_start_is_refused_while_nobody_can_train():
    """C19: no empty rounds spin."""
    job = make_job()
    with pytest.raises(Conflict, match="Nobody can train yet"):
        start(job)
    assert not Round.objects.exists()


def test_arrival_order_does_not_change_a_bit():
    """I6."""
    results = set()
    for seed in range(3):
        job = make_job(chunks=6)
        members = [Participant(job) for _ in range(6)]
        start(job)
        random.Random(seed).shuffle(members)
        for member in members:
            member.train()
        merge_due(job)
        results.add(weights_of(job).tobytes())
    assert len(results) == 1


def test_requeued_queue_is_empty_at_the_end():
    job = make_job(chunks=3, epochs=2)
    members = [Participant(job), Participant(job)]
    start(job)
    run_to_end(job, members)
    assert not Requeued.objects.exists()
    last = Checkpoint.objects.filter(job=job).last()
    assert (last.dataset_epoch, last.dataset_progress, last.remaining_items) == (2, 2.0, 0)
    assert json.loads(last.metrics_text) == {"loss": 0.5}
    assert_invariants(job)
