"""Messages between a parent and its jailed child: length-prefixed JSON over a socket pair, files as descriptors.

Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""A result of 1 MiB of JSON text, escaped once more, fits."""

MAX_FILES = 128
"""Linux passes at most 253 descriptors in one message."""

Message = dict[str, Any]


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """One end. `receive` never allocates more than `MAX_MESSAGE_BYTES` for what the other side claims to send."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()  # select() itself fails on descriptors from 1024 up
        self._poll.register(end, select.POLLIN)
        self._buffer = bytearray()
        self._files: list[int] = []

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        data = struct.pack("<I", len(body)) + body
        try:
            sent = socket.send_fds(self._socket, [data], list(files))
            self._socket.sendall(data[sent:])
        except OSError as error:
            raise Closed from error

    def receive(self, timeout: float | None = None) -> tuple[bytes, list[int]] | None:
        """The next message's bytes and the descriptors that came with it; None when `timeout` seconds pass.

        Raises `Closed` when the other side is gone or breaks the framing.
        """
        while True:
            message = self._take()
            if message is not None:
                files, self._files = self._files, []
                return message, files
            if timeout is not None and not self._poll.poll(timeout * 1000):
                return None
            try:
                data, files, _, _ = socket.recv_fds(self._socket, 65536, MAX_FILES)
            except OSError as error:
                raise Closed from error
            self._files += files
            if not data:
                raise Closed
            self._buffer += data

    def _take(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        size = struct.unpack_from("<I", self._buffer)[0]
        if size > MAX_MESSAGE_BYTES:
            raise Closed
        if len(self._buffer) < 4 + size:
            return None
        message = bytes(self._buffer[4 : 4 + size])
        del self._buffer[: 4 + size]
        return message

    def close(self) -> None:
        for fd in self._files:
            os.close(fd)
        self._files = []
        self._socket.close()
