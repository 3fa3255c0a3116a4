"""Weights as bytes: little-endian float32, read in blocks so that memory does not grow with their size."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from weei_core.errors import Invalid

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FLOAT_BYTES = 4
FLOAT32 = np.dtype("<f4")
BLOCK_BYTES = 256 * 1024


class Source(Protocol):
    """Bytes that can be read at any offset. Reading is independent of what other readers of the same bytes do."""

    @property
    def size(self) -> int: ...

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill all of `buffer` from `offset` on, or raise `Invalid`."""


class BytesSource:
    def __init__(self, data: ReadableBuffer) -> None:
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def readinto(self, offset: int, buffer: memoryview) -> None:
        part = self._data[offset : offset + len(buffer)]
        _check_filled(len(part), offset, len(buffer))
        buffer[:] = part


class FileSource:
    """A part of an open file: by default all of it. The file stays the caller's to close.

    A descriptor is read with `preadv`, which leaves its position alone, so that many sources may share it; a file
    object is sought, and belongs to one source at a time, whose threads take turns. There is no memory map, because a
    file that is cut while it is mapped kills the process.
    """

    def __init__(self, file: int | BinaryIO, offset: int = 0, size: int | None = None) -> None:
        self._file = file
        self._offset = offset
        self._turn = threading.Lock()
        self.size = _file_size(file) - offset if size is None else size

    def readinto(self, offset: int, buffer: memoryview) -> None:
        filled = 0
        while filled < len(buffer):
            count = self._read(self._offset + offset + filled, buffer[filled:])
            if count == 0:
                break
            filled += count
        _check_filled(filled, offset, len(buffer))

    def _read(self, position: int, buffer: memoryview) -> int:
        if isinstance(self._file, int):
            return os.preadv(self._file, [buffer], position)
        with self._turn:
            self._file.seek(position)
            return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]


def _file_size(file: int | BinaryIO) -> int:
    return os.fstat(file).st_size if isinstance(file, int) else file.seek(0, os.SEEK_END)


def _check_filled(filled: int, offset: int, wanted: int) -> None:
    if filled < wanted:
        raise Invalid(
            f"The data must reach byte {offset + wanted}; it ends at byte {offset + filled}.", code="truncated"
        )


def blocks(source: Source) -> Iterator[memoryview]:
    """The bytes of `source` in order. Every block is the same memory: use it before asking for the next."""
    buffer = memoryview(bytearray(min(BLOCK_BYTES, source.size)))
    for offset in range(0, source.size, BLOCK_BYTES):
        block = buffer[: min(BLOCK_BYTES, source.size - offset)]
        source.readinto(offset, block)
        yield block


def first_non_finite(buffer: ReadableBuffer) -> int | None:
    """The index of the first float that is NaN or infinite. -0.0 and denormals are finite."""
    data = memoryview(buffer).cast("B")
    if len(data) % FLOAT_BYTES:
        raise Invalid(f"Weights must be whole float32 values of 4 bytes; found {len(data)} bytes.", code="not_float32")
    floats = np.frombuffer(data, FLOAT32)
    step = BLOCK_BYTES // FLOAT_BYTES
    for start in range(0, len(floats), step):
        finite = np.isfinite(floats[start : start + step])
        if not finite.all():
            return start + int(finite.argmin())
    return None


def sha256_of(source: Source) -> str:
    """SHA-256 in lower-case hex."""
    digest = hashlib.sha256()
    for block in blocks(source):
        digest.update(block)
    return digest.hexdigest()


def sha256_of_finite(source: Source, field: str) -> str:
    """Check every value and hash the bytes in one pass; `field` names the weights in the error ("non_finite")."""
    digest = hashlib.sha256()
    position = 0
    for block in blocks(source):
        found = first_non_finite(block)
        if found is not None:
            value = np.frombuffer(block, FLOAT32)[found]
            raise Invalid(
                f"{field} must hold finite numbers only; found {value} at position {position + found}.",
                field=field,
                code="non_finite",
            )
        digest.update(block)
        position += len(block) // FLOAT_BYTES
    return digest.hexdigest()


def check_finite_file(file: int | BinaryIO, field: str = "weights") -> None:
    """Raise `Invalid` ("non_finite", "not_float32") unless the whole open file is finite float32 values."""
    sha256_of_finite(FileSource(file), field)
