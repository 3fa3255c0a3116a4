"""The limits that come before any app: real sockets against a uvicorn in a thread (H15)."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest
import uvicorn

from weei_site import http_guard
from weei_site.http_guard import GuardedHttp


async def hello(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/read":
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def address():
    config = uvicorn.Config(hello, http=GuardedHttp, log_level="error", lifespan="off", loop="asyncio")
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join(10)


@contextmanager
def connected(address):
    with socket.create_connection(address, timeout=10) as client:
        yield client


def read_all(client):
    data = b""
    while piece := client.recv(65_536):
        data += piece
    return data


def ask(client, head=b"GET / HTTP/1.1\r\nHost: x\r\n", body=b""):
    """One request on a connection that stays open; the answers of this server end in "ok"."""
    client.sendall(head + b"\r\n" + body)
    data = b""
    while not data.endswith(b"ok"):
        piece = client.recv(65_536)
        assert piece, data
        data += piece
    return data


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX-A: b\r\nX-B"])
def test_a_client_that_never_ends_its_headers_is_cut_off(address, monkeypatch, start):
    monkeypatch.setattr(http_guard, "HEADER_SECONDS", 0.1)
    with connected(address) as client:
        client.sendall(start)
        assert read_all(client) == b""


def test_the_same_holds_for_a_second_request(address, monkeypatch):
    with connected(address) as client:
        assert b"200 OK" in ask(client)
        monkeypatch.setattr(http_guard, "HEADER_SECONDS", 0.1)
        client.sendall(b"GET / HTT")
        assert read_all(client) == b""


def test_headers_without_end_are_refused(address):
    with connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX-A: " + b"x" * 70_000)
        assert b" 431 " in read_all(client)
    with connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"x" * 70_000 + b"\r\n\r\n")
        assert read_all(client).split(b"\r\n")[0].split()[1] in (b"400", b"431")


def test_a_body_that_nobody_reads_has_its_time_to_end(address, monkeypatch):
    monkeypatch.setattr(http_guard, "DISCARD_SECONDS", 0.1)
    with connected(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
        assert read_all(client).endswith(b"ok")


def test_an_honest_connection_is_kept(address, monkeypatch):
    monkeypatch.setattr(http_guard, "DISCARD_SECONDS", 0.05)
    with connected(address) as client:
        for _ in range(3):
            assert b"200 OK" in ask(client, b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n", b"abc")


def test_one_address_may_hold_so_many_connections(address, monkeypatch):
    monkeypatch.setattr(http_guard, "CONNECTIONS_PER_ADDRESS", 2)
    with connected(address) as first, connected(address) as second:
        assert b"200 OK" in ask(first)
        assert b"200 OK" in ask(second)
        with connected(address) as third:
            assert read_all(third).startswith(b"HTTP/1.1 503 ")


def test_behind_a_proxy_addresses_are_not_counted(address, monkeypatch, settings):
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    monkeypatch.setattr(http_guard, "CONNECTIONS_PER_ADDRESS", 0)
    with connected(address) as client:
        assert b"200 OK" in ask(client)
