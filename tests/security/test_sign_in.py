"""Signing in: wrong passwords, and what remains of a session afterwards. H9, H10, H11."""

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def ada():
    return User.objects.create_user("ada", password=PASSWORD)


def sign_in(name, password, client=None, path="/sign-in/", **headers):
    client = client or Client()
    return client.post(path, {"username": name, "password": password}, **headers)


def message(response):
    return str(response.context["form"].errors)


@pytest.mark.parametrize("path", ["/sign-in/", "/admin/login/"])
def test_after_ten_wrong_passwords_the_right_one_waits_too(ada, path):
    for _ in range(10):
        assert sign_in("ada", "wrong", path=path).status_code == 200
    response = sign_in("ada", PASSWORD, path=path)
    assert response.status_code == 200 and "Too many wrong passwords" in message(response)
    assert "_auth_user_id" not in response.client.session


def test_the_lock_is_of_one_name_at_one_address(ada):
    User.objects.create_user("bob", password=PASSWORD)
    for _ in range(10):
        sign_in("ada", "wrong")
    assert sign_in("bob", PASSWORD).status_code == 302
    assert sign_in("ada", PASSWORD, REMOTE_ADDR="10.0.0.9").status_code == 302
    assert sign_in("ADA", PASSWORD).status_code == 200, "another spelling of the name got round the lock"


def test_an_unknown_name_answers_like_a_wrong_password(ada):
    """H9: nobody learns which names exist, neither by the text nor by the lock."""
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    texts = {}
    for name, password in (("ada", "wrong"), ("nobody", "wrong"), ("gone", PASSWORD)):
        texts[name] = [message(sign_in(name, password)) for _ in range(11)]
    assert texts["ada"] == texts["nobody"] == texts["gone"]
    assert len(set(texts["ada"][:10])) == 1 and texts["ada"][10] != texts["ada"][9]


def test_names_of_any_kind_are_counted_and_break_nothing(ada):
    for name in ("", " ", "x" * 10_000, "a\nb", "\u00e4", "ada\u0000", "\U0001f600", "name with spaces"):
        assert sign_in(name, "wrong").status_code == 200


def test_without_the_cache_people_can_still_sign_in(ada, settings, caplog):
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }
    assert sign_in("ada", PASSWORD).status_code == 302
    assert "not counted" in caplog.text


def test_the_session_key_changes_at_sign_in_and_dies_at_sign_out(ada):
    """H11."""
    client = Client()
    client.get("/sign-in/")
    session = client.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    client.cookies[django_settings.SESSION_COOKIE_NAME] = planted
    sign_in("ada", PASSWORD, client)
    signed_in = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    assert signed_in != planted
    client.post("/sign-out/")
    thief = Client()
    for key in (planted, signed_in):
        thief.cookies[django_settings.SESSION_COOKIE_NAME] = key
        assert thief.get("/jobs/").status_code == 302


@pytest.mark.parametrize("end", ["disabled", "deleted", "password changed"])
def test_an_account_that_ends_takes_its_sessions_with_it(ada, end):
    """H19."""
    client = Client()
    client.force_login(ada)
    assert client.get("/jobs/").status_code == 200
    if end == "disabled":
        User.objects.update(is_active=False)
    elif end == "deleted":
        ada.delete()
    else:
        ada.set_password("another")
        ada.save()
    assert client.get("/jobs/").status_code == 302


def test_sign_out_needs_a_post_with_the_token(ada):
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").status_code == 403
    assert client.get("/jobs/").status_code == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil.example"]
)
def test_signing_in_leads_nowhere_else(ada, target):
    response = Client().post(f"/sign-in/?next={target}", {"username": "ada", "password": PASSWORD, "next": target})
    assert response["Location"] == "/jobs/"


def test_there_is_no_account_to_begin_with():
    """H10."""
    assert not User.objects.exists()
