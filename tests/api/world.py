"""Who may ask the API, and with what: the roles of the authorization matrix, around one running job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from django.test import Client
from django.utils import timezone

from jobs.models import Job
from jobs.services import participants
from peers.models import Peer
from peers.services.invitations import invitation_create
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, make_job, owner, start

# Both jobs' models answer questions, so that a person may be refused the page on which they are asked.
ANSWERS = {"inference": True}


@dataclass
class Caller:
    """A browser: a session, a guest peer, both, or nothing."""

    token: str | None = None
    peer: Peer | None = None
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(self, method, path, body=None, *, raw=None, **headers):
        text = raw if raw is not None else "" if body is None else json.dumps(body)
        if self.token:
            headers = {"authorization": f"Bearer {self.token}", **headers}
        return self.client.generic(method, path, text, "application/json", headers=headers)

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body if body is not None else {}, **headers)


def browser(name=None, **options):
    """A browser with a guest peer, signed in as `name` if that is given."""
    peer, token = peer_create()
    caller = Caller(token, peer, Client(raise_request_exception=False, **options))
    if name:
        caller.client.force_login(owner(name))
    return caller


def link_of(job: Job, **fields) -> str:
    """The secret of a new invitation link."""
    _, url = invitation_create(job, **fields)
    return url.rstrip("/").split("/")[-1]


class World:
    """`job` of alice runs: a participant trains, one was invited, one left. `other` is mallory's, and ready."""

    def __init__(self):
        self.job = make_job(chunks=6, epochs=3, user=owner("alice"), capabilities=ANSWERS)
        self.other = make_job(chunks=2, weights=(9.0, 8.0, 7.0, 6.0), user=owner("mallory"), capabilities=ANSWERS)
        trains = Participant(self.job)
        self.participant = Caller(trains.token, trains.peer)
        gone = Participant(self.job)
        participants.participant_leave(gone.peer, self.job.pk)
        self.left = Caller(gone.token, gone.peer)
        self.invited = browser()
        participants.invitation_open(self.invited.peer, link_of(self.job), timezone.now())
        self.owner = browser("alice")
        participants.job_open(self.job, self.owner.peer)
        self.stranger = browser("mallory")
        self.anonymous = Caller()
        start(self.job)
        self.attempt = trains.assignment["attemptId"]

    ROLES = ("anonymous", "stranger", "invited", "left", "participant", "owner")

    def caller(self, role) -> Caller:
        return getattr(self, role)


def assert_problem(response, status=None, code=None):
    """RFC 9457, the one shape of every refusal."""
    body = json.loads(response.content)
    assert response["Content-Type"] == "application/problem+json", body
    assert body["status"] == response.status_code and status in (None, response.status_code), body
    assert body["type"] == f"/help/errors#{body['code']}" and code in (None, body["code"]), body
    assert body["title"].endswith((".", "!", ")")) and "\n" not in body["title"], body
    return body
