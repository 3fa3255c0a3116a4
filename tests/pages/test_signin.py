"""Signing in: by password with a limit on wrong ones, and by a link that works once."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.urls import reverse
from django.utils import timezone

from weei_site.signin import LinkInvalid, link_create, link_redeem, link_user


def signed_in(client):
    return "_auth_user_id" in client.session


def sign_in(client, password="correct horse", name="ada", **more):
    return client.post(reverse("login"), {"username": name, "password": password, **more})


def test_a_person_signs_in_and_out(owner, client):
    assert sign_in(client).headers["Location"] == reverse("job-list")
    assert client.post(reverse("logout")).headers["Location"] == reverse("login")
    assert not signed_in(client)


def test_goes_back_only_to_this_site(owner, client):
    response = sign_in(client, next="https://evil.example/")
    assert response.headers["Location"] == reverse("job-list")


def test_signing_out_needs_a_post(owner_client):
    assert owner_client.get(reverse("logout")).status_code == 405


def test_ten_wrong_passwords_lock_for_a_while(owner, client):
    """H9: for a name that exists and one that does not, with the same words."""
    for name in ("ada", "nobody-of-this-name"):
        first = sign_in(client, "wrong", name).content.decode()
        assert "Please enter a correct" in first
        for _ in range(9):
            sign_in(client, "wrong", name)
        locked = sign_in(client, "correct horse", name).content.decode()
        assert "Too many wrong passwords" in locked
    assert not signed_in(client)


def test_the_lock_is_for_that_name_only(owner, client, stranger_client):
    for _ in range(10):
        sign_in(client, "wrong", "mallory")
    assert sign_in(client).status_code == 302


def test_without_a_cache_people_still_sign_in(owner, client, settings):
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "unix:///nowhere.sock"}
    }
    sign_in(client, "wrong")
    assert sign_in(client).status_code == 302


def test_looking_at_a_link_does_not_use_it_up(owner, client):
    link = link_create(owner)
    for _ in range(2):
        response = client.get(link)
        assert "Sign in as ada" in response.content.decode()
        assert "no-store" in response.headers["Cache-Control"]
    assert not signed_in(client)


def test_a_link_signs_in_once(owner, client):
    link = link_create(owner)
    assert client.post(link).headers["Location"] == reverse("job-list")
    assert signed_in(client)
    client.logout()
    again = client.post(link)
    assert again.status_code == 404
    assert not signed_in(client)
    assert client.get(link).status_code == 404


def test_any_sign_in_spends_older_links(owner, client):
    link = link_create(owner)
    sign_in(client)
    client.logout()
    assert client.post(link).status_code == 404


def test_a_link_expires(owner, monkeypatch):
    link = link_create(owner)
    token = link.rstrip("/").rsplit("/", 1)[-1]
    monkeypatch.setattr("weei_site.signin.LINK_HOURS", 0)
    with pytest.raises(LinkInvalid):
        link_user(token)


def test_of_two_uses_at_once_one_wins(owner, monkeypatch):
    """The second has passed the check when the first one uses the link up."""
    token = link_create(owner).rstrip("/").rsplit("/", 1)[-1]
    seen = link_user(token)
    link_redeem(token)
    monkeypatch.setattr("weei_site.signin.link_user", lambda _: seen)
    with pytest.raises(LinkInvalid):
        link_redeem(token)


@pytest.mark.parametrize("change", [lambda token: token[:-2] + "xx", lambda token: "x", lambda token: token + ":1"])
def test_an_altered_link_is_refused(change, owner, client):
    token = link_create(owner).rstrip("/").rsplit("/", 1)[-1]
    assert client.post(reverse("sign-in-link", args=[change(token)])).status_code == 404


def test_a_token_signed_for_something_else_is_refused(owner, client):
    token = signing.dumps({"user": owner.pk, "last": ""})
    assert client.get(reverse("sign-in-link", args=[token])).status_code == 404


def test_a_disabled_person_cannot_use_a_link(owner, client):
    link = link_create(owner)
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert client.post(link).status_code == 404


def test_a_link_made_after_a_sign_in_works(owner, client):
    owner.last_login = timezone.now() - timedelta(days=3)
    owner.save(update_fields=["last_login"])
    assert client.post(link_create(owner)).status_code == 302


def test_home_leads_people_who_are_signed_in_to_their_jobs(owner_client, client):
    assert owner_client.get(reverse("home")).headers["Location"] == reverse("job-list")
    assert client.get(reverse("home")).status_code == 200
