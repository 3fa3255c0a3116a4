"""Where the blocking work of the bytes app runs: few threads for short questions to the database, others for work
with files. A hash over 2 GiB must not keep anybody's authorization waiting, and the number of connections is known.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")

_database = ThreadPoolExecutor(4, thread_name_prefix="bytes-database")
_files = ThreadPoolExecutor(4, thread_name_prefix="bytes-files")


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Short work with a healthy connection, given back afterwards as CONN_MAX_AGE says.

    What was started is always finished: cancelling the waiter does not undo it.
    """
    return await _run(_database, lambda: _with_connection(lambda: function(*args, **kwargs)))


async def in_files(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work with files that may take long; the function may use the database too."""
    return await _run(_files, lambda: _with_connection(lambda: function(*args, **kwargs)))


async def on_disk(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work with files only."""
    return await _run(_files, lambda: function(*args, **kwargs))


async def _run(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """With the caller's context, so that log lines say what they are about."""
    return await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, call)


def _with_connection(call: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return call()
    finally:
        close_old_connections()
