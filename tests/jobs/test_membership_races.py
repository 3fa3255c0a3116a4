"""Accepting, declining and opening at the same instant, on both databases: one use is one peer, one outcome each."""

import pytest
from django.utils.timezone import now

from jobs.services import participants
from peers.models import Membership
from peers.services.invitations import InvitationInvalid, invitation_create
from peers.services.tokens import peer_create
from tests.jobs.racing import FEW, TIMES, together
from tests.jobs.world import (
    make_job,
    open_link,
)
from weei_core.errors import Conflict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db, pytest.mark.usefixtures("no_messages")]


def test_one_use_of_a_link_is_one_peer():
    """C84, H4."""
    job = make_job()
    for _ in range(TIMES):
        invitation, url = invitation_create(job, uses=1)
        peers = [peer_create()[0] for _ in range(3)]
        for peer in peers:
            participants.invitation_open(peer, url.rstrip("/").split("/")[-1], now())
        results = together(
            *(lambda peer=peer: participants.invitation_decide(peer, job.pk, True, now()) for peer in peers)
        )
        assert sorted(type(result).__name__ for result in results) == ["InvitationInvalid"] * 2 + ["Membership"]
        assert all(isinstance(result, Membership | InvitationInvalid) for result in results)
        invitation.refresh_from_db()
        assert invitation.uses == 1
        assert Membership.objects.filter(peer__in=peers, current=True).count() == 1


def test_two_tabs_accept_and_a_third_declines():
    """C84: one row, one outcome, one use."""
    job = make_job()
    outcomes = set()
    for _ in range(FEW):
        invitation, url = invitation_create(job, uses=5)
        peer = peer_create()[0]
        participants.invitation_open(peer, url.rstrip("/").split("/")[-1], now())
        calls = [lambda a=a, p=peer: participants.invitation_decide(p, job.pk, a, now()) for a in (True, True, False)]
        results = together(*calls)
        membership = Membership.objects.get(peer=peer)
        invitation.refresh_from_db()
        assert membership.state in ("approved", "declined")
        assert invitation.uses == (membership.state == "approved")
        assert membership.current == (membership.state == "approved")
        refused = [result for result in results if isinstance(result, Conflict)]
        assert len(refused) == (1 if membership.state == "approved" else 2)
        outcomes.add(membership.state)
    print(f"outcomes: {sorted(outcomes)}")


def test_a_browser_accepts_two_jobs_at_once():
    """One current job per browser: the database decides."""
    jobs = make_job(), make_job()
    for _ in range(FEW):
        peer = peer_create()[0]
        for job in jobs:
            open_link(peer, job)
        results = together(
            *(lambda job=job, p=peer: participants.invitation_decide(p, job.pk, True, now()) for job in jobs)
        )
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "Membership"]
        assert Membership.objects.filter(peer=peer, current=True).count() == 1


def test_two_devices_open_the_job_at_once():
    job = make_job(coordinatorParticipates=True)
    for _ in range(FEW):
        devices = [peer_create()[0] for _ in range(2)]
        for device in devices:
            participants.job_open(job, device)
        results = together(*(lambda d=device: participants.job_open(job, d) for device in devices))
        assert not any(isinstance(result, Exception) for result in results)
        job.refresh_from_db()
        assert [m.peer_id for m in Membership.objects.filter(job=job, trains=True)] == [job.coordinator_peer_id]
