"""`GET /healthz`: this process answers. `GET /readyz`: it can work, or 503 with the part that is away.

Both stand before Django: they know no host, session or user, because whoever asks them (a proxy, a container engine)
calls a process by its address. What they say is for everybody: states and times, never a name or an error's text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from checkpoints.bytes.http import MethodNotAllowed, send_json, send_problem
from checkpoints.bytes.threads import healthy_connection
from checkpoints.store import store
from weei_site.health_drain import drain

logger = logging.getLogger(__name__)
PATIENCE_SECONDS = 3.0
REDIS_SECONDS = 1.0
_NO_STORE = (("Cache-Control", "no-store"),)


class NotReady(Exception):
    """A sentence that everybody may read."""


@dataclass(frozen=True)
class Found:
    ok: bool
    ms: float
    at: float
    reason: str = ""


class Part:
    """Something that the process needs, looked at in a thread of its own, by one caller at a time, and remembered for
    `keep_seconds`. One that does not answer holds that thread and no other."""

    def __init__(
        self,
        name: str,
        look: Callable[[], None],
        *,
        keep_seconds: float,
        needed: bool = True,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.name, self.needed = name, needed
        self._look, self._keep, self._patience = look, keep_seconds, patience
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"ready-{name}")
        self._running: Future[Found] | None = None
        self._last: Found | None = None

    async def state(self) -> Found:
        if self._last is not None and time.monotonic() - self._last.at < self._keep:
            return self._last
        if self._running is None or self._running.done():
            self._running = self._pool.submit(self._found)
        waiting = asyncio.wrap_future(self._running)
        try:
            # Shielded: others may wait for the same look.
            return await asyncio.wait_for(asyncio.shield(waiting), self._patience)
        except TimeoutError:
            return Found(False, self._patience * 1000, time.monotonic(), f"no answer for {self._patience:g} s")

    def _found(self) -> Found:
        began = time.perf_counter()
        reason, details = "", ""
        try:
            self._look()
        except NotReady as error:
            reason = details = str(error)
        except Exception as error:
            reason, details = "it does not answer, or with an error", str(error)
        if reason and (self._last is None or self._last.ok):
            logger.warning("%s is not ready: %s", self.name, details)
        elif not reason and self._last is not None and not self._last.ok:
            logger.info("%s is ready again", self.name)
        self._last = Found(not reason, round((time.perf_counter() - began) * 1000, 1), time.monotonic(), reason)
        return self._last


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """What this version of the program expects the database to have; the files do not change while it runs."""
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    return frozenset(loader.disk_migrations)


def look_at_database() -> None:
    """One query. A database that is ahead (a newer version is being rolled out) is fine."""
    with healthy_connection():
        applied = MigrationRecorder(connection).applied_migrations()
        missing = len(_migrations() - set(applied))
        if missing:
            raise NotReady(f"{missing} migrations are not applied")


def look_at_store() -> None:
    store().check_writable()


def look_at_redis() -> None:
    times = {"socket_connect_timeout": REDIS_SECONDS, "socket_timeout": REDIS_SECONDS}
    with redis.Redis.from_url(settings.QUEUE_URL, **times) as client:
        client.ping()


class Readiness:
    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts

    async def report(self) -> tuple[int, dict[str, Any]]:
        """The status of the answer, and what it says. Without Redis a server is degraded, but ready: updates are taken
        in, participants find their work by polling, and the sweeper queues again what was not."""
        found = dict(zip(self._parts, await asyncio.gather(*(part.state() for part in self._parts)), strict=True))
        said = {part.name: _said(part, state) for part, state in found.items()}
        if drain.begun:
            return 503, {"status": "draining", "parts": said}
        if any(part.needed and not state.ok for part, state in found.items()):
            return 503, {"status": "not ready", "parts": said}
        return 200, {"status": "ready" if all(state.ok for state in found.values()) else "degraded", "parts": said}


def _said(part: Part, state: Found) -> dict[str, object]:
    word = "ok" if state.ok else "failed" if part.needed else "degraded"
    return {"state": word, "ms": state.ms, **({"reason": state.reason} if state.reason else {})}


readiness = Readiness(
    (
        Part("database", look_at_database, keep_seconds=1),
        # A write to a bucket costs something each time.
        Part("store", look_at_store, keep_seconds=10),
        Part("redis", look_at_redis, keep_seconds=1, needed=False),
    )
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        await send_problem(send, MethodNotAllowed(f"The method must be GET or HEAD; found {scope['method']}."))
    elif scope["path"] == "/healthz":
        await send_json(send, 200, {"status": "alive"}, _NO_STORE)
    else:
        status, said = await readiness.report()
        retry = (("Retry-After", "2"),) if status == 503 else ()
        await send_json(send, status, said, (*_NO_STORE, *retry))
