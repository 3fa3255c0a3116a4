"""The authorization matrix: six kinds of callers, own and foreign job, everything that can be called. H3, C82."""

import json
import typing
import uuid
from importlib import import_module
from itertools import product

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.urls import get_resolver, reverse
from django.urls.resolvers import URLPattern
from django.utils import timezone

from checkpoints.bytes.app import ROUTES as BYTES_ROUTES
from checkpoints.bytes.app import application as bytes_application
from checkpoints.models import JobArtifact
from checkpoints.services.artifacts import artifact_put_bytes, job_artifact_add
from jobs.models import JobDraft, Package, PackageFile, Requeued, Round
from peers.models import Invitation
from tests.api.world import Caller, World, link_of
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import metadata, sha
from tests.peers.socket import Closed, Socket, in_loop
from tests.security import matrix
from weei_core import protocol as wire
from weei_site.api import api

ROUTES = [(m, p) for p, methods in api.get_openapi_schema()["paths"].items() for m in methods]
ELSEWHERE = ("admin/", "api/")


def page_patterns(patterns=None, prefix=""):
    """Name → argument names of every page; what ELSEWHERE names has tests of its own."""
    found = {}
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            assert pattern.name, f"{route} has no name"
            found[pattern.name] = list(pattern.pattern.converters)
        elif not route.startswith(ELSEWHERE):
            found |= page_patterns(pattern.url_patterns, route)
    return found


PAGE_PATTERNS = page_patterns()


def test_every_call_has_a_row():
    assert set(ROUTES) == set(matrix.API)
    assert set(PAGE_PATTERNS) == set(matrix.PAGES)
    union = typing.get_args(typing.get_args(wire.ClientMessage)[0])
    assert {typing.get_args(m.model_fields["type"].annotation)[0] for m in union} == set(matrix.MESSAGES)
    for row in [*(r for r, *_ in [*matrix.API.values(), *matrix.PAGES.values()]), *matrix.BYTES.values()]:
        assert set(row) == set(World.ROLES)


class Target:
    """One job and everything in it that an address can name."""

    def __init__(self, world, job, attempt):
        self.job = job
        draft = JobDraft.objects.create(owner=job.owner, request_text="{}")
        package = Package.objects.create(
            owner=job.owner, source=job.module, source_name="data.csv", state="done", touched=timezone.now()
        )
        item = Requeued.objects.create(
            job=job, position=0, record_start=7, record_count=1, whole=False, chunk_index=0, held=True, errors=3
        )
        made = {"state": "done", "settings_text": "{}", "start_weights": "0" * 64, "opened_at": timezone.now()}
        Round.objects.get_or_create(job=job, number=1, defaults=made)
        token = link_of(job, uses=9)
        self.names = {
            "job_id": job.pk,
            "attempt_id": attempt,
            "draft_id": draft.pk,
            "package_id": package.pk,
            "invitation_id": Invitation.objects.filter(job=job).last().pk,
            "peer_id": world.participant.peer.pk,
            "round_no": 0,
            "item": item.pk,
            "item_id": item.pk,
            "token": token,
            "token_id": uuid.uuid4(),
        }

    def fill(self, value):
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in value.items()}
        if value == "{item}":
            return self.names["item"]
        return value.format(**self.names) if isinstance(value, str) else value


