"""Saying, every few seconds, that long work is still being done, so that nobody starts it a second time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from django.db import close_old_connections, connection

SAY_SECONDS = 5


@contextlib.contextmanager
def kept_alive(say: Callable[[], object]) -> Iterator[None]:
    """Calls `say` every 5 s, from a thread with a database connection of its own, until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(SAY_SECONDS):
            close_old_connections()
            say()
        connection.close()

    thread = threading.Thread(target=run, name="kept-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
