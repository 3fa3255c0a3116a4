"""Decision 6: messages are hints. They go out after the commit, never after a rollback, and may all be lost."""

import time
from datetime import timedelta

import pytest
from celery import current_app
from django.db import transaction

from jobs.models import Job, Round
from jobs.services import events, lifecycle
from jobs.services.sweeping import queue_due
from peers import outbox
from tests.jobs.world import Participant, assert_invariants, make_job, merge_due, start

pytestmark = [pytest.mark.django_db, pytest.mark.db]


@pytest.fixture
def sent(monkeypatch):
    """Tasks and hints as they go out, with the state of the round that a receiver would see then."""
    found = []

    def state():
        at = Round.objects.order_by("-number").first()
        return at and at.state

    monkeypatch.setattr(current_app, "send_task", lambda name, args, retry: found.append((name, args, state())))
    monkeypatch.setattr(outbox._loop, "send", lambda group, message: found.append((group, message["type"], state())))
    return found


@pytest.mark.django_db(transaction=True)
def test_tasks_and_hints_go_out_after_the_commit_and_none_after_a_rollback(sent):
    """C85."""
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    a.train()
    assignment, peer = b.assignment, b.peer
    sent.clear()
    with pytest.raises(RuntimeError), transaction.atomic():
        b.upload(assignment)
        raise RuntimeError
    assert sent == []
    with transaction.atomic():
        b.upload(assignment)
        assert sent == []
    at = Round.objects.get(job=job)
    assert ("jobs.tasks.merge", (at.pk,), "closing") in sent
    assert (outbox.peer_group(peer.pk), "peer.changed", "closing") in sent
    assert (outbox.job_group(job.pk), "job.changed", "closing") in sent


@pytest.mark.django_db(transaction=True)
def test_everybody_who_takes_part_hears_of_a_change_of_status(sent):
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    start(job)
    sent.clear()
    lifecycle.job_pause(job)
    groups = {name for name, what, _ in sent if what == "peer.changed"}
    assert groups == {outbox.peer_group(a.peer.pk), outbox.peer_group(b.peer.pk)}


@pytest.mark.django_db(transaction=True)
def test_redis_away_is_a_log_line_and_the_sweep_queues_again(settings, tmp_path, caplog):
    """S6: the job goes on within a sweep of its return."""
    dead = f"unix://{tmp_path / 'nobody.sock'}"
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [dead]}}
    }
    broker = current_app.conf.broker_url
    current_app.conf.broker_url = f"redis+socket://{tmp_path / 'nobody.sock'}"
    try:
        job = make_job(chunks=2)
        a, b = Participant(job), Participant(job)
        start(job)
        a.train()
        b.train()
        at = Round.objects.get(job=job)
        assert at.state == "closing"
        assert any("not queued, the sweeper will" in record.message for record in caplog.records)
    finally:
        current_app.conf.broker_url = broker
    queued = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_send", lambda task, args: queued.append((task, args)))
        queue_due(at.merging_at + timedelta(seconds=16))
    assert queued == [("jobs.tasks.merge", (at.pk,))]
    merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)


@pytest.mark.django_db(transaction=True)
def test_a_hint_that_cannot_be_sent_is_a_log_line(settings, tmp_path, caplog):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [f"unix://{tmp_path / 'nobody.sock'}"]},
        }
    }
    outbox.hint_job(Job(pk="00000000-0000-0000-0000-000000000001").pk, "status")
    until = time.monotonic() + 10
    while not any("not sent" in record.message for record in caplog.records) and time.monotonic() < until:
        time.sleep(0.01)
    assert any("not sent" in record.message for record in caplog.records)
    assert outbox._loop._pending == 0
