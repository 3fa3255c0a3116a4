"""What peers call: each endpoint works, and answers alike when it is said twice."""

import uuid

import pytest
from django.utils import timezone

from jobs.models import Attempt
from jobs.services import participants
from peers.models import Membership, Peer
from peers.services.tokens import token_hash
from tests.api.world import Caller, World, assert_problem, browser, link_of
from tests.jobs.world import make_job, owner
from weei_core import protocol as wire
from weei_core import strict_json

pytestmark = pytest.mark.django_db
STATE = {"peerId", "session", "invitations", "job", "assignment"}


@pytest.fixture
def world():
    return World()


def ok(response, status=200):
    assert response.status_code == status, response.content
    return strict_json.loads(response.content)


def test_a_new_peer_gets_a_token_that_is_kept_only_by_its_hash():
    body = ok(Caller().post("/api/v1/peers"), 201)
    assert set(body) == {"peerId", "token"} and len(body["token"]) >= 43
    row = Peer.objects.get(pk=body["peerId"])
    assert row.token_hash == token_hash(body["token"]) and body["token"] not in str(vars(row))
    state = ok(Caller(body["token"]).get("/api/v1/peer/state"))
    assert state == {"peerId": body["peerId"], "session": 0, "invitations": [], "job": None, "assignment": None}


def test_one_address_cannot_make_peers_without_end():
    answers = [Caller().post("/api/v1/peers").status_code for _ in range(61)]
    assert set(answers[:60]) == {201} and answers[60] == 429
    assert Caller().post("/api/v1/peers").headers["Retry-After"] == "60"


def test_the_state_is_the_one_of_the_protocol_and_counts_as_a_heartbeat(world):
    Peer.objects.filter(pk=world.participant.peer.pk).update(lease_until=timezone.now(), seen_at=None)
    state = ok(world.participant.get("/api/v1/peer/state"))
    assert set(state) == STATE
    wire.parse_server_message(strict_json.js_json.dumps({"type": "state", **state}))
    assert set(state["assignment"]) == {
        *("attemptId", "assignmentId", "jobId", "round", "chunkId", "exampleCount", "moduleSha256", "weights", "data"),
        *("experience", "auxiliary", "settings", "seed", "split", "backend", "secondsLeft"),
    }
    assert state["job"]["status"] == "running" and isinstance(state["assignment"]["seed"], str)
    assert Peer.objects.get(pk=world.participant.peer.pk).lease_until > timezone.now()


def test_a_peer_that_was_away_is_given_work_when_it_asks(world):
    back = browser()
    participants.invitation_open(back.peer, link_of(world.job), timezone.now())
    participants.invitation_decide(back.peer, world.job.pk, True, timezone.now())
    participants.participant_ready(back.peer, world.job.pk, world.job.module_id, {})
    Attempt.objects.filter(peer=back.peer).delete()
    assert ok(back.get("/api/v1/peer/state"))["job"]["ready"] is True


def test_a_link_is_opened_accepted_and_the_module_reported_ready():
    job = make_job(user=owner("alice"))
    peer = browser()
    facts = ok(peer.post("/api/v1/invitations/open", {"token": link_of(job)}))
    assert facts["jobId"] == str(job.pk) and facts["state"] == "invited" and facts["coordinator"] == "alice"
    assert ok(peer.get("/api/v1/peer/state"))["invitations"] == [str(job.pk)]
    assert ok(peer.get(f"/api/v1/invitations/{job.pk}")) == facts
    state = ok(peer.post("/api/v1/invitations/decide", {"jobId": str(job.pk), "accepted": True}))
    assert (state["job"]["state"], state["job"]["ready"], state["invitations"]) == ("approved", False, [])
    ready = {"jobId": str(job.pk), "moduleSha256": job.module_id}
    assert ok(peer.post("/api/v1/peer/ready", ready))["job"]["ready"] is True
    assert ok(peer.post("/api/v1/peer/ready", {**ready, "auxiliary": {}}))["job"]["state"] == "modelLoaded"


def test_ready_with_another_module_is_refused(world):
    body = {"jobId": str(world.job.pk), "moduleSha256": "0" * 64}
    assert_problem(world.participant.post("/api/v1/peer/ready", body), 409, "wrong_files")


@pytest.mark.parametrize("accepted", [True, False])
def test_deciding_twice_answers_alike(world, accepted):
    body = {"jobId": str(world.job.pk), "accepted": accepted}
    first = ok(world.invited.post("/api/v1/invitations/decide", body))
    assert ok(world.invited.post("/api/v1/invitations/decide", body)) == first
    expected = "approved" if accepted else "declined"
    assert Membership.objects.get(peer=world.invited.peer, job=world.job).state == expected


