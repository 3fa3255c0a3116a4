"""Personal access tokens: a program with one is answered as its owner's own pages are, and nobody else's."""

import io
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoints.bytes.app import application as bytes_application
from peers.models import SiteOrigin, UserToken
from peers.services.user_tokens import (
    WRONG_TOKENS,
    personal_token_create,
    user_for_token,
    user_token_create,
    user_tokens_revoke,
)
from tests.api.world import Caller, assert_problem, browser
from tests.checkpoints.asgi import call
from tests.jobs.world import make_job, owner
from tests.security import matrix
from tests.security.test_matrix import ROUTES, Target, in_savepoint
from tests.security.test_matrix import targets as targets  # a fixture
from weei_core.errors import Forbidden, Invalid, Unauthorized

JOBS = "/api/v1/jobs"


def token_of(name="alice", days=90, now=None):
    return personal_token_create(owner(name), "a program", days, now or timezone.now())[1]


def program(token):
    """A program: no cookie, and Django's own CSRF check on."""
    return Caller(token, None, Client(raise_request_exception=False, enforce_csrf_checks=True))


@pytest.fixture(autouse=True)
def local_cache(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    cache.clear()


def shape(answer):
    """An answer without what differs between two equal calls: times, and names that are new each time."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", answer.content.decode("latin-1"))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
    return re.sub(r"\b\d{13}\b", "<time>", re.sub(r'/join/[^"]+', "/join/<secret>", text))


@pytest.mark.django_db
@pytest.mark.parametrize("method, path", ROUTES)
def test_every_call_answers_the_token_as_it_answers_the_session(targets, method, path):
    world, own, foreign = targets
    alice = program(token_of())
    beside = {"weei-peer": world.owner.token}
    _, body = matrix.API[method, path]
    for target in (own, foreign):

        def send(caller, target=target, **headers):
            return caller.call(method.upper(), target.fill(path), target.fill(body), **headers)

        through_token = in_savepoint(lambda send=send: send(alice, **beside))
        if path.endswith("/site/sign-out"):
            assert through_token.status_code == 204
            continue
        through_session = in_savepoint(lambda send=send, world=world: send(world.owner))
        assert through_token.status_code == through_session.status_code, (method, path)
        if through_session.content and not path.endswith("/peers"):
            assert shape(through_token) == shape(through_session)


@pytest.mark.django_db
def test_the_comparison_sees_a_token_of_somebody_else(targets):
    world, own, _ = targets
    mallory = program(token_of("mallory"))
    assert mallory.get(own.fill(matrix.JOB)).status_code == 404
    assert world.owner.get(own.fill(matrix.JOB)).status_code == 200
    assert isinstance(own, Target)


@pytest.mark.django_db
def test_pages_and_the_admin_do_not_know_it():
    User.objects.filter(pk=owner("alice").pk).update(is_staff=True, is_superuser=True)
    alice = program(token_of())
    for address in (reverse("job-list"), reverse("access-tokens"), "/admin/"):
        assert alice.get(address).status_code == 302


@pytest.mark.django_db
def test_it_never_works_from_a_page_of_another_site_even_a_registered_one():
    SiteOrigin.objects.create(origin="https://school.example", name="School")
    alice = program(token_of())
    assert alice.get(JOBS, origin="http://testserver").status_code == 200
    for origin in ("https://school.example", "https://other.example", "null", "http://testserver.example"):
        assert_problem(alice.get(JOBS, origin=origin), 403, "other_origin")


@pytest.mark.django_db
def test_the_token_of_a_site_does_not_become_a_personal_one():
    site = SiteOrigin.objects.create(origin="https://school.example", name="School")
    _, token = user_token_create(owner("alice"), site, "s" * 32, timezone.now())
    assert_problem(program(token).get(JOBS), 403, "other_origin")


@pytest.mark.django_db
def test_a_wrong_token_beside_a_good_cookie_is_refused():
    alice = browser("alice")
    assert_problem(alice.get(JOBS, authorization="Bearer weei_pat_wrong"), 401, "signed_out")


@pytest.mark.django_db
@pytest.mark.parametrize("end", ["revoked", "expired", "disabled", "deleted", "password"])
def test_it_ends(end):
    alice, now = owner("alice"), timezone.now()
    token = token_of(days=1)
    assert user_for_token(token, None, now) == alice
    if end == "revoked":
        assert user_tokens_revoke(UserToken.objects.all(), now) == 1
    elif end == "expired":
        now += timedelta(days=1, minutes=1)
    elif end == "disabled":
        User.objects.update(is_active=False)
    elif end == "deleted":
        alice.delete()
    else:
        alice.set_password("new")
        alice.save()
    with pytest.raises(Unauthorized, match="Make a new one") as refused:
        user_for_token(token, None, now)
    assert refused.value.code == "signed_out"


@pytest.mark.django_db
def test_only_its_hash_is_stored_and_its_use_is_noted():
    token = token_of()
    assert re.fullmatch(r"weei_pat_[A-Za-z0-9_-]{43}", token)
    row = UserToken.objects.get()
    assert token not in str(vars(row)) and row.used_at is None
    assert program(token).get(JOBS).status_code == 200
    assert UserToken.objects.get().used_at is not None


@pytest.mark.django_db
def test_a_program_that_goes_on_with_wrong_tokens_is_told_to_wait_and_its_neighbour_is_not():
    wrong, right = program("weei_pat_" + "x" * 43), program(token_of())
    for _ in range(WRONG_TOKENS):
        assert_problem(wrong.get(JOBS), 401, "signed_out")
    refused = wrong.get(JOBS)
    assert_problem(refused, 429, "rate_limited")
    assert refused["Retry-After"] == "60"
    assert right.get(JOBS).status_code == 200


@pytest.mark.django_db
@pytest.mark.db
def test_a_row_is_of_a_site_or_has_a_name_never_both_or_neither():
    alice, site = owner("alice"), SiteOrigin.objects.create(origin="https://school.example", name="School")
    base = {"user": alice, "session_hash": "x", "expires_at": timezone.now()}
    for number, wrong in enumerate(
        [{}, {"name": "a", "site": site, "state_hash": "b"}, {"site": site}, {"name": "a", "state_hash": "c"}]
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            UserToken.objects.create(**base, **wrong, token_hash=f"{number}")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name, days, field", [("", 9, "name"), ("a\nb", 9, "name"), ("a", 0, "days"), ("a", 366, "days")]
)
def test_names_and_times_that_do_not_fit_are_refused(name, days, field):
    with pytest.raises(Invalid) as refused:
        personal_token_create(owner("alice"), name, days, timezone.now())
    assert refused.value.field == field


@pytest.mark.django_db
def test_on_the_page_a_token_is_made_shown_once_listed_and_revoked():
    client = browser("alice").client
    address = reverse("access-tokens")
    assert "You have no access token" in client.get(address).content.decode()
    page = client.post(address, {"name": "nightly <b>", "days": "30"})
    token = re.search(r'value="(weei_pat_[^"]+)"', page.content.decode())[1]
    assert "no-store" in page["Cache-Control"]
    assert program(token).get(JOBS).status_code == 200
    again = client.get(address).content.decode()
    assert token not in again and "nightly &lt;b&gt;" in again and "last used" in again
    row = UserToken.objects.get()
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)
    assert "hx-confirm=" in again
    done = client.post(reverse("access-token-revoke", args=[row.pk]), follow=True).content.decode()
    assert "is revoked" in done and "You have no access token" in done
    assert_problem(program(token).get(JOBS), 401, "signed_out")


@pytest.mark.django_db
def test_the_page_says_what_is_wrong_with_a_field():
    page = browser("alice").client.post(reverse("access-tokens"), {"name": "", "days": "400"})
    assert page.status_code == 422 and page.content.decode().count('class="problem"') == 2
    assert not UserToken.objects.exists()


@pytest.mark.django_db
def test_the_two_lists_keep_apart_and_a_stranger_revokes_nothing():
    site = SiteOrigin.objects.create(origin="https://school.example", name="School")
    of_site, _ = user_token_create(owner("alice"), site, "s" * 32, timezone.now())
    token_of()
    personal = UserToken.objects.get(site=None)
    alice, mallory = browser("alice").client, browser("mallory").client
    assert "School" not in alice.get(reverse("access-tokens")).content.decode()
    assert "a program" not in alice.get(reverse("connected-sites")).content.decode()
    assert alice.post(reverse("access-token-revoke", args=[of_site.pk])).status_code == 404
    assert alice.post(reverse("connected-site-revoke", args=[personal.pk])).status_code == 404
    assert mallory.post(reverse("access-token-revoke", args=[personal.pk])).status_code == 404
    assert not UserToken.objects.exclude(revoked_at=None).exists()


@pytest.mark.django_db
def test_the_command_prints_a_token_alone():
    owner("alice")
    out = io.StringIO()
    call_command("make_token", "alice", "--name", "cron", "--days", "7", stdout=out)
    assert user_for_token(out.getvalue().strip(), None, timezone.now()) == owner("alice")
    for arguments in (("nobody", "--name", "cron"), ("alice", "--name", "cron", "--days", "999")):
        with pytest.raises(CommandError):
            call_command("make_token", *arguments)


def test_files_are_read_and_sent_with_it_and_not_from_elsewhere(transactional_db, sent):
    job, token = make_job(user=owner("alice")), token_of()
    path = f"/bytes/jobs/{job.pk}/{job.module_id}"
    bearer = {"Authorization": f"Bearer {token}"}
    assert call(bytes_application, "GET", path, bearer).status == 200
    assert call(bytes_application, "GET", path, {**bearer, "Origin": "https://school.example"}).status == 403
    assert call(bytes_application, "GET", path, {"Authorization": f"Bearer {token_of('mallory')}"}).status == 404
    assert call(bytes_application, "GET", path, {"Authorization": "Bearer weei_pat_x"}).status == 401
    upload = {
        **{"Tus-Resumable": "1.0.0", "Upload-Length": "5", "Content-Type": "application/offset+octet-stream"},
        "Upload-Metadata": "kind ZmlsZQ==,filename YQ==,"
        "sha256 MmNmMjRkYmE1ZmIwYTMwZTI2ZTgzYjJhYzViOWUyOWUxYjE2MWU1YzFmYTc0MjVlNzMwNDMzNjI5MzhiOTgyNA==",
    }
    answer = call(bytes_application, "POST", "/bytes/uploads", {**upload, **bearer}, [b"hello"])
    assert answer.status == 201 and answer.json["bytes"] == 5
    with pytest.raises(Forbidden):
        user_for_token(token, "https://school.example", timezone.now())
