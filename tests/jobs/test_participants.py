"""Peers: invitations, one current job per browser, pausing, leaving, coordinators' devices, sessions."""

from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.db import OperationalError
from django.utils.timezone import now

from jobs.selectors.downloads import artifact_for_peer
from jobs.selectors.peer_state import peer_state
from jobs.services import participants
from jobs.services.updates import update_precheck
from peers.models import Invitation, Membership, Peer
from peers.services.invitations import InvitationInvalid, invitation_create, invitation_revoke
from peers.services.presence import Heartbeats, is_connected, peer_seen
from peers.services.tokens import peer_create, peer_for_token
from tests.jobs.guests import decide, guest, member, token_of
from tests.jobs.world import (
    Participant,
    assert_invariants,
    make_job,
    merge_due,
    open_link,
    run_to_end,
    start,
)
from weei_core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized

pytestmark = [pytest.mark.django_db, pytest.mark.db]


# --- peers ---


def test_a_guest_peer_is_known_by_its_token_only():
    peer, token = peer_create()
    assert peer_for_token(token) == peer
    assert token not in str(Peer.objects.values().get())
    for wrong in ("", "x" * 300, token + "x"):
        with pytest.raises(Unauthorized):
            peer_for_token(wrong)


def test_a_lease_lasts_thirty_seconds_by_the_servers_clock():
    """C27, P9."""
    peer, at = guest(), now()
    assert peer_seen(peer, at)  # It was away before.
    assert is_connected(peer, at + timedelta(seconds=30))
    assert not is_connected(peer, at + timedelta(seconds=30.1))
    assert not peer_seen(peer, at + timedelta(seconds=10))
    assert peer_seen(peer, at + timedelta(seconds=100))


def test_heartbeats_are_written_together_and_tell_who_was_away():
    gathered, at = Heartbeats(), now()
    a, b = guest(), guest()
    peer_seen(a, at - timedelta(seconds=20))
    peer_seen(b, at - timedelta(seconds=40))
    for peer in (a, b, a):
        gathered.note(peer.pk)
    assert gathered.flush(at) == [b.pk]
    assert gathered.flush(at) == []
    assert all(is_connected(peer, at + timedelta(seconds=30)) for peer in Peer.objects.all())


def test_heartbeats_that_could_not_be_written_are_written_later(monkeypatch):
    """S7: a database that is away for a moment costs nobody a lease."""
    gathered, peer, at = Heartbeats(), guest(), now()
    gathered.note(peer.pk)
    with monkeypatch.context() as away:
        away.setattr(Peer.objects, "filter", Mock(side_effect=OperationalError))
        with pytest.raises(OperationalError):
            gathered.flush(at)
    gathered.flush(at + timedelta(seconds=1))
    peer.refresh_from_db()
    assert peer.seen_at == at + timedelta(seconds=1)


# --- invitations ---


def test_opening_a_link_uses_nothing_up_and_accepting_uses_one():
    job = make_job()
    invitation, url = invitation_create(job, uses=1)
    first, second = guest(), guest()
    for peer in (first, second, first):
        assert participants.invitation_open(peer, token_of(url), now()) == job
    assert peer_state(first, now())["invitations"] == [str(job.pk)]
    decide(first, job)
    invitation.refresh_from_db()
    assert (invitation.uses, member(first, job).state) == (1, "approved")
    with pytest.raises(InvitationInvalid):
        decide(second, job)
    assert (member(second, job).state, member(second, job).current) == ("invited", False)


def test_accepting_twice_is_one_participant_and_one_use():
    """C84."""
    job = make_job()
    invitation, url = invitation_create(job, uses=5)
    peer = guest()
    participants.invitation_open(peer, token_of(url), now())
    assert decide(peer, job).pk == decide(peer, job).pk
    invitation.refresh_from_db()
    assert invitation.uses == 1
    with pytest.raises(Conflict, match="accepted before"):
        decide(peer, job, accepted=False)
    assert member(peer, job).accepted_link


