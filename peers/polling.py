"""The poll of a peer's state, beside Django: what every participant asks every ten seconds is most of what a server
with many of them does, and half of it was Django's middleware, in a thread of each request's own.

Only what goes well is answered here. Whatever is refused goes on to Django, which says so as it always does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from checkpoints.bytes.auth import peer_of
from checkpoints.bytes.http import Request, send_json, send_problem, unavailable
from checkpoints.bytes.threads import in_database
from jobs.selectors.peer_state import peer_state
from jobs.services import participants
from peers.models import Peer
from peers.services.presence import peer_seen
from weei_core.errors import WeeiError
from weei_core.log_context import note

Application = Callable[..., Awaitable[None]]
PATH = "/api/v1/peer/state"
ROUTE = "api-1:peer_state_now"
"""The name that Django has for it, for metrics and log lines."""
HEADERS = (("Cache-Control", "no-store"), ("Vary", "Authorization, Weei-Peer"))


def state_now(peer: Peer) -> dict[str, Any]:
    """PeerState; counts as a heartbeat."""
    now = timezone.now()
    if peer_seen(peer, now):
        participants.peer_returned(peer, now)
    return peer_state(peer, now)


class Polls:
    def __init__(self, django_application: Application) -> None:
        self._django = django_application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != PATH or scope["method"] != "GET":
            await self._django(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            state = await in_database(lambda: state_now(peer_of(request)))
        except WeeiError:
            await self._django(scope, receive, send)
            return
        except (OperationalError, InterfaceError) as error:
            note(route=ROUTE)
            await send_problem(send, unavailable(error))
            return
        note(route=ROUTE)
        await send_json(send, 200, state, HEADERS)
