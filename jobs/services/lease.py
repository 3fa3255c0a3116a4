"""Saying, every few seconds, that long work is still being done, so that nobody starts it a second time."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from django.db import close_old_connections, connection

logger = logging.getLogger(__name__)
SAY_SECONDS = 5


@contextlib.contextmanager
def kept_alive(say: Callable[[], object]) -> Iterator[None]:
    """Calls `say` every 5 s, from a thread with a database connection of its own, until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(SAY_SECONDS):
            close_old_connections()
            try:
                say()
            except Exception:
                # The next one may get through; without any, somebody else takes the work over.
                logger.exception("a lease was not renewed")
        connection.close()

    thread = threading.Thread(target=run, name="kept-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
