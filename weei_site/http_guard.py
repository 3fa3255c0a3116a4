"""uvicorn's HTTP/1.1 protocol with the limits that it lacks: `uvicorn --http weei_site.http_guard:GuardedHttp`.

Before the end of the headers no ASGI app is called, so neither the gate nor Django can see a client that connects and
says nothing, sends a header a minute, or sends headers without end (slowloris).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import ClassVar

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
"""From the connection, or from the first byte of a further request, to the end of its headers."""
DISCARD_SECONDS = 30.0
"""How long the rest of a body may take that nobody reads any more."""
HEADER_BYTES = 64 * 1024
CONNECTIONS_PER_ADDRESS = 256
"""A class behind one address: 40 browsers of 6 connections. Behind a proxy all come from one: the proxy counts."""
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedHttp(HttpToolsProtocol):
    _per_address: ClassVar[Counter[str]] = Counter()

    _timer: asyncio.TimerHandle | None = None
    _address: str | None = None
    _in_headers = True
    _in_body = False
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm(HEADER_SECONDS)
        if self.client is None or settings.SECURE_PROXY_SSL_HEADER is not None:
            return
        self._address = self.client[0]
        self._per_address[self._address] += 1
        if self._per_address[self._address] > CONNECTIONS_PER_ADDRESS:
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._forget_address()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        # The connection is another protocol's from here on, and that one has its own limits.
        self._disarm()
        self._forget_address()
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        # A read may hold the whole body too, so what counts is headers that are still not at their end.
        if self._in_headers and self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._in_body = True, False
        if self._timer is None:
            self._arm(HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        if sum(len(name) + len(value) for name, value in self.headers) > HEADER_BYTES:
            # The parser stops at any error in a callback, and uvicorn answers 400 and closes.
            raise ValueError(f"The headers have more than {HEADER_BYTES} bytes.")
        self._in_headers, self._in_body, self._header_bytes = False, True, 0
        self._disarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body:
            self._arm(DISCARD_SECONDS)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _forget_address(self) -> None:
        if self._address is not None:
            self._per_address[self._address] -= 1
            if not self._per_address[self._address]:
                del self._per_address[self._address]
            self._address = None
