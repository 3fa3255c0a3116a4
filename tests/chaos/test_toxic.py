"""The proxy does to a link what it says, byte by byte, in front of a server that echoes."""

import socket
import threading
import time

import pytest

from tests.chaos.toxic import Links, Toxic
from tests.stack.ports import free_port

WAIT_SECONDS = 10
SILENCE_SECONDS = 0.3


class Echo:
    """Echoes on every connection, and remembers what came and how each connection ended."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.answers = True
        self.came = bytearray()
        self.ends = []
        self.ended = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection):
        try:
            while block := connection.recv(65536):
                self.came += block
                if self.answers:
                    connection.sendall(block)
            self.ends.append("end")
        except OSError:
            self.ends.append("reset")
        connection.close()
        self.ended.release()

    def close(self):
        self._listener.close()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def link(echo):
    links = Links()
    yield links.add("echo", echo.port)
    links.close()


def connect(link):
    client = socket.create_connection(("127.0.0.1", link.port), timeout=WAIT_SECONDS)
    client.settimeout(WAIT_SECONDS)
    return client


def read(client, size):
    found = b""
    while len(found) < size and (block := client.recv(size - len(found))):
        found += block
    return found


def ask(client, data=b"hello"):
    client.sendall(data)
    return read(client, len(data))


def test_a_good_link_passes_bytes_and_ends_both_ways(echo, link):
    data = bytes(range(256)) * 4096
    with connect(link) as client:
        threading.Thread(target=client.sendall, args=(data,), daemon=True).start()
        assert read(client, len(data)) == data
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert echo.ended.acquire(timeout=WAIT_SECONDS) and echo.ends == ["end"]


def test_a_cut_lets_exactly_so_many_bytes_through_and_then_ends(echo, link):
    echo.answers = False  # with bytes of an answer still under way, the end would reach it as a reset
    link.set(Toxic(cut_at=1000))
    with connect(link) as client:
        client.sendall(bytes(5000))
        assert echo.ended.acquire(timeout=WAIT_SECONDS)
    assert len(echo.came) == 1000 and echo.ends == ["end"]


def test_a_reset_tears_down_what_is_open(echo, link):
    with connect(link) as client:
        assert ask(client) == b"hello"
        link.set(Toxic(reset_at=0))
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert echo.ended.acquire(timeout=WAIT_SECONDS) and echo.ends == ["reset"]


def test_a_half_open_link_takes_bytes_and_gives_none(echo, link):
    with connect(link) as client:
        assert ask(client) == b"hello"
        link.set(Toxic(half_open=True))
        client.sendall(b"lost")
        client.settimeout(SILENCE_SECONDS)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert echo.came == b"hello" and echo.ends == []
        client.settimeout(WAIT_SECONDS)
        link.calm()
        # What was lost cannot come any more, so neither side may go on as if nothing had been.
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_an_end_is_lost_too_on_a_half_open_link(echo, link):
    client = connect(link)
    assert ask(client) == b"hello"
    link.set(Toxic(half_open=True))
    client.close()
    assert not echo.ended.acquire(timeout=SILENCE_SECONDS)
    link.calm()
    assert echo.ended.acquire(timeout=WAIT_SECONDS) and echo.ends == ["reset"]


@pytest.mark.parametrize("toxic", [Toxic(latency=0.1), Toxic(bandwidth=10_000)], ids=["latency", "bandwidth"])
def test_a_slow_link_takes_at_least_its_time_and_loses_nothing(link, toxic):
    link.set(toxic)
    data = bytes(1000) + b"end"
    with connect(link) as client:
        begun = time.monotonic()
        for _ in range(2):
            assert ask(client, data) == data
        # There and back again: a sleep may be longer than asked for, never shorter.
        assert time.monotonic() - begun >= 0.2


def test_a_link_is_good_again_when_calmed(echo, link):
    link.set(Toxic(cut_at=0))
    with connect(link) as client:
        client.sendall(b"hello")
        assert client.recv(1) == b""
    link.calm()
    with connect(link) as client:
        assert ask(client) == b"hello"


def test_a_link_to_nobody_hangs_up():
    links = Links()
    with connect(links.add("nobody", free_port())) as client:
        assert client.recv(1) == b""
    links.close()