def test_declining_is_final_until_a_link_is_opened_again():
    """C84."""
    job = make_job()
    peer = guest()
    open_link(peer, job)
    decide(peer, job, accepted=False)
    decide(peer, job, accepted=False)
    assert member(peer, job).state == "declined"
    with pytest.raises(Conflict, match="declined or withdrawn"):
        decide(peer, job)
    open_link(peer, job)
    assert decide(peer, job).state == "approved"


def test_a_withdrawn_expired_or_foreign_link_lets_nobody_in():
    """C84, H4: all failures answer alike."""
    job = make_job()
    invitation, url = invitation_create(job)
    peer = guest()
    participants.invitation_open(peer, token_of(url), now())
    invitation_revoke(job, invitation.pk)
    invitation_revoke(job, invitation.pk)
    messages = set()
    for token in (token_of(url), "guess"):
        with pytest.raises(InvitationInvalid) as refused:
            participants.invitation_open(peer, token, now())
        messages.add((refused.value.message, refused.value.code))
    with pytest.raises(InvitationInvalid) as refused:
        decide(peer, job)
    messages.add((refused.value.message, refused.value.code))
    assert len(messages) == 1
    _, url = invitation_create(job)
    with pytest.raises(InvitationInvalid):
        participants.invitation_open(peer, token_of(url), now() + timedelta(days=7, seconds=1))
    with pytest.raises(NotFound):
        invitation_revoke(make_job(), invitation.pk)
    with pytest.raises(NotFound, match="no part in that job"):
        decide(guest(), job)


def test_no_link_lets_anybody_into_a_job_that_ended():
    """C84."""
    job = make_job(chunks=1)
    a = Participant(job)
    waiting = guest()
    open_link(waiting, job)
    _, url = invitation_create(job)
    start(job)
    run_to_end(job, [a])
    with pytest.raises(Conflict, match="The job has ended"):
        decide(waiting, job)
    with pytest.raises(InvitationInvalid):
        participants.invitation_open(guest(), token_of(url), now())


def test_only_the_hash_of_a_link_is_stored():
    invitation, url = invitation_create(make_job())
    assert len(token_of(url)) >= 43
    assert token_of(url) not in str(Invitation.objects.values().get(pk=invitation.pk))


@pytest.mark.parametrize(("uses", "field"), [(0, "uses"), (10_001, "uses")])
def test_uses_have_limits(uses, field):
    with pytest.raises(Invalid) as refused:
        invitation_create(make_job(), uses=uses)
    assert refused.value.field == field


def test_the_end_of_a_link_must_lie_ahead():
    with pytest.raises(Invalid, match="future"):
        invitation_create(make_job(), expires_at=now())


def test_inviting_by_name_needs_a_peer_of_ones_own():
    job, other = make_job(), make_job()
    known, stranger = Participant(other), guest()
    participants.participant_invite(job, known.peer.pk)
    assert peer_state(known.peer, now())["invitations"] == [str(job.pk)]
    with pytest.raises(NotFound):
        participants.participant_invite(job, stranger.pk)
    with pytest.raises(Conflict, match="Leave the current job first"):
        decide(known.peer, job)
    known.leave()
    assert decide(known.peer, job).state == "approved"


def test_inviting_a_participant_again_does_not_put_it_out():
    job = make_job()
    a = Participant(job)
    participants.participant_invite(job, a.peer.pk)
    open_link(a.peer, job)
    assert (a.membership.state, a.membership.current) == ("modelLoaded", True)


# --- one current job per browser ---


def test_a_second_job_needs_leaving_the_first():
    first, second = make_job(), make_job()
    a = Participant(first)
    open_link(a.peer, second)
    for action in (lambda: decide(a.peer, second), lambda: participants.job_open(second, a.peer)):
        with pytest.raises(Conflict) as refused:
            action()
        assert refused.value.code == "leave_first"
    a.leave()
    decide(a.peer, second)
    assert list(Membership.objects.filter(peer=a.peer, current=True).values_list("job", flat=True)) == [second.pk]


def test_the_constraint_answers_as_the_check_does(monkeypatch):
    """The check passed in both of two tabs; the database lets one in."""
    first, second = make_job(), make_job()
    a = Participant(first)
    open_link(a.peer, second)
    monkeypatch.setattr(participants, "_refuse_second_job", lambda peer, job_id: None)
    with pytest.raises(Conflict, match="Leave the current job first"):
        decide(a.peer, second)
    with pytest.raises(Conflict, match="Leave the current job first"):
        participants.job_open(second, a.peer)


