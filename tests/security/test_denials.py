"""One line in the log for each denial, with who, what and why, and never a secret. Requirement 15, H16."""

import pytest

from tests.api.world import World, browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return World()


@pytest.fixture
def denied(caplog):
    caplog.set_level("INFO")

    def lines():
        found = [record.getMessage() for record in caplog.records if record.name == "weei.denied"]
        caplog.clear()
        return found

    return lines


def test_a_stranger_is_named_with_the_route_and_the_reason(world, denied):
    world.stranger.get(f"/api/v1/jobs/{world.job.pk}")
    pk = world.other.owner_id
    assert denied() == [f"user={pk} peer=- GET /api/v1/jobs/<job_id> 404 not_found"]
    world.stranger.client.get(f"/jobs/{world.job.pk}/")
    assert denied() == [f"user={pk} peer=- GET /jobs/<uuid:job_id>/ 404 not_found"]


def test_a_peer_is_named_by_its_id(world, denied):
    world.participant.get(f"/api/v1/invitations/{world.other.pk}")
    (line,) = denied()
    assert line.startswith(f"user=- peer={world.participant.peer.pk} GET /api/v1/invitations/<")
    assert line.endswith("job_id> 404 not_found")


def test_who_is_not_known_is_a_dash(world, denied):
    world.anonymous.get("/api/v1/peer/state")
    world.anonymous.get("/api/v1/jobs")
    assert denied() == [
        "user=- peer=- GET /api/v1/peer/state 401 unauthorized",
        "user=- peer=- GET /api/v1/jobs 401 unauthorized",
    ]


def test_a_missing_csrf_token_is_a_line_for_calls_and_pages(world, denied):
    alice = browser("alice", enforce_csrf_checks=True)
    pk = world.job.owner_id
    alice.post(f"/api/v1/jobs/{world.job.pk}/pause")
    assert denied() == [f"user={pk} peer=- POST /api/v1/jobs/<job_id>/pause 403 forbidden"]
    alice.client.post(f"/jobs/{world.job.pk}/actions/pause")
    assert denied() == [f"user={pk} peer=- POST /jobs/<uuid:job_id>/actions/<slug:action> 403 csrf"]


def test_what_is_allowed_or_nowhere_is_no_line(world, denied):
    world.owner.get(f"/api/v1/jobs/{world.job.pk}")
    world.participant.get("/api/v1/peer/state")
    world.anonymous.client.get("/no/such/page")
    world.owner.call("PATCH", f"/api/v1/jobs/{world.job.pk}/settings", {"epochs": 0})
    assert denied() == []


def test_no_secret_reaches_the_log(world, caplog):
    """Tokens of peers, of links to invite and to sign in; right ones and guesses."""
    caplog.set_level("DEBUG")
    secret = "s3cr3t-" + "x" * 36
    guess = world.anonymous
    guess.token = secret
    guess.get("/api/v1/peer/state")
    world.participant.post("/api/v1/invitations/open", {"token": secret})
    guess.client.get(f"/join/{secret}/")
    guess.client.post(f"/join/{secret}/")
    guess.client.get(f"/sign-in/{secret}/")
    guess.client.post(f"/sign-in/{secret}/")
    guess.client.get(f"/join/{secret}/more")
    world.participant.get("/api/v1/peer/state")
    for text in (secret, world.participant.token):
        shown = [record.getMessage() for record in caplog.records if text in record.getMessage()]
        assert not shown


def test_a_route_cannot_forge_a_line(world, denied):
    world.stranger.call("GET", "/api/v1/jobs/%0auser=1%20peer=-%20GET%20/admin/%20200")
    world.stranger.client.get("/jobs/new%0aline/")
    assert all("\n" not in line for line in denied())
