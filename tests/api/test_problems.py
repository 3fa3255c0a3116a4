"""One shape for every refusal, whoever refuses: a service, the parser, the CSRF check, the router, or a database that
is away."""

import json
import re

import pytest
from django.conf import settings as django_settings
from django.db import InterfaceError, OperationalError
from django.test import Client

from tests.api.world import Caller, World, assert_problem, browser
from weei_site.api import api

pytestmark = pytest.mark.django_db
PATHS = api.get_openapi_schema()["paths"]
ID = "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"
UNSAFE = [(m, p) for p, methods in PATHS.items() for m in methods if m != "get"]


def filled(path):
    return re.sub(r"\{\w+_id\}", ID, path).replace("{round_no}", "0")


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("path", PATHS)
def test_another_method_is_refused_and_the_right_ones_named(path):
    allowed = {method.upper() for method in PATHS[path]}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - allowed:
        response = browser("alice").call(method, filled(path), {})
        assert_problem(response, 405, "method_not_allowed")
        assert {name.strip() for name in response["Allow"].split(",")} == allowed


@pytest.mark.parametrize("path", [path for path in PATHS if "{" in path])
@pytest.mark.parametrize("bad", ["x", "0", "00000000-0000-0000-0000-00000000000", "%00", "..%2f", "1' OR '1'='1"])
def test_a_malformed_id_is_refused(path, bad):
    """H16."""
    address = re.sub(r"\{\w+\}", bad, path, count=1)
    address = filled(address)
    method = next(iter(PATHS[path]))
    response = browser("alice").call(method.upper(), address, None if method == "get" else {})
    assert response.status_code in (404, 405, 422)
    assert_problem(response)


@pytest.mark.parametrize("path", ["/api/", "/api/v1/nothing", "/api/v1/jobs/x/y/z", "/api/v1//jobs", "/api/v1/peer"])
def test_an_unknown_address_is_a_problem_too(path):
    assert_problem(Caller().get(path), 404, "not_found")


def test_pages_keep_their_own_404():
    assert "text/html" in Client().get("/nothing")["Content-Type"]


@pytest.mark.parametrize("method, path", UNSAFE)
def test_session_calls_need_the_csrf_token_and_peers_do_not(method, path):
    """H1: no unsafe call works by a cookie alone; a bearer token does not come along by itself."""
    by_token = path.startswith(("/api/v1/peer", "/api/v1/invitations", "/api/v1/site"))
    caller = browser("alice", enforce_csrf_checks=True)
    response = caller.call(method.upper(), filled(path), {})
    if by_token:
        assert response.status_code != 403
    else:
        assert "CSRF" in assert_problem(response, 403, "forbidden")["title"]


def test_a_session_call_with_the_csrf_token_works(world):
    alice = browser("alice", enforce_csrf_checks=True)
    alice.client.get("/jobs/")
    token = alice.client.cookies[django_settings.CSRF_COOKIE_NAME].value
    path = f"/api/v1/jobs/{world.job.pk}/pause"
    assert alice.post(path, **{"x-csrftoken": token}).status_code == 200
    assert_problem(alice.post(path, **{"x-csrftoken": token[:-1] + "x"}), 403)
    foreign = {"x-csrftoken": token, "origin": "https://other.example"}
    assert_problem(alice.post(path, **foreign), 403)


def test_no_get_changes_anything(world):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    for path, methods in PATHS.items():
        if "get" not in methods or path == "/api/v1/peer/state":
            continue
        address = path.format(job_id=world.job.pk, draft_id=ID, package_id=ID, round_no=0)
        with CaptureQueriesContext(connection) as queries:
            world.owner.get(address)
        changed = [q["sql"] for q in queries if re.match("INSERT|UPDATE|DELETE", q["sql"])]
        assert not changed, path


@pytest.mark.parametrize("error", [OperationalError("server closed the connection"), InterfaceError("closed")])
def test_a_database_that_is_away_is_503_and_says_when_to_come_back(world, monkeypatch, error):
    """S7."""

    def away(*_, **__):
        raise error

    monkeypatch.setattr("peers.polling.peer_state", away)
    response = world.participant.get("/api/v1/peer/state")
    assert_problem(response, 503, "unavailable")
    assert response["Retry-After"] == "5"
    monkeypatch.setattr("peers.api.peer_for_token", away)
    assert_problem(world.participant.get("/api/v1/peer/state"), 503, "unavailable")
    monkeypatch.setattr("jobs.views.pages.job_for_owner", away)
    page = world.owner.client.get(f"/jobs/{world.job.pk}/")
    assert page.status_code == 503 and "text/html" in page["Content-Type"]


def test_a_bug_is_not_told_and_not_a_problem_detail(world, monkeypatch):
    """H18. A problem detail is final, and this may pass: clients try again."""

    def bug(*_, **__):
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr("peers.polling.peer_state", bug)
    response = world.participant.get("/api/v1/peer/state")
    assert response.status_code == 500 and b"42" not in response.content and b"Traceback" not in response.content
    assert response["Content-Type"] != "application/problem+json"


def test_refusals_are_not_kept_by_caches(world):
    assert "no-store" in world.stranger.get(f"/api/v1/jobs/{world.job.pk}")["Cache-Control"]


def test_the_documentation_loads_nothing_from_elsewhere_and_runs_under_the_policy():
    page = Client().get("/api/docs")
    text = page.content.decode()
    assert page.status_code == 200 and not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.S)
    assert scripts and all('type="application/json"' in head or not body.strip() for head, body in scripts)
    assert not re.search(r"""\son\w+=""", text)


def test_the_openapi_description_names_every_call():
    schema = json.loads(Client().get("/api/openapi.json").content)
    assert schema["paths"].keys() == PATHS.keys()
    assert schema["info"]["title"] == "Weei"


def test_a_body_that_is_broken_in_its_own_type_is_a_problem_too():
    """Looking for the CSRF token in a form that is none must not end in Django's own page."""
    alice = browser("alice", enforce_csrf_checks=True)
    alice.client.cookies[django_settings.CSRF_COOKIE_NAME] = "a" * 32
    response = alice.client.generic("POST", "/api/v1/artifacts/held", b"x", "multipart/form-data")
    assert_problem(response, 422, "invalid")