# --- ready and load failed ---


def test_ready_must_name_the_jobs_files():
    job = make_job()
    a = Participant(job, ready=False)
    for module, auxiliary in (("0" * 64, {}), (job.module_id, {"sensor": "0" * 64})):
        with pytest.raises(Conflict) as refused:
            participants.participant_ready(a.peer, job.pk, module, auxiliary)
        assert refused.value.code == "wrong_files"
    assert a.membership.state == "approved"


def test_a_model_that_does_not_load_returns_the_item_with_a_reason():
    """C62: the round goes on."""
    job = make_job()
    a, b = Participant(job), Participant(job)
    start(job)
    participants.participant_load_failed(a.peer, job.pk, "RangeError: out of memory")
    assert (a.membership.state, a.membership.load_error) == ("modelLoadFailed", "RangeError: out of memory")
    assert a.item is None
    b.train()
    merge_due(job)
    assert b.item == "c1"
    participants.participant_load_failed(a.peer, job.pk, "[object Object]")
    assert a.membership.load_error == "Model toy failed in loadModel without a reason in words; it gave an object."
    a.ready()
    assert a.item == "c3"
    assert_invariants(job)


# --- pausing, leaving, removing ---


def test_pausing_ones_contribution_ends_the_assignment_at_once():
    job = make_job()
    a, b = Participant(job), Participant(job)
    start(job)
    participants.participant_pause_self(a.peer, job.pk, True)
    participants.participant_pause_self(a.peer, job.pk, True)
    assert a.item is None
    b.train()
    merge_due(job)
    assert (a.item, b.item) == (None, "c1")
    participants.participant_pause_self(a.peer, job.pk, False)
    assert a.item == "c3"
    assert_invariants(job)


def test_a_pause_by_the_coordinator_is_not_lifted_by_the_participant():
    job = make_job()
    a, b = Participant(job), Participant(job)
    start(job)
    participants.participant_pause(job, a.peer.pk, True)
    participants.participant_pause_self(a.peer, job.pk, False)
    b.train()
    merge_due(job)
    assert a.item is None
    participants.participant_pause(job, a.peer.pk, False)
    assert a.item is not None
    with pytest.raises(NotFound):
        participants.participant_pause(job, guest().pk, True)


@pytest.mark.parametrize("how", ["leave", "remove"])
def test_leaving_and_removal_cut_off_at_once(how):
    """P13: downloads 403, update 409, the item requeued."""
    job = make_job()
    a, b = Participant(job), Participant(job)
    start(job)
    attempt, chunk = a.attempt, a.assignment["data"]["sha256"]
    assert artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=chunk)
    if how == "leave":
        a.leave()
        a.leave()
    else:
        participants.participant_remove(job, a.peer.pk)
        participants.participant_remove(job, a.peer.pk)
    for sha256 in (chunk, job.module_id):
        with pytest.raises(Forbidden):
            artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=sha256)
    with pytest.raises(Conflict):
        update_precheck(peer=a.peer, attempt_id=attempt.pk, length=16, sha256="0" * 64)
    with pytest.raises(Conflict, match="does not take part"):
        a.ready()
    assert peer_state(a.peer, now())["job"] is None
    b.train()
    merge_due(job)
    assert b.item == "c1"
    assert_invariants(job)


def test_whoever_was_removed_needs_a_valid_link_to_come_back():
    job = make_job()
    a = Participant(job)
    participants.participant_remove(job, a.peer.pk)
    with pytest.raises(Conflict):
        decide(a.peer, job)
    open_link(a.peer, job)
    decide(a.peer, job)
    assert a.membership.state == "approved"


def test_who_leaves_and_accepts_again_is_the_last_to_be_dealt_to():
    """Order of acceptance: the last acceptance counts."""
    job = make_job()
    a, b = Participant(job), Participant(job)
    a.leave()
    open_link(a.peer, job)
    decide(a.peer, job)
    a.ready()
    start(job)
    assert (b.item, a.item) == ("c1", "c2")
