"""What every answer says to the browser, refusals included; and a deployment that Django itself calls clean.
Requirements 12 and 15; H6, H12, H18."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.asgi import get_asgi_application
from django.urls import reverse

from tests.api.world import World, browser
from tests.checkpoints.asgi import call
from tests.security import matrix
from tests.security.test_matrix import PAGE_PATTERNS, ROUTES
from weei_site.middleware import POLICY
from weei_site.routing import build

ROOT = Path(__file__).parents[2]


def assert_headers(response, what):
    headers = {name.lower(): value for name, value in response.headers.items()}
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy, what
    script = re.search(r"script-src ([^;]*)", policy)
    allowed = script.group(1) if script else re.search(r"default-src ([^;]*)", policy).group(1)
    assert set(allowed.split()) <= {"'self'", "'wasm-unsafe-eval'", "'none'"}, what
    assert headers["x-content-type-options"] == "nosniff", what
    assert "server" not in headers and "x-powered-by" not in headers, what


def assert_page_headers(response, what):
    assert_headers(response, what)
    assert response.headers["Referrer-Policy"] == "same-origin", what
    assert response.headers["X-Frame-Options"] == "DENY", what
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin", what


def test_the_policy_is_the_strict_one():
    parts = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert parts == {
        "default-src": "'self'",
        "script-src": "'self' 'wasm-unsafe-eval'",
        "worker-src": "'self'",
        "img-src": "'self' data: blob:",
        "connect-src": "'self'",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.django_db
def test_every_page_and_every_call_in_every_role():
    world = World()
    names = {
        **{"job_id": world.job.pk, "attempt_id": world.attempt, "draft_id": world.job.pk, "round_no": 0, "item_id": 1},
        **{
            "package_id": world.job.pk,
            "invitation_id": world.job.pk,
            "peer_id": world.participant.peer.pk,
            "token": "x",
            "token_id": world.job.pk,
        },
    }
    for role in ("anonymous", "stranger", "owner"):
        caller = world.caller(role)
        for name, arguments in PAGE_PATTERNS.items():
            _, _, given = matrix.PAGES[name]
            address = reverse(name, kwargs={key: {**names, **given}[key] for key in arguments})
            for method in ("get", "post") if name not in ("logout", "job-delete") else ("get",):
                assert_page_headers(getattr(caller.client, method)(address), (role, method, name))
        for method, path in ROUTES:
            if method != "delete":
                response = caller.call(method.upper(), path.format(**names), {})
                assert_page_headers(response, (role, method, path))


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/nothing", "/api/v1/nothing", "/jobs/x/", "/admin/", "/admin/login/", "/api/docs"])
def test_errors_and_foreign_pages_too(path):
    assert_page_headers(browser().client.get(path), path)


@pytest.mark.django_db
def test_a_bug_a_wrong_host_and_a_missing_token_too(monkeypatch):
    def bug(*_, **__):
        raise RuntimeError

    monkeypatch.setattr("weei_site.views.render", bug)
    response = browser().client.get("/")
    assert response.status_code == 500
    assert_page_headers(response, "500")
    response = browser().client.get("/help/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert_headers(response, "400")
    response = browser("alice", enforce_csrf_checks=True).client.post("/sign-out/")
    assert response.status_code == 403
    assert_page_headers(response, "403")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "testserver:80@evil.example"},
        {"host": "testserver.evil.example"},
        {"host": "testserver", "x-forwarded-host": "evil.example"},
    ],
)
@pytest.mark.django_db
def test_a_spoofed_host_is_not_believed(headers):
    """H12."""
    response = browser().client.get("/help/", headers=headers)
    assert response.status_code == (200 if headers["host"] == "testserver" else 400)
    assert b"evil.example" not in response.content


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("POST", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/static/weei/weei.js"),
        ("GET", "/static/nothing.js"),
        ("POST", "/static/weei/weei.js"),
        ("GET", "/presets/nothing/x"),
        ("GET", "/bytes/nothing"),
        ("GET", "/bytes/jobs/5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01/" + "0" * 64),
        ("POST", "/bytes/uploads"),
        ("PUT", "/bytes/uploads"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_what_django_does_not_serve_too(method, path):
    assert_headers(call(build(get_asgi_application()), method, path), (method, path))


def test_a_body_that_the_gate_refuses_too():
    answer = call(build(get_asgi_application()), "POST", "/api/v1/jobs", {"Content-Length": str(2**30)}, [b"x"])
    assert answer.status == 413
    assert_headers(answer, "413")


def manage(*arguments, **environment):
    known = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "VAR_DIR", "LANG")}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**known, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_https_deployment_is_clean(tmp_path):
    result = manage(
        "check",
        "--deploy",
        "--fail-level",
        "WARNING",
        VAR_DIR=str(tmp_path),
        PUBLIC_URLS="https://weei.example,https://www.weei.example",
    )
    assert result.returncode == 0, result.stderr


def test_its_cookies_are_bound_to_host_and_https(tmp_path):
    show = "from django.conf import settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, "
    show += (
        "s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SESSION_COOKIE_HTTPONLY, s.SECURE_HSTS_SECONDS > 0, s.DEBUG)"
    )
    result = manage("shell", "-v", "0", "-c", show, VAR_DIR=str(tmp_path), PUBLIC_URLS="https://weei.example")
    assert result.stdout.split() == ["__Host-weei_session", "__Host-weei_csrf", *["True"] * 4, "False"], result.stderr
