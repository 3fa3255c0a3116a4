"""Which sites may be registered, who may use the widget there, and tokens of users. C82, requirement 4 of issue 4."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from peers.domain.origins import canonical_origin
from peers.models import SiteOrigin, SiteUser, UserToken
from peers.services.sites import check_user, is_own, site_for
from peers.services.tokens import token_hash
from peers.services.user_tokens import user_for_token, user_token_create, user_tokens_revoke
from tests.jobs.world import owner
from weei_core.errors import Conflict, Forbidden, Invalid, Unauthorized

ORIGIN = "https://school.example"


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org",
        "http://example.org:8080",
        "https://xn--bcher-kva.example",
        "http://localhost:3000",
        "http://my_host",
        "http://192.168.1.5:8000",
        "http://[::1]:8000",
        "https://[2001:db8::1]",
        "https://" + ".".join(["a" * 63] * 3),
    ],
)
def test_an_origin_as_browsers_write_it_is_taken(origin):
    assert canonical_origin(origin) == origin


@pytest.mark.parametrize(
    "text, write",
    [
        ("https://Example.org", "https://example.org"),
        ("https://example.org/", "https://example.org"),
        ("https://example.org:443", "https://example.org"),
        ("http://example.org:80/path?q#f", "http://example.org"),
        ("HTTPS://example.org", "https://example.org"),
        ("https://user:secret@example.org", "https://example.org"),
        ("https://example.org:08443", "https://example.org:8443"),
        (" https://example.org", "https://example.org"),
    ],
)
def test_another_spelling_is_refused_with_the_right_one(text, write):
    with pytest.raises(Invalid) as refused:
        canonical_origin(text)
    assert f"as browsers do: {write}; found" in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "null", "example.org", "//example.org", "ftp://example.org", "file:///x", "https://", "https://:80"),
        *("https://*.example.org", "https://b\u00fccher.example", "https://example.org.", "https://-a.example"),
        *("https://example.org:99999", "https://example.org:port", "https://exa mple.org", "https://a..example"),
        *("http://127.1", "http://2130706433", "http://0x7f.1", "http://192.168.01.5", "http://256.1.1.1"),
        *("http://[::1", "http://[0:0:0:0:0:0:0:1]", "http://[::ffff:1.2.3.4]", "http://[fe80::1%eth0]"),
        *("javascript:alert(1)", "https://" + "a" * 64 + ".example", "https://" + ".".join(["a" * 63] * 4)),
    ],
)
def test_what_is_no_origin_is_refused_with_an_example(text):
    with pytest.raises(Invalid, match="such as https://example.org; found"):
        canonical_origin(text)


@pytest.mark.parametrize("origin", ["http://testserver", "http://localhost:8000"])
def test_the_servers_own_pages_are_no_site(origin):
    assert is_own(origin)
    assert not is_own(origin + ":81") and not is_own("null") and not is_own(origin.upper())


@pytest.fixture
def site(db):
    return SiteOrigin.objects.create(origin=ORIGIN, name="School")


@pytest.mark.parametrize("origin", ["https://other.example", ORIGIN + ":444", "http://school.example", "null", "*", ""])
def test_only_the_exact_origin_is_registered(site, origin):
    assert site_for(ORIGIN) == site
    with pytest.raises(Forbidden) as refused:
        site_for(origin)
    assert refused.value.code == "origin_not_registered"


def test_a_site_that_is_off_is_not_registered(site):
    SiteOrigin.objects.update(enabled=False)
    with pytest.raises(Forbidden, match=f"The origin {ORIGIN} is not registered here"):
        site_for(ORIGIN)


@pytest.mark.parametrize(
    "audience, flag, allowed",
    [
        ("everybody", None, True),
        ("everybody", True, True),
        ("everybody", False, False),
        ("chosen", None, False),
        ("chosen", True, True),
        ("chosen", False, False),
    ],
)
def test_the_flag_of_a_user_decides_before_the_audience(site, audience, flag, allowed):
    site.audience = audience
    if flag is not None:
        SiteUser.objects.create(site=site, user=owner("alice"), training=flag)
    SiteUser.objects.create(site=site, user=owner("bob"), training=not allowed)
    other = SiteOrigin.objects.create(origin="https://other.example", name="Other")
    SiteUser.objects.create(site=other, user=owner("alice"), training=not allowed)
    if allowed:
        check_user(site, owner("alice"))
    else:
        with pytest.raises(Forbidden, match="not enabled for alice on https://school.example") as refused:
            check_user(site, owner("alice"))
        assert refused.value.code == "widget_not_enabled"


# --- tokens ---


@pytest.fixture
def token(site):
    return user_token_create(owner("alice"), site, "state", timezone.now())[1]


def refused(token, code, origin=ORIGIN, after=timedelta()):
    with pytest.raises((Unauthorized, Forbidden)) as error:
        user_for_token(token, origin, timezone.now() + after)
    return error.value.code == code


def test_a_token_is_its_users_on_its_origin_until_it_expires(token):
    assert user_for_token(token, ORIGIN, timezone.now() + timedelta(days=29)) == owner("alice")
    assert refused(token, "signed_out", after=timedelta(days=31))
    assert (
        refused(token + "x", "signed_out") and refused("weei_user_", "signed_out") and refused("x" * 999, "signed_out")
    )


def test_only_hashes_are_stored(token):
    (row,) = UserToken.objects.values()
    assert row["token_hash"] == token_hash(token)
    assert not any(token in str(value) or token.removeprefix("weei_user_") in str(value) for value in row.values())


@pytest.mark.parametrize("origin", ["https://other.example", "http://testserver", "null", "", None])
def test_a_token_from_another_origin_is_refused(token, origin):
    SiteOrigin.objects.create(origin="https://other.example", name="Other")
    assert refused(token, "other_origin", origin)


def test_whatever_ends_the_right_ends_the_token(site, token):
    alice = owner("alice")
    SiteOrigin.objects.update(enabled=False)
    assert refused(token, "other_origin")
    SiteOrigin.objects.update(enabled=True)
    flag = SiteUser.objects.create(site=site, user=alice, training=False)
    assert refused(token, "widget_not_enabled")
    flag.delete()
    User.objects.update(is_active=False)
    assert refused(token, "signed_out")
    User.objects.update(is_active=True)
    assert user_for_token(token, ORIGIN, timezone.now()) == alice
    alice.set_password("another")
    alice.save()
    assert refused(token, "signed_out")


def test_a_revoked_token_and_one_of_a_deleted_site_are_unknown(site, token):
    assert user_tokens_revoke(UserToken.objects.all(), timezone.now()) == 1
    assert user_tokens_revoke(UserToken.objects.all(), timezone.now()) == 0
    assert refused(token, "signed_out")
    again = user_token_create(owner("alice"), site, "another", timezone.now())[1]
    site.delete()
    assert refused(again, "signed_out")


def test_a_state_counts_once_for_each_site(site, token):
    with pytest.raises(Conflict, match="answered before"):
        user_token_create(owner("alice"), site, "state", timezone.now())
    with pytest.raises(Conflict):
        user_token_create(owner("bob"), site, "state", timezone.now())
    other = SiteOrigin.objects.create(origin="https://other.example", name="Other")
    user_token_create(owner("alice"), other, "state", timezone.now())
    assert UserToken.objects.count() == 2


def test_the_last_use_is_noted_now_and_then(token):
    now = timezone.now()
    user_for_token(token, ORIGIN, now)
    assert UserToken.objects.get().used_at == now
    user_for_token(token, ORIGIN, now + timedelta(minutes=4))
    assert UserToken.objects.get().used_at == now
    user_for_token(token, ORIGIN, now + timedelta(minutes=6))
    assert UserToken.objects.get().used_at == now + timedelta(minutes=6)


# --- the admin ---


@pytest.fixture
def admin(db):
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def fields(**changes):
    empty = {f"users-{name}_FORMS": 0 for name in ("TOTAL", "INITIAL")}
    return {"origin": ORIGIN, "name": "School", "enabled": "on", "audience": "chosen", **empty, **changes}


def test_an_admin_registers_a_site_with_its_users(admin):
    page = admin.post(
        reverse("admin:peers_siteorigin_add"),
        fields(**{"users-TOTAL_FORMS": 1, "users-0-user": owner("alice").pk, "users-0-training": "on"}),
    )
    assert page.status_code == 302, page.content
    check_user(site_for(ORIGIN), owner("alice"))
    with pytest.raises(Forbidden):
        check_user(site_for(ORIGIN), owner("bob"))


def test_an_admin_is_told_how_to_write_the_origin(admin):
    page = admin.post(reverse("admin:peers_siteorigin_add"), fields(origin="https://School.example/"))
    assert page.status_code == 200 and not SiteOrigin.objects.exists()
    assert "as browsers do: https://school.example; found" in page.content.decode()


def test_a_site_is_registered_once(site):
    with pytest.raises(ValidationError, match="already exists"):
        SiteOrigin(origin=ORIGIN, name="Again").full_clean()


def test_an_admin_revokes_tokens_and_sees_no_secret(admin, token):
    (row,) = UserToken.objects.all()
    page = admin.get(reverse("admin:peers_usertoken_change", args=[row.pk])).content.decode()
    assert ORIGIN in page and row.token_hash not in page and row.session_hash not in page
    choice = {"action": "revoke", "_selected_action": [row.pk]}
    assert admin.post(reverse("admin:peers_usertoken_changelist"), choice).status_code == 302
    assert refused(token, "signed_out")
