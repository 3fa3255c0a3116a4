"""Rounds of experience jobs with the echo model's own updates: units that were not finished. Covers C06, C21.

With `batchSize` 7 the model finishes half of its units, with 9 none; the weights that it returns are the same."""

import struct

import pytest

from checkpoints.models import Checkpoint
from jobs.models import Job, Round
from tests.creation.experience import echo
from tests.creation.making import make, weights
from tests.creation.training import Peers

pytestmark = pytest.mark.django_db


def test_a_round_without_a_finished_unit_makes_no_checkpoint_and_its_units_are_gone(user, trainer):
    """C06: all updates count zero."""
    job = make(user, **echo(), epochs=3, batchSize=9)
    peers = Peers(job, trainer, 2).start()
    assert [member.item for member in peers.members] == ["units-0-6", "units-6-12"]
    peers.round()
    assert [member.item for member in peers.members] == ["units-12-18", "units-18-24"]
    assert (job.checkpoints.get().round, Round.objects.get(job=job).number) == (0, 1)
    peers.round()
    peers.round()
    job.refresh_from_db()
    assert (job.status, job.checkpoints.count()) == (Job.Status.PAUSED, 1)
    assert job.last_error


def test_an_update_weighs_as_much_as_it_finished(user, trainer):
    """C06, C21: one member finishes 3 of 6 units, one 1, one none."""
    job = make(user, **echo(), epochs=3, batchSize=7)
    peers = Peers(job, trainer, 3).start()
    updates = []
    for member, finished in zip(peers.members, (3, 1, 0), strict=True):
        body, report = trainer.train(job, member.assignment)
        assert report["uniqueExamples"] == 3
        updates.append(struct.unpack("<7f", body))
        member.upload(member.assignment, weights=body, **{**report, "uniqueExamples": finished})
    peers.round(0)
    merged = struct.unpack("<7f", weights(Checkpoint.objects.get(job=job, round=1)))
    expected = [(3 * a + b) / 4 for a, b, _ in zip(*updates, strict=True)]
    assert merged == pytest.approx(expected, rel=1e-6)
