"""Where the blocking work of the bytes app and of the sockets runs: few threads for short questions to the database,
others for work with files. A hash over 2 GiB must not keep anybody's authorization waiting, and the number of
connections is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections, connection

P = ParamSpec("P")
T = TypeVar("T")
AWAY_SECONDS = 1.0
WAITED_SECONDS = 1.0


class Outage:
    """Remembers for a moment that somebody waited for a connection in vain. Those who queued behind them are refused at
    once, or they would wait for as long, one after the other. A failure that comes at once keeps nobody waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0

    def connect(self) -> None:
        """This thread has a connection; or OperationalError or InterfaceError."""
        begun = self._clock()
        if begun < self._until:
            raise OperationalError("no connection was to be had a moment ago")
        try:
            connection.ensure_connection()
        except (OperationalError, InterfaceError):
            if self._clock() - begun >= WAITED_SECONDS:
                self._until = self._clock() + AWAY_SECONDS
            raise


@contextlib.contextmanager
def healthy_connection() -> Iterator[None]:
    """For work outside Django's requests: a connection that failed or is too old makes way, before and afterwards."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


class DatabaseThreads:
    """`await threads(function, …)`: short work with a healthy connection, given back afterwards as CONN_MAX_AGE says.

    What was started is always finished: cancelling the waiter does not undo it.
    """

    def __init__(self, count: int, name: str, outage: Outage) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._outage = outage

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def call() -> T:
            with healthy_connection():
                self._outage.connect()
                return function(*args, **kwargs)

        return await in_context(self._threads, call)


outage = Outage()
"""Of this process's only database."""
in_database = DatabaseThreads(4, "bytes-database", outage)
_files = ThreadPoolExecutor(4, thread_name_prefix="bytes-files")


async def in_files(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work with files that may take long; the function may use the database too."""

    def call() -> T:
        with healthy_connection():
            return function(*args, **kwargs)

    return await in_context(_files, call)


async def on_disk(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work with files only."""
    return await in_context(_files, lambda: function(*args, **kwargs))


async def in_context(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """In a thread, with the caller's context, so that log lines say what they are about."""
    return await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, call)
