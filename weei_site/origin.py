"""Which pages may open a socket. Browsers send their cookies with a websocket from any site, and no CSRF token: the
Origin header is all there is to tell our pages from others'."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

denials = logging.getLogger("weei.denied")
Application = Callable[..., Awaitable[None]]
DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str | None:
    """The origin as browsers write it: scheme, host and port, the port left out when it is the scheme's own."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if port in (None, DEFAULT_PORTS[parts.scheme]) else f":{port}")


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
