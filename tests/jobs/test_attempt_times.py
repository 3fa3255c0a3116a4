"""When a device was heard training and when its update began to come: for the timeline only."""

import hashlib
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.services.artifacts import NewArtifact
from diagnostics.domain.snapshot import clean_snapshot, training_attempt
from jobs.services.updates import attempt_trains, update_accept
from tests.jobs.world import Participant, make_job, start, trained

pytestmark = [pytest.mark.django_db, pytest.mark.db]


@pytest.fixture
def two():
    job = make_job(chunks=3)
    members = Participant(job), Participant(job)
    start(job)
    return members


def test_the_first_time_that_a_device_is_heard_training_is_kept(two):
    a, b = two
    now = timezone.now()
    attempt = a.attempt
    attempt_trains(peer=b.peer, attempt_id=attempt.pk, now=now)
    attempt.refresh_from_db()
    assert attempt.training_at is None
    attempt_trains(peer=a.peer, attempt_id=attempt.pk, now=now)
    attempt_trains(peer=a.peer, attempt_id=attempt.pk, now=now + timedelta(seconds=9))
    attempt.refresh_from_db()
    assert attempt.training_at == now


def test_an_attempt_that_is_over_is_not_heard_any_more(two):
    a, _ = two
    attempt = a.attempt
    a.fail()
    attempt_trains(peer=a.peer, attempt_id=attempt.pk, now=timezone.now())
    attempt.refresh_from_db()
    assert attempt.training_at is None


def test_an_accepted_update_knows_when_it_began_to_come(two):
    a, _ = two
    attempt, body, began = a.attempt, trained(a.assignment), timezone.now() - timedelta(seconds=3)
    report = {"round": 1, "examplesProcessed": 1, "uniqueExamples": 1, "metrics": {}}
    artifact = NewArtifact(hashlib.sha256(body).hexdigest(), body)
    update_accept(
        peer=a.peer, attempt_id=attempt.pk, artifact=artifact, report_text=json.dumps(report), uploading_at=began
    )
    attempt.refresh_from_db()
    assert (attempt.state, attempt.uploading_at) == ("received", began)


ATTEMPT = "7d7f9b4e-6f0e-4f0f-9d57-000000000001"


@pytest.mark.parametrize(
    ("stage", "assignment", "expected"),
    [
        ("training", {"jobId": "j", "attemptId": ATTEMPT}, ATTEMPT),
        ("receiving", {"jobId": "j", "attemptId": ATTEMPT}, "None"),
        ("training", {"jobId": "j", "attemptId": "x"}, "None"),
        ("training", {"jobId": "j"}, "None"),
        ("training", None, "None"),
    ],
)
def test_a_snapshot_names_the_attempt_that_it_trains_for(stage, assignment, expected):
    snapshot = clean_snapshot({"sequence": 1, "stage": stage, "assignment": assignment})
    assert str(training_attempt(snapshot)) == expected
