"""Coordinators' devices, and devices that come back."""

import pytest
from django.utils.timezone import now

from jobs.models import Attempt, Job, Round
from jobs.selectors.peer_state import peer_state
from jobs.services import lifecycle, participants
from jobs.services.sweeping import expire, queue_due
from peers.models import Peer
from peers.services.invitations import invitation_create
from tests.jobs.guests import decide, guest, member, token_of
from tests.jobs.world import (
    Participant,
    assert_invariants,
    hello,
    make_job,
    run_to_end,
    start,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db, pytest.mark.db]


# --- coordinators' devices ---


def test_a_coordinators_device_trains_only_with_coordinator_participates():
    """C19, C79."""
    job = make_job(coordinatorParticipates=False)
    watching = guest()
    participants.job_open(job, watching)
    with pytest.raises(Conflict, match="Nobody can train yet"):
        start(job)
    job = make_job(coordinatorParticipates=True)
    device = guest()
    participants.job_open(job, device)
    hello(device)
    participants.participant_ready(device, job.pk, job.module_id, {})
    start(job)
    assert peer_state(device, now())["assignment"]["chunkId"] == "c1"


def test_the_peer_that_last_opened_the_job_trains():
    job = make_job(coordinatorParticipates=True)
    first, second = guest(), guest()
    for peer in (first, second, first):
        participants.job_open(job, peer)
    assert (member(first, job).trains, member(second, job).trains) == (True, False)
    job.refresh_from_db()
    assert job.coordinator_peer == first


def test_accepting_a_link_to_ones_own_job_makes_the_device_train():
    """Whatever coordinatorParticipates says."""
    job = make_job(coordinatorParticipates=False)
    device = guest()
    participants.job_open(job, device)
    invitation, url = invitation_create(job)
    participants.invitation_open(device, token_of(url), now())
    assert decide(device, job).trains
    decide(device, job)
    invitation.refresh_from_db()
    assert (invitation.uses, member(device, job).role) == (1, "coordinator")
    lifecycle.job_update_settings(job, {"batchSize": 2})
    participants.job_open(job, device)
    other = guest()
    participants.job_open(job, other)
    assert member(device, job).trains
    hello(device)
    participants.participant_ready(device, job.pk, job.module_id, {})
    start(job)
    assert peer_state(device, now())["assignment"] is not None


def test_a_coordinators_leave_only_detaches_the_browser():
    job = make_job(coordinatorParticipates=True)
    device = guest()
    participants.job_open(job, device)
    hello(device)
    participants.participant_ready(device, job.pk, job.module_id, {})
    a = Participant(job)
    start(job)
    participants.participant_leave(device, job.pk)
    job.refresh_from_db()
    assert job.status == Job.Status.RUNNING
    run_to_end(job, [a])
    assert not job.incomplete
    assert_invariants(job)


def test_a_device_that_opens_the_job_again_while_it_runs_gets_work():
    job = make_job(coordinatorParticipates=True)
    a = Participant(job)
    device = guest()
    participants.job_open(job, device)
    hello(device)
    participants.participant_ready(device, job.pk, job.module_id, {})
    participants.job_open(job, guest())
    start(job)
    assert peer_state(device, now())["assignment"] is None
    participants.job_open(job, device)
    queue_due(now())
    assert a.item == "c1"
    assert peer_state(device, now())["assignment"]["chunkId"] == "c2"


def test_a_returning_peer_gets_work_of_the_round_at_once():
    """P6, P7: on wake the old attempt is refused, new work is given."""
    job = make_job()
    a = Participant(job)
    start(job)
    attempt = a.attempt
    a.lost()
    expire(now())
    attempt.refresh_from_db()
    assert (attempt.state, Round.objects.get(job=job).live) == ("expired", 0)
    assert hello(a.peer, session=Peer.objects.get(pk=a.peer.pk).session, attempt=attempt.pk)
    assert a.item == "c1"
    assert a.attempt.pk != attempt.pk
    assert Attempt.objects.filter(state="live").count() == 1
    assert_invariants(job)
