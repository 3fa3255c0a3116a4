"""What sockets share: threads for blocking work, the pace of messages, and the name of a message that is refused.

Channels runs all `database_sync_to_async` of a process on one thread, so that one slow query, or a cache that does not
answer, would hold up every socket. These pools keep the two apart, and the number of connections known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from checkpoints.bytes.threads import DatabaseThreads, in_context, outage
from weei_core import strict_json
from weei_core.errors import Invalid

P = ParamSpec("P")
T = TypeVar("T")

in_database = DatabaseThreads(4, "sockets-database", outage)
_cache = ThreadPoolExecutor(2, thread_name_prefix="sockets-cache")
NAME_CHARACTERS = 40


async def in_cache(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work with the cache only."""
    return await in_context(_cache, lambda: function(*args, **kwargs))


class Pace:
    """At most `limit` calls within any second."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._times: deque[float] = deque(maxlen=limit)
        self._limit = limit
        self._clock = clock

    def allows(self) -> bool:
        now = self._clock()
        if len(self._times) == self._limit and now - self._times[0] < 1:
            return False
        self._times.append(now)
        return True


def type_of(text: str) -> str | None:
    """What kind of message this was meant to be, if it says so."""
    try:
        value = strict_json.loads(text)
    except Invalid:
        return None
    name = value.get("type") if isinstance(value, dict) else None
    return name[:NAME_CHARACTERS] if isinstance(name, str) else None
