"""Who may read which bytes."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.bytes.app import BytesApp
from checkpoints.models import Artifact, JobArtifact
from jobs.models import Attempt
from jobs.selectors import downloads
from peers.models import Membership, Peer
from peers.services.tokens import peer_create
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import World, bearer, make_job, sha
from weei_core.errors import Forbidden, NotFound

State = Membership.State


def get(world: World, data: bytes, headers=None, method="GET"):
    return call(BytesApp(), method, world.path(data), bearer(world.token) if headers is None else headers)


@pytest.mark.db
def test_a_participant_at_work_reads_what_the_work_needs(world):
    auxiliary = b"auxiliary weights"
    world.add(auxiliary, JobArtifact.Kind.AUXILIARY)
    for data in (world.module, auxiliary, world.weights, world.chunks[0]):
        answer = get(world, data)
        assert (answer.status, answer.body) == (200, data)


def test_a_participant_reads_nothing_else(world):
    """C82, I7: not another chunk, never the validation file, no state, no other's update."""
    extra = {kind: kind.encode() for kind in ("state", "update", "manifest", "archive")}
    for kind, data in extra.items():
        world.add(data, kind)
    for data in (world.chunks[1], world.validation, *extra.values()):
        answer = get(world, data)
        assert answer.status == 403, data
        assert data not in answer.body


@pytest.mark.parametrize("state", [State.INVITED, State.DECLINED, State.LEFT, State.REMOVED])
def test_before_accepting_and_after_leaving_nothing_is_read(world, state):
    """H5, C82: also not with an attempt that is still live."""
    Membership.objects.update(state=state)
    for data in (world.module, world.weights, world.chunks[0], b"no file of the job"):
        answer = get(world, data)
        assert (answer.status, answer.json["code"]) == (403, "forbidden")
        assert data not in answer.body


@pytest.mark.parametrize("state", [s for s in Attempt.State if s != Attempt.State.LIVE])
def test_what_an_attempt_names_is_read_only_while_it_is_live(world, state):
    Attempt.objects.update(state=state)
    assert get(world, world.module).status == 200
    for data in (world.weights, world.chunks[0]):
        assert get(world, data).status == 403


def test_a_stranger_learns_nothing(world):
    """H3: the same answer for what is there and what is not."""
    _, token = peer_create()
    answers = {get(world, data, bearer(token)).body for data in (world.module, world.weights, b"nothing")}
    assert len(answers) == 1
    assert b"not_found" in answers.pop()
    other = bearer(token)
    assert call(BytesApp(), "GET", f"/bytes/jobs/{uuid.uuid4()}/{sha(world.module)}", other).status == 404


def test_a_denial_is_one_line_of_the_log(world, caplog):
    """Who, what and why."""
    caplog.set_level("INFO")
    get(world, world.validation)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "checkpoints.bytes.app"]
    assert str(world.peer.pk) in line
    assert world.path(world.validation) in line
    assert "403 forbidden" in line
    assert world.token not in line


def test_a_job_of_ones_own_opens_no_other(world):
    other = make_job(world.owner, Artifact.objects.get(pk=sha(world.module)), 4)
    Membership.objects.create(peer=world.peer, job=other, state=State.APPROVED)
    for data in (world.weights, world.chunks[0], world.module):
        assert call(BytesApp(), "GET", f"/bytes/jobs/{other.pk}/{sha(data)}", bearer(world.token)).status == 404


def test_the_coordinator_reads_everything_of_their_jobs(world):
    for data in (world.module, world.weights, *world.chunks, world.validation):
        answer = get(world, data, world.session())
        assert (answer.status, answer.body) == (200, data)
    assert get(world, b"nothing", world.session()).status == 404


def test_another_coordinator_reads_nothing(world):
    """H3."""
    other = world.session(User.objects.create_user("other"))
    for data in (world.module, world.validation):
        assert get(world, data, other).status == 404


def test_a_browser_that_trains_and_coordinates_has_both_rights(world):
    assert get(world, world.validation, bearer(world.token) | world.session()).status == 200
    assert get(world, world.module, bearer("wrong") | world.session()).status == 200
    stranger = world.session(User.objects.create_user("other"))
    assert get(world, world.chunks[0], bearer(world.token) | stranger).status == 200
    assert get(world, world.validation, bearer(world.token) | stranger).status == 403


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no"}, {"Cookie": "weei_session_8000=no"}])
def test_nobody_reads_without_being_known(world, headers):
    answer = get(world, world.module, headers)
    assert (answer.status, answer.json["code"]) == (401, "unauthorized")


def test_a_person_whose_account_ended_reads_nothing(world):
    session = world.session()
    User.objects.update(is_active=False)
    assert get(world, world.module, session).status == 401


ROLES = ["participant", "invited", "left", "stranger", "owner", "other owner"]
READERS = {
    "module": {"participant", "owner"},
    "auxiliary": {"participant", "owner"},
    "weights": {"owner"},
    "chunk": {"owner"},
    "validation": {"owner"},
    "manifest": {"owner"},
    "archive": {"owner"},
    "state": {"owner"},
    "update": {"owner"},
}


@pytest.mark.db
@pytest.mark.parametrize("role", ROLES)
def test_every_role_and_kind(world, role):
    """The whole matrix: a new kind without a row fails. Nothing here is named by an attempt."""
    assert set(READERS) == set(JobArtifact.Kind.values)
    for kind, readers in READERS.items():
        data = f"a file as {kind}".encode()
        world.add(data, kind)
        assert allowed(world, role, sha(data)) == (role in readers), kind


def allowed(world: World, role: str, sha256: str) -> bool:
    try:
        if role in ("owner", "other owner"):
            user = world.owner if role == "owner" else User.objects.get_or_create(username="other")[0]
            downloads.artifact_for_owner(user_id=user.pk, job_id=world.job.pk, sha256=sha256)
        else:
            peer = member(world, role)
            downloads.artifact_for_peer(peer=peer, job_id=world.job.pk, sha256=sha256)
    except (Forbidden, NotFound):
        return False
    return True


def member(world: World, role: str) -> Peer:
    if role == "stranger":
        return peer_create()[0]
    states = {"participant": State.MODEL_LOADED, "invited": State.INVITED, "left": State.LEFT}
    Membership.objects.update(state=states[role])
    return world.peer


@pytest.mark.db
def test_one_query_authorizes_a_peer(world):

    with CaptureQueriesContext(
        connection,
    ) as queries:
        downloads.artifact_for_peer(peer=world.peer, job_id=world.job.pk, sha256=sha(world.chunks[0]))
    assert len(queries) == 1
