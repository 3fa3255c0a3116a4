"""The poll beside Django: the same answer, and everything that is refused is Django's to say."""

import json

import pytest
from django.db import OperationalError
from django.test import Client

from peers import polling
from peers.models import Peer
from peers.services.tokens import peer_create
from tests.checkpoints.asgi import call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]


@pytest.fixture
def polls():
    """`asked` are the paths that went on to Django."""

    async def django_application(scope, receive, send):
        application.asked.append((scope["method"], scope["path"]))
        await send({"type": "http.response.start", "status": 599, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    application = polling.Polls(django_application)
    application.asked = []
    return application


@pytest.mark.parametrize("header", ["Authorization", "Weei-Peer"])
def test_it_answers_as_django_does_and_counts_as_a_heartbeat(polls, header):
    peer, token = peer_create()
    headers = {header: f"Bearer {token}" if header == "Authorization" else token}
    answer = call(polls, "GET", polling.PATH, headers)
    assert (answer.status, polls.asked) == (200, [])
    assert Peer.objects.get(pk=peer.pk).seen_at is not None
    theirs = Client(headers={"authorization": f"Bearer {token}"}).get(polling.PATH)
    assert json.loads(answer.body) == theirs.json()
    assert answer.headers["content-type"] == theirs["Content-Type"].partition(";")[0]
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"


def test_what_is_refused_or_something_else_goes_on_to_django(polls):
    _, token = peer_create()
    known = {"Authorization": f"Bearer {token}"}
    asked = [
        ("GET", polling.PATH, {}),
        ("GET", polling.PATH, {"Authorization": "Bearer guessed"}),
        ("POST", polling.PATH, known),
        ("GET", f"{polling.PATH}/", known),
        ("GET", "/api/v1/peer/job", known),
    ]
    assert [call(polls, method, path, headers).status for method, path, headers in asked] == [599] * len(asked)
    assert polls.asked == [(method, path) for method, path, _ in asked]


def test_while_the_database_is_away_it_says_when_to_come_back(polls, monkeypatch):
    def away(peer, now):
        raise OperationalError("connection refused")

    monkeypatch.setattr(polling, "peer_state", away)
    _, token = peer_create()
    answer = call(polls, "GET", polling.PATH, {"Authorization": f"Bearer {token}"})
    assert answer.status == 503 and answer.headers["retry-after"] == "1"
    assert json.loads(answer.body)["code"] == "unavailable" and polls.asked == []
