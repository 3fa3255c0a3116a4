"""The popup in which a person connects another site, and the page on which they end it."""

import logging
import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from peers.models import SiteOrigin, SiteUser, UserToken
from peers.services.user_tokens import user_for_token, user_token_create
from tests.jobs.world import owner

ORIGIN = "https://school.example"
STATE = "s" * 32
pytestmark = pytest.mark.django_db


@pytest.fixture
def site():
    return SiteOrigin.objects.create(origin=ORIGIN, name="School <b>")


@pytest.fixture
def alice(site):
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner("alice"))
    return client


def address(origin=ORIGIN, state=STATE):
    return f"{reverse('authorize')}?{urlencode({'origin': origin, 'state': state})}"


def answer(client, choice="allow", path=None, **headers):
    """Press a button of the page as a browser does."""
    page = client.get(path or address())
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.content.decode())[1]
    fields = {choice: "", "csrfmiddlewaretoken": token}
    return client.post(path or address(), fields, headers={"origin": "http://testserver", **headers})


def handed_over(page):
    found = re.search(r'data-token="([^"]+)"', page.content.decode())
    return found and found[1]


def test_the_page_shows_the_origin_and_gives_nothing_by_itself(alice):
    page = alice.get(address())
    text = page.content.decode()
    assert page.status_code == 200 and ORIGIN in text and "alice" in text and "School &lt;b&gt;" in text
    assert not UserToken.objects.exists() and handed_over(page) is None
    allow = re.search(r"<button[^>]*authorize-allow[^>]*>", text)[0]
    assert " disabled" in allow, "a double click that opened the window must not answer it"


def test_it_cannot_be_framed_kept_or_scripted(alice):
    for page in (alice.get(address()), answer(alice)):
        assert page["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
        assert "no-store" in page["Cache-Control"]
        assert page["Referrer-Policy"] == "same-origin"
        assert "<script>" not in page.content.decode()


def test_allow_hands_a_token_to_that_origin_with_that_state(alice):
    page = answer(alice)
    token = handed_over(page)
    assert f'data-origin="{ORIGIN}" data-state="{STATE}"' in page.content.decode()
    assert user_for_token(token, ORIGIN, timezone.now()) == owner("alice")
    (row,) = UserToken.objects.all()
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)


def test_refusing_gives_nothing_and_says_so(alice):
    page = answer(alice, "refuse")
    assert page.status_code == 200 and handed_over(page) is None and not UserToken.objects.exists()
    assert f'data-origin="{ORIGIN}"' in page.content.decode()


def test_a_foreign_form_or_script_cannot_press_allow(alice):
    assert alice.post(address(), {"allow": ""}).status_code == 403
    assert alice.post(address(), {"allow": ""}, headers={"origin": ORIGIN}).status_code == 403
    assert answer(alice, origin=ORIGIN).status_code == 403
    assert not UserToken.objects.exists()


def test_a_page_that_is_sent_again_gives_no_second_token(alice):
    assert handed_over(answer(alice))
    again = answer(alice)
    assert again.status_code == 409 and handed_over(again) is None and "answered before" in again.content.decode()
    assert UserToken.objects.count() == 1


