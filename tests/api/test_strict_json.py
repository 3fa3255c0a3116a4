"""Whatever is sent, the answer is a 4xx problem that says why (C86, I8; requirement 14)."""

import json
import uuid

import pytest

from tests.api.bad_json import TEXTS
from tests.api.world import World, assert_problem
from weei_site.api import api

pytestmark = pytest.mark.django_db

OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in api.get_openapi_schema()["paths"].items()
    for method, operation in methods.items()
    if method not in ("get", "head", "delete")
}
UNSAFE = list(OPERATIONS)
TAKES_NO_BODY = {path for (_, path), operation in OPERATIONS.items() if "requestBody" not in operation}
EMPTY_IS_FINE = {"/api/v1/peers", "/api/v1/jobs/{job_id}/validation", "/api/v1/jobs/{job_id}/invitations"}


def test_the_corpus_is_large_enough():
    assert len(TEXTS) >= 40


@pytest.fixture
def world(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    return World()


def address(world, path):
    known = {
        "job_id": world.job.pk,
        "attempt_id": world.attempt,
        "peer_id": world.participant.peer.pk,
        **dict.fromkeys(("invitation_id", "package_id", "draft_id", "token_id"), uuid.uuid4()),
    }
    return path.format(**known)


def caller(world, path):
    return world.participant if path.startswith(("/api/v1/peer", "/api/v1/invitations")) else world.owner


@pytest.mark.parametrize("method, path", [row for row in UNSAFE if row[1] not in TAKES_NO_BODY])
def test_bad_bodies_are_refused_and_change_nothing(world, method, path):
    before = caller(world, "/api/v1/peer").get("/api/v1/peer/state").json()
    for name, text in TEXTS.items():
        response = caller(world, path).call(method, address(world, path), raw=text)
        assert 400 <= response.status_code < 500, (name, response.status_code, response.content)
        problem = assert_problem(response)
        assert response.status_code in (404, 422), (name, problem)
        assert len(problem["title"]) < 600 and problem.get("field"), (name, problem)
    after = caller(world, "/api/v1/peer").get("/api/v1/peer/state").json()
    for state in (before, after):
        (state["assignment"] or {}).pop("secondsLeft", None)
    assert before == after


@pytest.mark.parametrize("path", sorted(TAKES_NO_BODY))
def test_a_body_that_is_not_asked_for_is_not_read(world, path):
    for name, text in list(TEXTS.items())[:10]:
        status = caller(world, path).call("POST", address(world, path), raw=text).status_code
        assert status < 500, name


def test_the_reason_of_bad_json_is_told(world):
    response = world.participant.call("POST", "/api/v1/peer/pause", raw=b'{"paused":true,"paused":false}')
    problem = assert_problem(response, 422, "invalid_json")
    assert "paused" in problem["title"] and problem["field"] == "body"


def test_a_wrong_type_is_named_by_its_field(world):
    body = {"jobId": str(world.job.pk), "paused": "true"}
    problem = assert_problem(world.participant.post("/api/v1/peer/pause", body), 422, "invalid")
    assert problem["field"] == "paused"


@pytest.mark.parametrize("field", ["owner", "status", "round", "is_staff", "__class__"])
def test_unknown_fields_are_refused(world, field):
    """H14."""
    for path in ("/api/v1/peer/pause", "/api/v1/peer/leave"):
        body = {"jobId": str(world.job.pk), field: 1, **({"paused": True} if path.endswith("pause") else {})}
        assert assert_problem(world.participant.post(path, body), 422)["field"] == field


def test_a_value_is_never_read_as_another_type(world):
    """ "1" is not 1, 1 is not true, 1.0 is not a count in a body."""
    for uses in ("1", True, 1.5, [1]):
        assert_problem(world.owner.post(f"/api/v1/jobs/{world.job.pk}/invitations", {"uses": uses}), 422)


def test_every_answer_is_json_that_a_strict_reader_takes(world):
    """C76: a number that JSON does not know never leaves the server."""
    from checkpoints.models import Checkpoint
    from weei_core import strict_json

    Checkpoint.objects.filter(job=world.job).update(metrics_text='{"loss":-0.0}')
    for path in ("", "/checkpoints", "/invitations", "/checkpoints/0/ledger"):
        strict_json.loads(world.owner.get(f"/api/v1/jobs/{world.job.pk}{path}").content)
    strict_json.loads(world.owner.get("/api/v1/jobs").content)
    strict_json.loads(world.participant.get("/api/v1/peer/state").content)


def test_a_number_that_json_does_not_know_cannot_be_sent():
    from weei_core.errors import Invalid
    from weei_site.api import JavaScriptRenderer

    for number in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(Invalid):
            JavaScriptRenderer().render(None, {"loss": number}, response_status=200)
    assert json.loads(JavaScriptRenderer().render(None, {"loss": -0.0}, response_status=200)) == {"loss": 0}
