"""Which pages may open a socket. Browsers send their cookies with a websocket from any site, and no CSRF token: the
Origin header is all there is to tell our pages from others'."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from peers.domain.origins import origin_of

denials = logging.getLogger("weei.denied")
Application = Callable[..., Awaitable[None]]


class ExactOrigin:
    """Refuses (403) a handshake whose Origin is not exactly one of the site's own: other host, port, scheme, "null",
    several, or none."""

    def __init__(self, application: Application, public_urls: Iterable[str]) -> None:
        self._application = application
        self._allowed = {origin_of(url) for url in public_urls} - {None}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if len(origins) == 1 and origins[0] in self._allowed:
            await self._application(scope, receive, send)
            return
        denials.info("user=- peer=- WS %.40r 403 origin=%.200r", scope["path"], origins)
        await receive()
        await send({"type": "websocket.close", "code": 1008})
