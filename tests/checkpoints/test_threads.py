"""Work with the database from asynchronous code: S8, nothing piles up behind a database that is away."""

import asyncio
import threading

import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.bytes.threads import AWAY_SECONDS, DatabaseThreads, Outage


class Away:
    """Stands for a database that lets nobody in until it is told to, and counts who asked."""

    def __init__(self, monkeypatch, clock):
        self.asked = 0
        self.refuses = True
        self.clock, self.seconds = clock, 5.0
        self.waits = threading.Event()
        monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", lambda _: self.ask())

    def ask(self):
        self.asked += 1
        self.waits.wait(10)
        if self.refuses:
            self.clock[0] += self.seconds
            raise OperationalError("couldn't get a connection after 5.00 sec")


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def outage(clock):
    return Outage(lambda: clock[0])


def test_those_who_queue_behind_a_connection_that_did_not_come_are_refused_without_a_wait_of_their_own(
    monkeypatch, outage, clock
):
    away = Away(monkeypatch, clock)
    threads = DatabaseThreads(2, "few", outage)

    async def crowd():
        asking = [asyncio.create_task(threads(lambda: "answer")) for _ in range(50)]
        await asyncio.sleep(0.05)
        away.waits.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    found = asyncio.run(crowd())
    assert {type(one) for one in found} == {OperationalError}
    assert away.asked == 2


def test_who_is_refused_without_a_wait_keeps_nobody_else_out(monkeypatch, outage, clock):
    """A pool whose queue is full says so at once; a crowd is no outage."""
    away = Away(monkeypatch, clock)
    away.waits.set()
    away.seconds = 0.01
    threads = DatabaseThreads(2, "few", outage)
    with pytest.raises(OperationalError, match="couldn't get"):
        asyncio.run(threads(lambda: "answer"))
    away.refuses = False
    assert asyncio.run(threads(lambda: "answer")) == "answer"


def test_a_moment_later_the_database_is_asked_again(monkeypatch, outage, clock):
    away = Away(monkeypatch, clock)
    away.waits.set()
    threads = DatabaseThreads(2, "few", outage)
    with pytest.raises(OperationalError, match="couldn't get"):
        asyncio.run(threads(lambda: "answer"))
    away.refuses = False
    clock[0] += AWAY_SECONDS / 2
    with pytest.raises(OperationalError, match="a moment ago"):
        asyncio.run(threads(lambda: "answer"))
    clock[0] += AWAY_SECONDS
    assert asyncio.run(threads(lambda: "answer")) == "answer"
    assert away.asked == 2


def test_a_query_that_fails_says_nothing_about_the_database(monkeypatch, outage, clock):
    away = Away(monkeypatch, clock)
    away.waits.set()
    away.refuses = False
    threads = DatabaseThreads(2, "few", outage)

    def locked():
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError, match="locked"):
        asyncio.run(threads(locked))
    assert asyncio.run(threads(lambda: "answer")) == "answer"
