"""Made-up requests, right ones and wrong ones, for every call: no answer is a fault of the server, and each is one that
the description names."""

from __future__ import annotations

import copy
import uuid

import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.failures import FailureGroup

from jobs.models import JobDraft, Package
from peers.models import Invitation
from tests.api.fuzzing import CHECKS, described, reach
from tests.api.world import World, link_of
from weei_site.api import api

pytestmark = pytest.mark.django_db(transaction=False)
schema = described()
schema.app = get_wsgi_application()
CSRF = "c" * 32
EXAMPLES = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def one_connection():
    """The server shares the connection of the test, and so does not close it behind a request."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def world(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    return World()


@pytest.fixture
def ids(world):
    job = world.job
    token = link_of(job, uses=9)
    package = Package.objects.create(
        owner=job.owner, source=job.module, source_name="data.csv", state="done", touched=job.created
    )
    draft = JobDraft.objects.create(owner=job.owner, request_text="{}", state="failed", error="x")
    return {
        "job_id": job.pk,
        "jobId": str(job.pk),
        "attempt_id": world.attempt,
        "draft_id": draft.pk,
        "package_id": package.pk,
        "invitation_id": Invitation.objects.filter(job=job).latest("created").pk,
        "peer_id": world.participant.peer.pk,
        "round_no": 0,
        "token": token,
        "token_id": uuid.uuid4(),
        "moduleSha256": job.module_id,
    }


def sent_by(caller):
    """As a browser sends it: the peer's token, and the session with its CSRF token."""
    headers, session = {"Authorization": f"Bearer {caller.token}"}, django_settings.SESSION_COOKIE_NAME
    if session not in caller.client.cookies:
        return {"headers": headers}
    cookies = {session: caller.client.cookies[session].value, django_settings.CSRF_COOKIE_NAME: CSRF}
    return {"headers": {**headers, "X-CSRFToken": CSRF}, "cookies": cookies}


def answer(case, world, ids):
    """In a transaction that is undone, so that what one request changes is not what the next one meets."""
    reach(case, ids)
    peers_own = case.operation.path.startswith(("/api/v1/peer", "/api/v1/invitations"))
    with transaction.atomic():
        case.call_and_validate(**sent_by(world.participant if peers_own else world.owner), checks=CHECKS)
        transaction.set_rollback(True)


@schema.parametrize()
@EXAMPLES
def test_whatever_is_sent_the_answer_is_one_of_those_described(case, world, ids):
    answer(case, world, ids)


@pytest.mark.full
@schema.parametrize()
@settings(EXAMPLES, max_examples=150, derandomize=False)
def test_however_much_is_sent_the_answer_is_one_of_those_described(case, world, ids):
    answer(case, world, ids)


def test_an_answer_that_is_not_as_described_is_noticed(world):
    """The test above must be able to fail."""
    document = copy.deepcopy(api.get_openapi_schema())
    document["components"]["schemas"]["SavedJob"]["properties"]["name"] = {"type": "integer"}
    wrong = schemathesis.openapi.from_dict(document)
    wrong.app = schema.app
    case = wrong["/api/v1/jobs"]["GET"].Case()
    with pytest.raises(FailureGroup, match="is not of type"):
        case.call_and_validate(**sent_by(world.owner), checks=CHECKS)
