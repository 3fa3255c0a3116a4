"""Which pages may open a socket (C82, H2), through the application as uvicorn serves it."""

import asyncio

import pytest

from peers.domain.origins import origin_of
from peers.services.tokens import peer_create
from tests.peers.socket import Socket, in_loop
from weei_site.routing import build

OWN = "http://testserver"


async def no_django(scope, receive, send):
    raise AssertionError("a websocket reached Django")


async def handshake(*headers, path="/ws/peer"):
    async with Socket(build(no_django), path=path, headers=headers) as socket:
        return socket.accepted


@pytest.mark.parametrize("origin", [OWN, "http://localhost:8000"])
def test_own_pages_may(origin):
    assert asyncio.run(handshake(("Origin", origin)))


@pytest.mark.parametrize(
    "origin",
    [
        "https://other.example",
        "https://testserver",
        "http://testserver:8000",
        "http://localhost",
        "http://localhost:8001",
        "http://testserver.evil.example",
        "http://evil.testserver",
        "http://testserver@evil.example",
        "http://eviltestserver",
        "HTTP://TESTSERVER",
        "http://testserver/",
        "http://testserver:99999",
        "http://[::1",
        "testserver",
        "//testserver",
        "file://",
        "null",
        "*",
        "",
        "\u00e4",
    ],
)
def test_others_may_not(origin, caplog):
    caplog.set_level("INFO", "weei.denied")
    assert not asyncio.run(handshake(("Origin", origin)))
    assert [record.name for record in caplog.records] == ["weei.denied"]


def test_no_origin_and_two_origins_are_refused():
    assert not asyncio.run(handshake())
    assert not asyncio.run(handshake(("Origin", OWN), ("Origin", "https://other.example")))
    assert not asyncio.run(handshake(("Origin", OWN), ("Origin", OWN)))


def test_every_host_allowed_does_not_allow_every_origin(settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert not asyncio.run(handshake(("Origin", "https://other.example")))
    assert not asyncio.run(handshake())


def test_there_is_no_socket_at_another_address():
    assert not asyncio.run(handshake(("Origin", OWN), path="/ws/other"))
    assert not asyncio.run(handshake(("Origin", OWN), path="/"))


@pytest.mark.django_db(transaction=True)
def test_a_peer_says_hello_through_the_whole_application():
    _, token = peer_create()

    @in_loop
    async def hello():
        async with Socket(build(no_django), headers=[("Origin", OWN)]) as socket:
            assert (await socket.hello(token))["session"] == 1

    hello()


@pytest.mark.parametrize(
    "url, origin",
    [
        ("http://Example.org:80", "http://example.org"),
        ("https://example.org:443", "https://example.org"),
        ("https://example.org:8443", "https://example.org:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://192.168.1.5:8000", "http://192.168.1.5:8000"),
        ("example.org", None),
        ("ftp://example.org", None),
        ("http://example.org:port", None),
    ],
)
def test_a_public_url_is_compared_as_browsers_write_origins(url, origin):
    assert origin_of(url) == origin
