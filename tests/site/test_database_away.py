"""Without its database every page and call says so, and when to come back; nothing is a bug. S7."""

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from tests.security import matrix
from tests.security.test_matrix import PAGE_PATTERNS, ROUTES
from weei_site.middleware import RETRY_SECONDS

pytestmark = pytest.mark.django_db
ID = "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"
IDS = ("job_id", "attempt_id", "draft_id", "package_id", "invitation_id", "peer_id", "token_id")


@pytest.fixture
def client(monkeypatch, settings):
    """A browser with a session, at a server whose database went away."""

    def away(*_, **__):
        raise OperationalError("the connection was closed")

    client = Client(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = "x" * 32
    monkeypatch.setattr("django.db.backends.utils.CursorWrapper.execute", away)
    return client


def assert_says_when(response, what):
    assert response.status_code == 503, what
    assert response.headers["Retry-After"] == str(RETRY_SECONDS), what


@pytest.mark.parametrize("htmx", [False, True], ids=["page", "fragment"])
@pytest.mark.parametrize("path", ["/", "/jobs/", f"/jobs/{ID}/", "/join/abc/", "/account/sites/", "/admin/"])
def test_a_page_says_so_in_words(client, path, htmx):
    response = client.get(path, headers={"HX-Request": "true"} if htmx else {})
    assert_says_when(response, path)
    assert "The server&#x27;s database does not answer" in response.content.decode()


def test_every_page_and_every_call_does(client):
    """Or it needs nothing of the database; none takes it for a bug."""
    values = {**dict.fromkeys(IDS, ID), "round_no": 0, "item_id": 1, "token": "x"}
    answers = {}
    for name, arguments in PAGE_PATTERNS.items():
        _, _, given = matrix.PAGES[name]
        address = reverse(name, kwargs={key: {**values, **given}[key] for key in arguments})
        answers[name] = client.get(address)
    for method, path in ROUTES:
        headers, body = {"Authorization": "Bearer x"}, "application/json"
        answers[method, path] = client.generic(method.upper(), path.format(**values), b"{}", body, headers=headers)
    assert len(answers) > 60
    for what, response in answers.items():
        assert response.status_code != 500, (what, response.content[:300])
        if response.status_code == 503:
            assert_says_when(response, what)
    assert sum(response.status_code == 503 for response in answers.values()) > 40
