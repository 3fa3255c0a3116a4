"""The end of a web process: on SIGTERM it says first that it is not ready any more, and stops `DRAIN_SECONDS` later, so
that a proxy has sent the last new request elsewhere. A second SIGTERM, or Ctrl-C, stops it at once.

What uvicorn does then: sockets are closed with 1012 ("service restart"), requests have
`--timeout-graceful-shutdown` seconds to end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from django.conf import settings

logger = logging.getLogger(__name__)


class Drain:
    def __init__(self) -> None:
        self.begun = False
        self._stop: Callable[[int, FrameType | None], Any] | None = None

    def install(self) -> None:
        """Take the signal over from the server that runs this loop; called when the server has taken it itself."""
        handler = signal.getsignal(signal.SIGTERM)
        if threading.current_thread() is not threading.main_thread() or not callable(handler):
            return
        self._stop = handler
        loop = asyncio.get_running_loop()

        def drain(number: int, frame: FrameType | None) -> None:
            if self.begun or settings.DRAIN_SECONDS <= 0:
                self.begun = True
                handler(number, frame)
                return
            self.begun = True
            # A signal's handler runs between two bytecodes of anything: only this call is safe in it.
            loop.call_soon_threadsafe(self._later, loop, number)

        signal.signal(signal.SIGTERM, drain)

    def _later(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        logger.info("told to stop: not ready any more, and away in %g s", settings.DRAIN_SECONDS)
        assert self._stop is not None
        loop.call_later(settings.DRAIN_SECONDS, self._stop, number, None)


drain = Drain()
