"""A module's linear memory, seen from outside: every range is checked, nothing is copied that need not be.

Standard library and wasmtime only. wasmtime's own `Memory.read` clamps ranges without a word; it is not used.
"""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass

import wasmtime

from weei_core.abi.codes import refusal

UNSIGNED = 0xFFFFFFFF
_FLOAT_BYTES = 4
_IO_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class FileSlice:
    """`bytes` bytes of an open file from `offset`. Read by position, so that one descriptor serves many runs."""

    fd: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Region:
    """A range of a module's memory that was inside it when it was named. Valid until the module's next call."""

    pointer: int
    bytes: int


class GuestMemory:
    """Views last only as long as the statement they are taken for: a call may move the memory (C55)."""

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = memory

    def check(self, pointer: int, size: int, operation: str, what: str) -> Region:
        """`pointer` and `size` are taken as unsigned 32-bit; their sum does not wrap."""
        pointer, size, end = pointer & UNSIGNED, size & UNSIGNED, self._memory.data_len(self._store)
        if pointer + size > end:
            raise refusal(
                "out_of_bounds",
                f"{operation}: {what} is {size} bytes at address {pointer}; the memory has {end} bytes.",
                operation=operation,
            )
        return Region(pointer, size)

    def _view(self, region: Region) -> memoryview:
        base = ctypes.cast(self._memory.data_ptr(self._store), ctypes.c_void_p).value or 0
        return memoryview((ctypes.c_ubyte * region.bytes).from_address(base + region.pointer)).cast("B")

    def read(self, region: Region) -> bytes:
        return bytes(self._view(region))

    def write(self, region: Region, source: bytes | FileSlice) -> None:
        """Fill `region`. A file goes straight into the memory; one that ends early is an OSError."""
        view = self._view(region)
        if isinstance(source, bytes):
            view[:] = source
            return
        done = 0
        while done < region.bytes:
            got = os.preadv(source.fd, [view[done : done + _IO_BYTES]], source.offset + done)
            if not got:
                raise OSError(f"a file ended at byte {source.offset + done}; {region.bytes} bytes were expected")
            done += got

    def save(self, region: Region, fd: int) -> None:
        """Write `region` to the start of an open file, straight from the memory."""
        view, done = self._view(region), 0
        while done < region.bytes:
            done += os.pwrite(fd, view[done : done + _IO_BYTES], done)

    def is_finite(self, region: Region) -> bool:
        """Whether every float32 of `region` is finite. Their float64 sum cannot overflow, so it says the same."""
        return math.isfinite(sum(self._view(region).cast("f")))


def source_bytes(source: bytes | FileSlice) -> int:
    return len(source) if isinstance(source, bytes) else source.bytes


def check_weights_size(size: int, operation: str, expected: int | None = None) -> None:
    """Weights are a positive whole number of float32 values, and of the size already loaded."""
    if size == 0 or size % _FLOAT_BYTES:
        message = f"{operation} returned {size} bytes of weights; float32 values need a positive multiple of 4."
        raise refusal("wrong_size", message, operation=operation, field="weights")
    if expected is not None and size != expected:
        message = f"{operation} returned {size} bytes of weights; {expected} bytes were loaded."
        raise refusal("wrong_size", message, operation=operation, field="weights")
