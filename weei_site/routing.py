"""How requests find their way: around everything the rules for pages of other sites and a body gate; bytes and static
files beside Django, sockets by Channels. `lifespan` runs the sweeper in each web process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

from asgiref.sync import sync_to_async
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.urls import get_resolver
from django.utils import timezone

from checkpoints.bytes.app import application as bytes_application
from checkpoints.bytes.threads import healthy_connection
from jobs.services.events import enqueue
from jobs.services.sweeping import Sweeper
from peers.consumers import PeerConsumer
from peers.polling import Polls
from weei_core.log_context import about
from weei_site.body_gate import BodyGate
from weei_site.health import application as health_application
from weei_site.health_drain import drain
from weei_site.logs_requests import Observed
from weei_site.metrics import sweeping
from weei_site.metrics_app import application as metrics_application
from weei_site.origin import ExactOrigin
from weei_site.other_origins import OtherOrigins
from weei_site.static_app import application as static_application

logger = logging.getLogger(__name__)
COLLECT_SECONDS = 300
COLLECT_AFTER = (10_000, 10, 10)
"""New objects before a garbage collection, and how many of those before the next larger one."""
Application = Callable[..., Awaitable[None]]
STATIC_PREFIXES = ("/static/", "/presets/")


class Http:
    """Bytes never pass through Django."""

    def __init__(self, django_application: Application) -> None:
        self._django = Polls(django_application)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path_info = scope["path"]
        if path_info.startswith("/bytes/"):
            await bytes_application(scope, receive, send)
        elif path_info.startswith(STATIC_PREFIXES):
            await static_application(scope, receive, send)
        elif path_info in ("/healthz", "/readyz"):
            await health_application(scope, receive, send)
        elif path_info == "/metrics":
            await metrics_application(scope, receive, send)
        else:
            await self._django(scope, receive, send)


_OF_A_VERSION = re.compile(r"/api/(?:v\d+|docs|openapi\.json|asyncapi\.json)(?:/|$)")


def newest_version(scope: Any) -> Any:
    """`/api/jobs` without a version is the newest one's: what was written before versions goes on working."""
    path = scope["path"]
    if not path.startswith("/api/") or _OF_A_VERSION.match(path):
        return scope
    found = "/api/v1/" + path.removeprefix("/api/")
    return {**scope, "path": found, "raw_path": quote(found).encode()}


def _keep_what_is_loaded() -> None:
    """What is imported lives as long as the process. A full garbage collection that looked through it as well would
    stop every socket for a quarter of a second, each few seconds; and what is left is too little to be looked through
    as often as Python does by default."""
    _ = get_resolver().url_patterns  # else the first request imports the pages
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    sweeps: asyncio.Task[None] | None = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            drain.install()
            _keep_what_is_loaded()
            sweeps = asyncio.create_task(_sweep_for_ever())
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            if sweeps is not None:
                sweeps.cancel()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _sweep_for_ever() -> None:
    """Sweeps every few seconds, and has files collected every few minutes (by any number of processes: it is cheap)."""
    sweeper = Sweeper()
    collected = 0.0

    def once() -> None:
        with healthy_connection(), about(task="sweep"), sweeping():
            sweeper.sweep(timezone.now(), time.monotonic())

    while True:
        try:
            await sync_to_async(once, thread_sensitive=False)()
            if time.monotonic() - collected > COLLECT_SECONDS:
                collected = time.monotonic()
                await sync_to_async(enqueue, thread_sensitive=False)("jobs.tasks.collect")
        except Exception:
            logger.exception("the sweep failed; the next one tries again")
        await asyncio.sleep(settings.SWEEP_SECONDS)


async def _no_socket(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


def build(django_application: Application) -> Any:
    """The whole application around Django's own."""
    http, peer = Http(django_application), PeerConsumer.as_asgi()

    async def sockets(scope: Any, receive: Any, send: Any) -> None:
        await (peer if scope["path"] == "/ws/peer" else _no_socket)(scope, receive, send)

    by_type: dict[str, Any] = {
        "http": http,
        "websocket": ExactOrigin(cast(Application, SessionMiddlewareStack(sockets))),
        "lifespan": lifespan,
    }

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await by_type[scope["type"]](scope, receive, send)

    gated = Observed(OtherOrigins(BodyGate(application)))

    async def outermost(scope: Any, receive: Any, send: Any) -> None:
        await gated(newest_version(scope) if scope["type"] == "http" else scope, receive, send)

    return outermost
