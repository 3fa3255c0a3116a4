"""Sending stored bytes: one range at most, in blocks, as fast as the reader takes them and no faster."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.types import Receive, Send

from checkpoints.bytes.http import ClientGone, Headers, Request, send_empty, send_start
from checkpoints.bytes.threads import on_disk

BLOCK_BYTES = 256 * 1024
OPEN_AT_ONCE = 64
STALLED_SECONDS = 30.0
"""A reader that takes no block for so long is cut off."""
_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})")
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._()+-]")
_SEPARATORS = re.compile("[\0-\x1f\x7f-\x9f/\\\\\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Piece:
    """A part of what is sent: bytes in memory, or a whole file."""

    data: bytes | Path
    size: int


def attachment(name: str) -> str:
    """Content-Disposition by RFC 6266: the name is a label for the person's disk and never a path (C48, F2)."""
    clean = _SEPARATORS.sub("_", name).strip(" .")[:150] or "file"
    return f"attachment; filename=\"{_UNSAFE.sub('_', clean)}\"; filename*=UTF-8''{quote(clean, safe='')}"


async def send_pieces(request: Request, send: Send, pieces: Sequence[Piece], etag: str, headers: Headers) -> None:
    total = sum(piece.size for piece in pieces)
    headers = (*headers, ("ETag", f'"{etag}"'), ("Accept-Ranges", "bytes"))
    if _matches(request.header("if-none-match"), etag):
        await send_empty(send, 304, headers)
        return
    wanted = _wanted(request, total, etag)
    first, last = wanted or (0, total - 1)
    if wanted and first >= total:
        await send_empty(send, 416, (*headers, ("Content-Range", f"bytes */{total}"), ("Content-Length", "0")))
        return
    status = 200
    if wanted:
        status, headers = 206, (*headers, ("Content-Range", f"bytes {first}-{last}/{total}"))
    headers = (*headers, ("Content-Length", str(last - first + 1)))
    if request.method == "HEAD":
        await send_empty(send, status, headers)
        return
    with ExitStack() as files:
        # Open before the first byte goes out: what is deleted meanwhile can still be read. Of an archive of thousands
        # of files the later ones are opened when their turn comes.
        first_ones = [(_opened(piece, files), piece.size) for piece in pieces[:OPEN_AT_ONCE]]
        parts = [*first_ones, *((piece.data, piece.size) for piece in pieces[OPEN_AT_ONCE:])]
        await send_start(send, status, headers)
        await _send_blocks(request.receive, send, _blocks(parts, first, last))


def _opened(piece: Piece, files: ExitStack) -> bytes | int:
    if isinstance(piece.data, bytes):
        return piece.data
    descriptor = os.open(piece.data, os.O_RDONLY)
    files.callback(os.close, descriptor)
    return descriptor


def _matches(header: str | None, etag: str) -> bool:
    return header is not None and (header.strip() == "*" or f'"{etag}"' in header)


def _wanted(request: Request, total: int, etag: str) -> tuple[int, int] | None:
    """First and last byte of the range that is asked for, both included; a first past the end fits nothing.

    None: the whole, also for several ranges, for what says nothing, and for a range of what was here before.
    """
    match = _RANGE.fullmatch((request.header("range") or "").replace(" ", ""))
    if match is None or request.header("if-range") not in (None, f'"{etag}"'):
        return None
    first, last = match[1], match[2]
    if first:
        end = min(int(last) if last else total - 1, total - 1)
        return None if last and int(last) < int(first) else (int(first), end)
    if not last:
        return None
    return (max(0, total - int(last)), total - 1) if int(last) else (total, total)


async def _blocks(parts: Sequence[tuple[bytes | int | Path, int]], first: int, last: int) -> AsyncIterator[bytes]:
    """The bytes from `first` to `last` of the parts laid end to end. A part is bytes, an open file, or one to open."""
    start = 0
    for data, size in parts:
        begin, end = max(first - start, 0), min(last + 1 - start, size)
        with ExitStack() as file:
            source = file.enter_context(_open(data)) if isinstance(data, Path) and begin < end else data
            for offset in range(begin, end, BLOCK_BYTES):
                length = min(BLOCK_BYTES, end - offset)
                if isinstance(source, bytes):
                    yield source[offset : offset + length]
                elif isinstance(source, int):
                    yield await on_disk(_read, source, length, offset)
        start += size


@contextmanager
def _open(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int, length: int, offset: int) -> bytes:
    block = os.pread(descriptor, length, offset)
    if len(block) < length:
        raise OSError("A stored file ended while it was being sent.")
    return block


async def _send_blocks(receive: Receive, send: Send, blocks: AsyncIterator[bytes]) -> None:
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        async for block in blocks:
            if gone.done():
                raise ClientGone
            async with asyncio.timeout(STALLED_SECONDS):
                await send({"type": "http.response.body", "body": block, "more_body": True})
    except TimeoutError:
        raise ClientGone from None
    finally:
        gone.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
