"""The host of merge.wasm, which makes one block of a merge: a method's arithmetic, and the memory it works in.

The module is our own and imports nothing, so it runs without the limits that a model's host sets.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import wasmtime
from numpy.typing import NDArray

from weei_core.weights import FLOAT32

FLOATS = 64 * 1024
"""The longest block; the arrays of merge.c. Longer ones leave the processor's cache, shorter ones keep threads waiting
for Python's lock between the calls."""
UPDATES = 16
"""How many updates' blocks it has room for at once."""
STATE_VECTORS = 2
ROW = FLOATS + 16
LANES = 8
"""Blocks are stepped in whole vectors."""

Float32Vector = NDArray[np.float32]


class _Call(ctypes.Structure):
    """`call` of merge.c, little-endian as WebAssembly is."""

    _fields_ = (
        ("floats", ctypes.c_uint32),
        ("updates", ctypes.c_uint32),
        ("continued", ctypes.c_uint32),
        ("first", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("non_finite", ctypes.c_uint32),
        ("total", ctypes.c_double),
        ("weights", ctypes.c_double * UPDATES),
        ("constants", ctypes.c_double * 8),
    )


@cache
def _compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Once per process: it takes some milliseconds."""
    engine = wasmtime.Engine()
    return engine, wasmtime.Module(engine, Path(__file__).with_name("merge.wasm").read_bytes())


class Kernel:
    """One block at a time, by one thread at a time. The arrays are its memory: valid while it lives.

    `updates` are float32 arrays of FLOATS to fill before `accumulate` and `step`; `start` and `state` before `step`,
    which leaves its results, rounded, in `weights` and `state`.
    """

    def __init__(self, method: str, total: float, constants: Sequence[float]) -> None:
        engine, module = _compiled()
        self._store = wasmtime.Store(engine)
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        # It never grows, so that its place is the same as long as the store lives.
        self._base = ctypes.cast(memory.data_ptr(self._store), ctypes.c_void_p).value or 0
        self._step = self._function(method)
        self._accumulate = self._function("accumulate")
        self._average_only = self._function("average_only")
        self.updates = self._floats("updates", UPDATES)
        (self.start,) = self._floats("start", 1)
        self.state = self._floats("state", STATE_VECTORS)
        (self.weights,) = self._floats("weights", 1)
        self._call = _Call.from_address(self._address("call"))
        self._call.total = total
        self._call.constants[: len(constants)] = constants

    def _function(self, name: str) -> wasmtime.Func:
        function = self._exports[name]
        assert isinstance(function, wasmtime.Func)
        return function

    def _address(self, name: str) -> int:
        address: int = self._base + self._function(name)(self._store)
        return address

    def _floats(self, name: str, vectors: int) -> Float32Vector:
        memory = memoryview((ctypes.c_float * (ROW * vectors)).from_address(self._address(name)))
        return np.frombuffer(memory, FLOAT32).reshape(vectors, ROW)

    def begin(self, count: int) -> None:
        """A new block of so many floats."""
        self._call.floats = -(-count // LANES) * LANES
        self._call.continued = False

    def accumulate(self, weights: Sequence[float]) -> None:
        """Add the first of `updates`, with these weights, to the sum that `step` goes on with."""
        self._weigh(weights)
        self._accumulate(self._store)
        self._call.continued = True

    def step(self, weights: Sequence[float]) -> bool:
        """With the last updates. Whether all results are finite; if not, it may be one behind the block."""
        self._weigh(weights)
        self._step(self._store)
        return not self._call.non_finite

    def average_only(self, first: int, end: int) -> None:
        """After `step`: let these floats be the average, and their state 0."""
        self._call.first, self._call.end = first, end
        self._average_only(self._store)

    def _weigh(self, weights: Sequence[float]) -> None:
        self._call.updates = len(weights)
        self._call.weights[: len(weights)] = weights