def test_accept_and_decline_have_one_outcome(world):
    """C84."""
    body = {"jobId": str(world.job.pk)}
    ok(world.invited.post("/api/v1/invitations/decide", {**body, "accepted": True}))
    refused = world.invited.post("/api/v1/invitations/decide", {**body, "accepted": False})
    assert_problem(refused, 409, "decided")
    ok(world.invited.post("/api/v1/peer/leave", body))
    assert_problem(world.invited.post("/api/v1/invitations/decide", {**body, "accepted": True}), 409, "decided")


def test_a_model_that_does_not_load_is_reported_and_its_work_goes_back(world):
    body = {"jobId": str(world.job.pk), "reason": "CompileError: <b>" + "x" * 10_000}
    state = ok(world.participant.post("/api/v1/peer/load-failed", body))
    assert state["assignment"] is None and state["job"]["state"] == "modelLoadFailed"
    assert len(state["job"]["error"]) == 500


def test_a_failed_attempt_ends_and_saying_it_twice_changes_nothing(world):
    path = f"/api/v1/peer/attempts/{world.attempt}/failed"
    assert ok(world.participant.post(path, {"reason": "trap " * 1_000}))["assignment"]["attemptId"] != world.attempt
    assert ok(world.participant.post(path, {"reason": "again"}))["assignment"] is not None
    attempt = Attempt.objects.get(pk=world.attempt)
    assert attempt.state == "failed" and 490 < len(attempt.reason) <= 500
    assert_problem(world.participant.post(f"/api/v1/peer/attempts/{uuid.uuid4()}/failed", {"reason": "x"}), 404)


def test_pausing_ends_the_attempt_at_once_and_resuming_does_not_hurt(world):
    body = {"jobId": str(world.job.pk)}
    state = ok(world.participant.post("/api/v1/peer/pause", {**body, "paused": True}))
    assert state["assignment"] is None and state["job"]["pausedByPeer"] is True
    assert ok(world.participant.post("/api/v1/peer/pause", {**body, "paused": True}))["job"]["pausedByPeer"] is True
    assert ok(world.participant.post("/api/v1/peer/pause", {**body, "paused": False}))["job"]["pausedByPeer"] is False


def test_who_left_has_no_job_and_may_say_so_twice(world):
    for _ in range(2):
        state = ok(world.participant.post("/api/v1/peer/leave", {"jobId": str(world.job.pk)}))
        assert (state["job"], state["assignment"]) == (None, None)
    assert Attempt.objects.get(pk=world.attempt).state == "left"
    body = {"jobId": str(world.job.pk), "paused": True}
    assert_problem(world.participant.post("/api/v1/peer/pause", body), 409, "not_a_member")


def test_a_second_job_waits_until_the_first_is_left(world):
    """One current job per browser; the first goes on."""
    second = make_job(user=owner("bob"))
    ok(world.participant.post("/api/v1/invitations/open", {"token": link_of(second)}))
    accept = {"jobId": str(second.pk), "accepted": True}
    assert_problem(world.participant.post("/api/v1/invitations/decide", accept), 409, "leave_first")
    assert Attempt.objects.get(pk=world.attempt).state == "live"
    ok(world.participant.post("/api/v1/peer/leave", {"jobId": str(world.job.pk)}))
    assert ok(world.participant.post("/api/v1/invitations/decide", accept))["job"]["id"] == str(second.pk)


@pytest.mark.parametrize("token", ["", "x", "x" * 43, "\u00e4" * 300, "a b", "x" * 10_000])
def test_an_unknown_token_is_unauthorized(token):
    response = Caller().get("/api/v1/peer/state", authorization=f"Bearer {token}".encode().decode("latin-1"))
    assert_problem(response, 401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["Basic eDp5", "bearer", "Bearer", "Token abc"])
def test_another_way_of_asking_is_unauthorized(header):
    assert_problem(Caller().get("/api/v1/peer/state", authorization=header), 401, "unauthorized")


def test_facts_of_a_job_end_with_leaving_it(world):
    ok(world.invited.get(f"/api/v1/invitations/{world.job.pk}"))
    assert_problem(world.left.get(f"/api/v1/invitations/{world.job.pk}"), 404)
    participants.participant_remove(world.job, world.participant.peer.pk)
    assert_problem(world.participant.get(f"/api/v1/invitations/{world.job.pk}"), 404)