@pytest.mark.parametrize(
    "origin, state, status",
    [
        ("https://other.example", STATE, 403),
        (ORIGIN + "/", STATE, 403),
        ("null", STATE, 403),
        ("", STATE, 403),
        (ORIGIN, "", 422),
        (ORIGIN, "short", 422),
        (ORIGIN, "x" * 201, 422),
        (ORIGIN, STATE + '"><script>', 422),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(alice, origin, state, status):
    page = alice.get(address(origin, state))
    assert page.status_code == status
    assert page["Cross-Origin-Opener-Policy"] == "same-origin"
    text = page.content.decode()
    assert "<script>" not in text and re.search(r'class="note bad"', text)


def test_a_site_that_is_off_or_not_for_this_user_is_refused(alice, site):
    SiteUser.objects.create(site=site, user=owner("alice"), training=False)
    page = alice.get(address())
    assert page.status_code == 403 and "not enabled for alice" in page.content.decode()
    SiteUser.objects.all().delete()
    SiteOrigin.objects.update(enabled=False)
    assert alice.get(address()).status_code == 403
    assert not UserToken.objects.exists()


# --- the way there: every answer leaves the window that opened it in reach, or the token could not be posted ---


def opener(response):
    return response["Cross-Origin-Opener-Policy"]


def test_somebody_who_is_not_signed_in_comes_back_after_it(site):
    user = User.objects.create_user("bob", password="right horse")
    client = Client()
    there = client.get(address())
    assert there.status_code == 302 and opener(there) == "unsafe-none"
    page = client.get(there["Location"])
    assert page.status_code == 200 and opener(page) == "unsafe-none"
    wrong = client.post(there["Location"], {"username": "bob", "password": "wrong", "next": address()})
    assert wrong.status_code == 200 and opener(wrong) == "unsafe-none"
    back = client.post(there["Location"], {"username": "bob", "password": "right horse", "next": address()})
    assert back.status_code == 302 and back["Location"] == address() and opener(back) == "unsafe-none"
    asked = client.get(back["Location"])
    assert opener(asked) == "unsafe-none" and opener(answer(client)) == "unsafe-none"
    assert UserToken.objects.get().user == user


@pytest.mark.parametrize(
    "path",
    [
        "/sign-in/",
        "/sign-in/?next=/jobs/",
        f"/sign-in/?{urlencode({'next': address('https://other.example')})}",
        f"/sign-in/?{urlencode({'next': 'https://evil.example' + address()})}",
        f"/sign-in/?{urlencode({'next': '/jobs/' + address()})}",
        address("https://other.example"),
        "/authorize/",
        "/",
        "/help/",
    ],
)
def test_all_other_pages_stay_out_of_reach(site, path):
    assert opener(Client().get(path)) == "same-origin"


# --- limits and the log ---


def test_at_most_ten_a_minute(alice):
    for turn in range(10):
        assert answer(alice, path=address(state=f"{turn:032}")).status_code == 200
    page = answer(alice, path=address(state="f" * 32))
    assert page.status_code == 429 and UserToken.objects.count() == 10


def test_each_grant_and_end_is_a_line_without_the_secret(alice, caplog):
    caplog.set_level(logging.DEBUG)
    token = handed_over(answer(alice))
    row = UserToken.objects.get()
    alice.get(reverse("connected-sites"))
    end(alice, row)
    lines = [record.getMessage() for record in caplog.records if record.name == "weei.tokens"]
    assert lines == [f"user={row.user_id} token={row.pk} given to {ORIGIN}", "1 tokens revoked"]
    assert token not in caplog.text and token.removeprefix("weei_user_") not in caplog.text


# --- the list ---


def end(client, row):
    page = client.get(reverse("connected-sites"))
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.content.decode())[1]
    return client.post(reverse("connected-site-revoke", args=[row.pk]), {"csrfmiddlewaretoken": token})


def test_the_list_shows_what_acts_now_and_ends_it(alice, site):
    now = timezone.now()
    row, token = user_token_create(owner("alice"), site, "1", now)
    user_token_create(owner("alice"), site, "2", now - timedelta(days=31))
    user_token_create(owner("bob"), site, "3", now)
    text = alice.get(reverse("connected-sites")).content.decode()
    assert text.count(ORIGIN) == 1 and "never used" in text and token not in text and row.token_hash not in text
    assert end(alice, row).status_code == 302
    assert "No other site acts for you." in alice.get(reverse("connected-sites")).content.decode()
    assert UserToken.objects.get(pk=row.pk).revoked_at is not None


def test_nobody_ends_what_is_not_theirs(alice, site):
    other, token = user_token_create(owner("bob"), site, "3", timezone.now())
    user_token_create(owner("alice"), site, "1", timezone.now())
    assert end(alice, other).status_code == 404
    assert user_for_token(token, ORIGIN, timezone.now()) == owner("bob")
    assert alice.post(reverse("connected-site-revoke", args=[other.pk])).status_code == 403


def test_a_stored_name_is_text(alice, site):
    user_token_create(owner("alice"), site, "1", timezone.now())
    assert "School <b>" not in alice.get(reverse("connected-sites")).content.decode()
