"""The gate in front of Django: what it lets through, and how little it reads of the rest."""

from __future__ import annotations

import asyncio

import pytest

from tests.checkpoints.asgi import GONE, HANG, call
from weei_site import body_gate
from weei_site.body_gate import BodyGate, largest_body

MIB = 1024 * 1024


class Echo:
    """An app that reads all and answers with the length; it knows whether it was asked."""

    def __init__(self):
        self.called = False
        self.heard = []

    async def __call__(self, scope, receive, send):
        self.called = True
        size = 0
        while True:
            message = await receive()
            self.heard.append(message["type"])
            if message["type"] == "http.disconnect":
                await send({"type": "http.response.start", "status": 599, "headers": []})
                return
            size += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})


def post(path, pieces, **headers):
    app = Echo()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return app, call(BodyGate(app), "POST", path, named, pieces)


@pytest.mark.parametrize(
    ("path", "media_type", "limit"),
    [
        ("/api/v1/jobs", "application/json", 8 * MIB),
        ("/api/v1/jobs/", "application/json", 8 * MIB),
        ("/api/v1/jobs/1/start", "application/json", MIB),
        ("/api/v1/peers", "", MIB),
        ("/login", "application/x-www-form-urlencoded", MIB),
        ("/admin/x", "multipart/form-data", MIB),
        ("/anything", "application/json", 64 * 1024),
        ("/", "text/plain", 64 * 1024),
    ],
)
def test_each_route_has_its_limit(path, media_type, limit):
    assert largest_body(path, media_type) == limit
    app, answer = post(path, [b"x" * limit], Content_Type=f"{media_type}; charset=utf-8")
    assert (answer.status, answer.body) == (200, str(limit).encode())
    app, answer = post(path, [b"x" * 10], Content_Type=media_type, Content_Length=str(limit + 1))
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    assert str(limit) in answer.json["title"]
    assert not app.called
    assert answer.read == 0
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("path", ["/api/v1/jobs/", "/", "/no/such/page", "/static/x.js"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(1024**3)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "10", "Content-Encoding": "gzip"}, 415),
        ({"Content-Length": "ten"}, 411),
    ],
)
def test_a_gigabyte_is_refused_within_its_first_bytes(path, headers, status):
    """Measured fact 1, U13, U14: by length, without one, and compressed."""
    app = Echo()
    answer = call(BodyGate(app), "POST", path, headers, [b"x" * 65_536] * 10)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.read == 0
    assert not app.called


def test_a_request_without_a_body_passes():
    app = Echo()
    answer = call(BodyGate(app), "GET", "/")
    assert (answer.status, answer.body) == (200, b"0")


def test_bytes_have_rules_of_their_own():
    app, answer = post("/bytes/uploads", [b"x" * 100], Content_Length=str(1024**3))
    assert app.called
    assert answer.status == 200


def test_other_scopes_pass():
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope["type"])

    async def receive():
        raise AssertionError("asked for a body")

    async def send(message):
        raise AssertionError("answered")

    for scope in ({"type": "lifespan"}, {"type": "websocket", "path": "/ws/peer"}):
        asyncio.run(BodyGate(inner)(scope, receive, send))
    assert seen == ["lifespan", "websocket"]


def test_more_than_announced_is_refused_as_it_comes():
    app, answer = post("/", [b"x" * 8, b"x" * 8, b"x" * 8], Content_Length="10")
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    assert answer.read == 16
    assert app.heard == ["http.request", "http.disconnect"]


def test_a_sender_that_says_nothing_more_is_given_up(monkeypatch):
    """H15: the app hears that the client is gone, the client hears why."""
    monkeypatch.setattr(body_gate, "PATIENCE_SECONDS", 0.02)
    app, answer = post("/", [b"x" * 8, HANG], Content_Length="10")
    assert (answer.status, answer.json["code"]) == (408, "too_slow")
    assert answer.headers["connection"] == "close"
    assert app.heard == ["http.request", "http.disconnect"]


def test_a_client_that_hangs_up_is_reported_as_it_is():
    app, answer = post("/", [b"x" * 8, GONE], Content_Length="10")
    assert answer.status == 599
    assert app.heard == ["http.request", "http.disconnect"]


def test_a_slow_answer_is_not_a_slow_body(monkeypatch):
    """After the body, waiting for the end of the connection may take as long as the work does."""
    monkeypatch.setattr(body_gate, "PATIENCE_SECONDS", 0.01)

    async def slow(scope, receive, send):
        await receive()
        await asyncio.wait({asyncio.ensure_future(receive())}, timeout=0.05)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    answer = call(BodyGate(slow), "POST", "/", {}, [b"x"])
    assert (answer.status, answer.body) == (200, b"done")
