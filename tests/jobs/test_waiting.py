"""The job always says what it waits for, to its coordinator and to each participant."""

import pytest
from django.utils.timezone import now

from jobs.models import Job, Round
from jobs.selectors.peer_state import peer_state
from jobs.selectors.status import participants as participant_rows
from jobs.selectors.status import waiting_for
from jobs.services import lifecycle, participants
from jobs.services.sweeping import expire
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, hello, make_job, merge_due, open_link, run_to_end, start

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def said(job):
    job.refresh_from_db()
    return waiting_for(job, now())


def told(member):
    return peer_state(member.peer, now())["job"]["waitingFor"]


def test_what_the_coordinator_reads_in_each_state(settings):
    settings.ITEM_ERRORS = 1
    job = make_job(chunks=3)
    assert said(job) == "Waiting for participants to join."
    a, b = Participant(job), Participant(job)
    assert said(job) == "Ready: 2 participants are ready to train. Press Start."
    start(job)
    assert said(job) == "Round 1: 0 received, waiting for c1, c2."
    a.train()
    assert said(job) == "Round 1: 1 received, waiting for c2."
    lifecycle.job_pause(job)
    assert said(job) == "Paused; 1 participant may still finish round 1."
    lifecycle.job_resume(Job.objects.get(pk=job.pk))
    b.train()
    assert said(job) == "Round 1: merging 2 updates."
    merge_due(job)
    a.fail()
    assert "because of an error" in said(job)
    lifecycle.job_resume(Job.objects.get(pk=job.pk))
    run_to_end(job, [a, b])
    assert said(job) == "All planned passes are done."


def test_a_round_that_waits_for_people_says_so():
    """P6."""
    job = make_job()
    a = Participant(job)
    start(job)
    a.lost()
    expire(now())
    assert said(job) == "Round 1 waits for participants: 1 participant joined, nobody is connected and ready."
    a.leave()
    assert "nobody takes part" in said(job)


def test_what_a_participant_reads_in_each_state():
    job = make_job(chunks=2)
    a, b = Participant(job), Participant(job)
    assert told(a) == "Waiting for the coordinator to start the job."
    start(job)
    assert told(a) == "This device works on c1."
    a.train()
    assert told(a) == "Waiting for 1 other participant to finish round 1."
    participants.participant_pause(job, b.peer.pk, True)
    assert told(b) == "The coordinator paused this device."
    assert Round.objects.get(job=job).state == "closing"
    assert told(a) == "Round 1 is being merged."
    lifecycle.job_pause(Job.objects.get(pk=job.pk))
    assert told(a) == "The coordinator paused the job."


def test_the_list_of_participants_counts_peers_once():
    """C79: reloads and second tabs leave no ghosts; a declined one is no participant."""
    job = make_job()
    watching = peer_create()[0]
    participants.job_open(job, watching)
    a, b = Participant(job), Participant(job)
    for _ in range(3):
        hello(a.peer)
    declined = peer_create()[0]
    open_link(declined, job)
    participants.invitation_decide(declined, job.pk, False, now())
    rows = participant_rows(job, now())
    assert sorted(row.state for row in rows) == sorted(["unknown", "modelLoaded", "modelLoaded", "declined"])
    assert sum(row.trains for row in rows) == 2
    b.leave()
    assert len(participant_rows(job, now())) == 3
