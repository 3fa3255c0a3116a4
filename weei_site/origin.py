"""Which pages may open a socket. Browsers send their cookies with a websocket from any site, and no CSRF token: the
Origin header is all there is to tell our pages from others'."""

from __future__ import annotations

import logging
from typing import Any

from django.db import InterfaceError, OperationalError

from checkpoints.bytes.threads import in_database
from peers.domain.origins import canonical_origin
from peers.services.sites import is_own, site_for
from weei_core.errors import WeeiError
from weei_site.other_origins import Application, header_values, without_cookies

denials = logging.getLogger("weei.denied")


class ExactOrigin:
    """Refuses (403) a handshake whose Origin is not exactly one of the server's own or a registered one: other host,
    port, scheme, "null", several, or none. On a registered one no cookie counts; `site_origin` in the scope is it."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        origins = header_values(scope, b"origin")
        if len(origins) == 1 and is_own(origins[0]):
            await self._application(scope, receive, send)
        elif len(origins) == 1 and await _is_registered(origins[0]):
            await self._application({**without_cookies(scope), "site_origin": origins[0]}, receive, send)
        else:
            denials.info("user=- peer=- WS %.40r 403 origin=%.200r", scope["path"], origins)
            await receive()
            await send({"type": "websocket.close", "code": 1008})


async def _is_registered(origin: str) -> bool:
    try:
        await in_database(site_for, canonical_origin(origin))
    except (WeeiError, OperationalError, InterfaceError):
        return False
    return True