@pytest.fixture
def targets(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    world = World()
    return world, Target(world, world.job, world.attempt), Target(world, world.other, uuid.uuid4())


def of_foreign(row, role, address):
    """What the row says of a job that is the stranger's: the two coordinators change places, and who takes part in the
    one job has no part in the other."""
    if row in (matrix.OWNER, matrix.OWNER_PAGE):
        expected = row[{"owner": "stranger", "stranger": "owner"}.get(role, role)]
        # Their own job, but neither this browser nor these participants have a part in it.
        about_a_part = address.endswith("/leave") or "participants/" in address or address == "participant-action"
        return matrix.NOT_THERE if role == "stranger" and about_a_part else expected
    if row in (matrix.MEMBERS, matrix.STILL_MEMBERS, matrix.ATTEMPT) and row[role] != matrix.NO_SESSION:
        return matrix.NOT_THERE
    return row[role]


def in_savepoint(act):
    """What one caller changes must not change what the next one meets."""
    with transaction.atomic():
        result = act()
        transaction.set_rollback(True)
    return result


def check(status, expected, what):
    assert status < 500, what
    if expected == matrix.YES:
        assert status not in (401, 403, 404), (what, status)
    else:
        assert status == expected, (what, status)


@pytest.mark.django_db
@pytest.mark.parametrize("method, path", ROUTES)
def test_calls_on_ones_own_and_a_foreign_job(targets, method, path):
    row, body = matrix.API[method, path]
    world, own, foreign = targets
    for role in World.ROLES:

        def send(target, role=role):
            return world.caller(role).call(method.upper(), target.fill(path), target.fill(body)).status_code

        check(in_savepoint(lambda send=send: send(own)), row[role], (role, "own job"))
        expected = of_foreign(row, role, path)
        check(in_savepoint(lambda send=send: send(foreign)), expected, (role, "foreign job"))


@pytest.mark.django_db
@pytest.mark.parametrize("name", matrix.PAGES)
def test_pages(targets, name):
    row, method, arguments = matrix.PAGES[name]
    world, own, foreign = targets
    for role in World.ROLES:
        for target in (own, foreign):
            kwargs = {key: {**target.names, **arguments}[key] for key in PAGE_PATTERNS[name]}
            address = reverse(name, kwargs=kwargs)

            def send(role=role, address=address):
                return getattr(world.caller(role).client, method)(address, {})

            response = in_savepoint(send)
            expected = row[role] if target is own else of_foreign(row, role, name)
            if expected == matrix.SIGN_IN:
                assert response.status_code == 302 and response["Location"].startswith("/sign-in/"), (role, name)
            else:
                check(response.status_code, expected, (role, name, "own" if target is own else "foreign"))
                assert not (expected == matrix.YES and response.get("Location", "").startswith("/sign-in/?next"))


@pytest.mark.django_db
def test_pages_of_the_admin_are_for_staff(targets):
    """H10."""
    world, _, _ = targets
    from django.contrib import admin

    addresses = ["/admin/"] + [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") for model in admin.site._registry
    ]
    for role in World.ROLES:
        for address in addresses:
            response = world.caller(role).client.get(address)
            assert response.status_code == 302 and "login" in response["Location"], (role, address)


def file_of(world, what):
    chunks = list(world.job.dataset.chunks.all())
    at = world.job.rounds.get(number=1)
    of_attempt = at.slots.get(attempts=world.attempt).chunk_id
    return {
        "module": world.job.module_id,
        "weights": at.start_weights,
        "chunk of the attempt": next(c.artifact_id for c in chunks if c.pk == of_attempt),
        "another chunk": next(c.artifact_id for c in chunks if c.pk != of_attempt),
        "validation file": world.validation.sha256,
    }[what]


@pytest.fixture
def stored(transactional_db, sent):
    world = World()
    world.validation = artifact_put_bytes(b"validation", timezone.now())
    job_artifact_add(world.job, world.validation.sha256, JobArtifact.Kind.VALIDATION, "v.bin")
    return world


def download(caller: Caller, path, method="GET", **headers):
    headers |= {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
    cookie = caller.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
    if cookie:
        headers["Cookie"] = f"{django_settings.SESSION_COOKIE_NAME}={cookie.value}"
    return call(bytes_application, method, path, headers)


def test_downloads(stored):
    """H5, I7: nothing before acceptance, nothing after leaving, the validation file never."""
    for what, row in matrix.BYTES.items():
        sha256 = file_of(stored, what)
        for role in World.ROLES:
            answer = download(stored.caller(role), f"/bytes/jobs/{stored.job.pk}/{sha256}")
            check(answer.status, row[role], (role, what))
            assert (row[role] == matrix.YES) == (answer.status == 200)
            elsewhere = download(stored.caller(role), f"/bytes/jobs/{stored.other.pk}/{sha256}")
            assert elsewhere.status in (401, 403, 404), (role, what, "through a foreign job")
    addresses = {"checkpoint": "checkpoints/0", "weights": "checkpoints/0/weights.npy"}
    for (name, address), role in product(addresses.items(), World.ROLES):
        answer = download(stored.caller(role), f"/bytes/jobs/{stored.job.pk}/{address}")
        expected = matrix.BYTES_ROUTES[name][role]
        # The toy job's metadata is not a whole one; who may ask is decided before that.
        if expected != matrix.YES:
            assert answer.status == expected, (name, role)
        elsewhere = download(stored.caller(role), f"/bytes/jobs/{stored.other.pk}/{address}")
        # The other job is the stranger's.
        assert elsewhere.status in (401, 404) or role == "stranger", (name, role, "of a foreign job")


def test_every_route_of_bytes_has_a_row():
    assert set(BYTES_ROUTES) == set(matrix.BYTES_ROUTES)


def test_uploads(stored):
    """A person's file: who is signed in begins one, and nobody else touches it."""
    described = metadata(kind="file", filename="f.bin", sha256=sha(b"some bytes"))
    new = {"Tus-Resumable": "1.0.0", "Upload-Length": "10", "Upload-Metadata": described, "Origin": "http://testserver"}
    upload = download(stored.caller("owner"), "/bytes/uploads", "POST", **new).headers["location"]
    for role in World.ROLES:
        asked = {"uploads": ("/bytes/uploads", "POST", new), "upload": (upload, "HEAD", {"Tus-Resumable": "1.0.0"})}
        for route, (address, method, headers) in asked.items():
            answer = download(stored.caller(role), address, method, **headers)
            check(answer.status, matrix.BYTES_ROUTES[route][role], (role, route))


def test_downloads_of_packages(stored):
    job = stored.job
    package = Package.objects.create(owner=job.owner, source=job.module, source_name="d.csv", touched=timezone.now())
    PackageFile.objects.create(package=package, artifact=stored.validation, kind="module", file_name="v.bin", crc32=0)
    for role in World.ROLES:
        answer = download(stored.caller(role), f"/bytes/packages/{package.pk}")
        check(answer.status, matrix.PACKAGE[role], role)
        assert (matrix.PACKAGE[role] == matrix.YES) == (answer.status == 200)


@pytest.mark.parametrize("type_", matrix.MESSAGES)
def test_messages_of_the_socket(stored, type_):
    row = matrix.MESSAGES[type_]
    fields = {"watch": {"jobId": str(stored.job.pk)}, "diagnostics": {"snapshot": {"sequence": 1, "stage": "waiting"}}}

    async def answer(caller):
        cookie = caller.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        store = import_module(django_settings.SESSION_ENGINE).SessionStore(cookie.value if cookie else None)
        async with Socket(session=store) as socket:
            try:
                await socket.hello(caller.token or "none", train=False)
            except (Closed, AssertionError):
                return 401
            if type_ == "hello":
                return matrix.YES
            await socket.say(type_, **fields.get(type_, {}))
            await socket.text("{")
            while True:
                frame = await socket.next()
                if frame.get("code") == "invalid_json":
                    return matrix.YES
                if frame["type"] == "error":
                    return {"unauthorized": 401, "not_found": 404}[frame["code"]]

    results = {}

    @in_loop
    async def run():
        for role in World.ROLES:
            results[role] = await answer(stored.caller(role))

    run()
    assert results == row


@pytest.mark.django_db
def test_the_matrix_notices_a_missing_check(targets, monkeypatch):
    """Requirement 4: with the ownership filter removed it must fail."""
    from jobs.models import Job

    monkeypatch.setattr("jobs.api.job_for_owner", lambda user, job_id: Job.objects.get(pk=job_id))
    with pytest.raises(AssertionError):
        world, own, _ = targets
        check(world.stranger.get(own.fill("/api/v1/jobs/{job_id}")).status_code, matrix.OWNER["stranger"], "stranger")


def test_a_removed_participant_is_cut_off_from_bytes_and_uploads_at_once(stored):
    """P13."""
    from jobs.services.participants import participant_remove
    from jobs.services.updates import update_precheck
    from weei_core.errors import Conflict

    participant_remove(stored.job, stored.participant.peer.pk)
    for what in matrix.BYTES:
        path = f"/bytes/jobs/{stored.job.pk}/{file_of(stored, what)}"
        answer = download(stored.participant, path)
        assert answer.status in (403, 404) and len(answer.body) < 1_000, what
        assert json.loads(answer.body)["status"] == answer.status
    with pytest.raises(Conflict) as refused:
        update_precheck(peer=stored.participant.peer, attempt_id=uuid.UUID(stored.attempt), length=16, sha256="0" * 64)
    assert refused.value.code == "stale_attempt"
