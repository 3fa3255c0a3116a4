"""A websocket client for thousands of fake participants: as little work for each frame as the protocol allows.

Frames are masked with zeros, which leaves the payload as it is; a server cannot tell that from any other mask.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from urllib.parse import urlsplit

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
FINAL, MASKED = 0x80, 0x80
ZERO_MASK = bytes(4)
CONNECT_SECONDS = 60
ABNORMAL = 1006
"""What stands for a connection that ended without a close frame."""


class Refused(OSError):
    """The server answered the handshake with something else than 101."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the handshake was answered with {status}")
        self.status = status


class Socket(asyncio.Protocol):
    """`hear` gets each text frame; `closed` holds the close code when the connection has ended, from either side."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[int] = loop.create_future()
        self._hear = hear
        self._buffer = bytearray()
        self._parts = bytearray()
        self._upgraded = False
        self._code = ABNORMAL
        self._transport: asyncio.Transport | None = None

    # --- what participants do ---

    def send(self, payload: bytes) -> None:
        """A text frame; dropped where the connection has ended."""
        self._frame(TEXT, payload)

    def close(self) -> None:
        """Say goodbye and hang up."""
        self._frame(CLOSE, (1000).to_bytes(2, "big"))
        if self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """Hang up without a word, as a machine does that loses its network."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded and not self._upgrade():
            return
        while self._take():
            pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.opened.done():
            self.opened.set_exception(ConnectionResetError("the connection ended before the handshake"))
        if not self.closed.done():
            self.closed.set_result(self._code)

    def request(self, path: str, host: str, origin: str) -> None:
        assert self._transport is not None
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            f"Origin: {origin}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        )
        self._transport.write("\r\n".join((*lines, "", "")).encode())

    def _upgrade(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        status = int(self._buffer[:end].split(b" ", 2)[1])
        del self._buffer[: end + 4]
        if status != 101:
            if not self.opened.done():
                self.opened.set_exception(Refused(status))
            self.cut()
            return False
        self._upgraded = True
        if not self.opened.done():
            self.opened.set_result(None)
        return True

    def _take(self) -> bool:
        """Handle the first frame of the buffer, if it is there as a whole."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        size, start = buffer[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return False
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + size:
            return False
        first, payload = buffer[0], bytes(buffer[start : start + size])
        del buffer[: start + size]
        kind = first & 0x0F
        if kind == PING:
            self._frame(PONG, payload)
        elif kind == CLOSE:
            self._code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else ABNORMAL
            self._frame(CLOSE, payload[:2])
            if self._transport is not None:
                self._transport.close()
        elif kind != PONG:
            self._parts += payload
            if first & FINAL:
                text, self._parts = bytes(self._parts), bytearray()
                self._hear(text)
        return True

    def _frame(self, kind: int, payload: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        size = len(payload)
        if size < 126:
            head = bytes((FINAL | kind, MASKED | size))
        elif size < 65_536:
            head = bytes((FINAL | kind, MASKED | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((FINAL | kind, MASKED | 127)) + size.to_bytes(8, "big")
        self._transport.write(head + ZERO_MASK + payload)


async def connected(
    url: str, origin: str, hear: Callable[[bytes], None], *, path: str = "/ws/peer", source: str | None = None
) -> Socket:
    """A socket after its handshake. `source` is the local address to come from. Raises OSError (timeouts too)."""
    where = urlsplit(url)
    loop = asyncio.get_running_loop()
    local = (source, 0) if source else None
    async with asyncio.timeout(CONNECT_SECONDS):
        _, socket = await loop.create_connection(lambda: Socket(hear), where.hostname, where.port, local_addr=local)
        socket.request(path, where.netloc, origin)
        try:
            await socket.opened
        except BaseException:
            socket.cut()
            raise
    return socket
