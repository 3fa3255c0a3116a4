"""Merge a round's updates into the next checkpoint, exactly and block by block.

The same updates give the same bits whoever sent them and in whatever order they came: sums run in float64 and in
slot order, and every result is rounded to float32 once. Memory depends on neither size nor number of the updates.
Blocks are independent of each other, so some are made at once, each by one thread: NumPy lets go of Python's lock.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from weei_core.aggregation.method import Method, Vector
from weei_core.aggregation.registry import AggregationSettings, method_named
from weei_core.errors import Invalid, WeeiError
from weei_core.strict_json import EXACT_INT, as_int
from weei_core.weights import FLOAT32, FLOAT_BYTES, FileSource, Source, blocks, first_non_finite

BLOCK_FLOATS = 64 * 1024
"""Larger ones leave the processor's cache, smaller ones make threads wait for each other at every operation."""
MOST_THREADS = 4

MAX_STEP = 10_000_000
"""Bias correction multiplies once per step, so that a checkpoint file must not claim just any number of them."""

Float32Vector = NDArray[np.float32]


class NonFiniteStep(WeeiError):
    """The round cannot be merged with these settings: a weight or the method's state would not be finite."""

    status = 422
    default_code = "non_finite_step"


@dataclass(frozen=True)
class WeightedSource:
    """An accepted update. `order` is its slot's place: (position in the pass, recordStart), or (unitStart,)."""

    source: Source
    weight: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class MergeResult:
    """`step` counts the rounds merged with the written state; without a state it is 0."""

    weights_sha256: str
    state_sha256: str | None
    step: int


def merge(
    *,
    start: Source,
    updates: Sequence[WeightedSource],
    state: Source | None,
    step: int,
    method: AggregationSettings,
    average_only: Sequence[tuple[int, int]] = (),
    weights_out: BinaryIO,
    state_out: BinaryIO | None = None,
) -> MergeResult:
    """Write the next weights and the method's next state to empty files that can be read and sought.

    `state` is the state saved with the start's checkpoint, or None to start from zero; `step` is 1 with None, else one
    more than was saved with it. `average_only` are (offset, bytes) ranges of the weights. `state_out` is needed by
    methods that keep state. On any error both files are left empty; errors are `Invalid` ("no_weight", "wrong_size")
    and `NonFiniteStep`.
    """
    rule = method_named(method.method)
    counted = _in_slot_order(updates)
    _check_sizes(start, counted, state, rule)
    if rule.state_vectors and (state_out is None or step < 1 or (state is None and step != 1)):
        raise ValueError(f"{rule.id} needs a file for its state, and step 1 exactly when it has none yet")
    if step > MAX_STEP:
        raise Invalid(f"aggregation step must be at most {MAX_STEP}; found {step}.", field="step")
    outputs = [weights_out] if state_out is None else [weights_out, state_out]
    try:
        merger = _Merger(start, counted, state, step, method, _float_ranges(average_only))
        digest, state_digest = hashlib.sha256(), hashlib.sha256()
        with closing(merger.blocks()) as made:
            for offset, (weights, *new_state) in made:
                digest.update(weights.data)
                weights_out.write(weights.data)
                for vector, values in enumerate(new_state):
                    assert state_out is not None
                    state_out.seek(vector * start.size + offset * FLOAT_BYTES)
                    state_out.write(values.data)
                if new_state:
                    state_digest.update(new_state[0].data)
    except BaseException:
        for output in outputs:
            output.seek(0)
            output.truncate()
        raise
    if state_out is None or not rule.state_vectors:
        return MergeResult(digest.hexdigest(), None, 0)
    # The vectors stand one behind the other but are made side by side, so all but the first are read again.
    for block in blocks(FileSource(state_out, start.size, start.size * (rule.state_vectors - 1))):
        state_digest.update(block)
    return MergeResult(digest.hexdigest(), state_digest.hexdigest(), step)


def _in_slot_order(updates: Sequence[WeightedSource]) -> list[WeightedSource]:
    for update in updates:
        as_int(update.weight, "weight of an update", 0, EXACT_INT)
    counted = sorted((update for update in updates if update.weight), key=lambda update: update.order)
    if len({update.order for update in counted}) < len(counted):
        raise ValueError("two updates stand for the same slot")
    if not counted:
        raise Invalid(
            f"A round needs an update with a weight above 0 to be merged; found none in {len(updates)} updates.",
            code="no_weight",
        )
    return counted


def _check_sizes(start: Source, updates: Sequence[WeightedSource], state: Source | None, rule: Method) -> None:
    expected = [("An update", update.source, start.size) for update in updates]
    if state is not None:
        expected.append((f"The state of {rule.id}", state, start.size * rule.state_vectors))
    for name, source, size in expected:
        if source.size != size:
            raise Invalid(f"{name} must be {size} bytes; found {source.size}.", code="wrong_size")


def _float_ranges(average_only: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges as (first, end) positions in floats, ascending."""
    return sorted((offset // FLOAT_BYTES, (offset + size) // FLOAT_BYTES) for offset, size in average_only)


class _Buffers:
    """What one block is made in. Fresh arrays of this size cost more in page faults than the arithmetic on them."""

    def __init__(self, state_vectors: int) -> None:
        self.floats = np.empty(BLOCK_FLOATS, FLOAT32)
        self.start, self.sum, self.term = np.empty((3, BLOCK_FLOATS))
        self.state = np.empty((state_vectors, BLOCK_FLOATS))
        self.rounded = np.empty((1 + state_vectors, BLOCK_FLOATS), FLOAT32)


Block = tuple[int, list[Float32Vector]]
"""Position of its first float; the weights, then the state's vectors."""


class _Merger:
    """The loop over blocks."""

    def __init__(
        self,
        start: Source,
        updates: Sequence[WeightedSource],
        state: Source | None,
        step: int,
        method: AggregationSettings,
        average_only: list[tuple[int, int]],
    ) -> None:
        self._start = start
        self._updates = updates
        self._state = state
        self._step = step
        self._method = method
        self._rule = method_named(method.method)
        self._average_only = average_only
        self._range_ends = [end for _, end in average_only]
        self._total = 0.0
        for update in updates:
            self._total += float(update.weight)

    def blocks(self) -> Generator[Block, None, None]:
        """The blocks in order, all finite. Use a block's arrays before asking for the next: they are made anew."""
        offsets = range(0, self._start.size // FLOAT_BYTES, BLOCK_FLOATS)
        threads = min(MOST_THREADS, os.cpu_count() or 1, len(offsets))
        if threads < 2:
            buffers = _Buffers(self._rule.state_vectors)
            for offset in offsets:
                yield self._block(offset, buffers)
            return
        # One more than there are threads: all of them work while the oldest block is hashed and written.
        free = [_Buffers(self._rule.state_vectors) for _ in range(threads + 1)]
        made: deque[tuple[Future[Block], _Buffers]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for offset in offsets:
                buffers = free.pop()
                made.append((pool.submit(self._block, offset, buffers), buffers))
                if not free:
                    oldest, buffers = made.popleft()
                    yield oldest.result()
                    free.append(buffers)
            for oldest, _ in made:
                yield oldest.result()

    def _block(self, offset: int, buffers: _Buffers) -> Block:
        count = min(BLOCK_FLOATS, self._start.size // FLOAT_BYTES - offset)
        # What overflows or is undefined is found by the check behind it, without a warning per value.
        with np.errstate(all="ignore"):
            vectors = self._stepped(offset, count, buffers)
        for values in vectors:
            self._check_finite(values, offset)
        return offset, vectors

    def _stepped(self, offset: int, count: int, buffers: _Buffers) -> list[Float32Vector]:
        average = self._average(offset, count, buffers)
        start = buffers.start[:count]
        if self._rule.uses_start:
            start[:] = self._read(self._start, offset, count, buffers)
        old_state = self._old_state(offset, count, buffers)
        scratch = buffers.term[:count]
        weights, state = self._rule.step(start, average, old_state, self._step, self._method.options, scratch)
        rounded = buffers.rounded[:, :count]
        for first, end in self._ranges_within(offset, count):
            weights[first:end] = rounded[0, first:end]  # still the average
            for values in state:
                values[first:end] = 0.0
        for vector, values in zip(rounded, (weights, *state), strict=True):
            vector[:] = values
        return list(rounded)

    def _average(self, offset: int, count: int, buffers: _Buffers) -> Vector:
        """float32(Σnw / Σn), the sum in slot order, as float64; and as float32 in the first of `buffers.rounded`."""
        total, term = buffers.sum[:count], buffers.term[:count]
        for position, update in enumerate(self._updates):
            into = term if position else total
            into[:] = self._read(update.source, offset, count, buffers)
            into *= float(update.weight)
            if position:
                total += term
        total /= self._total
        rounded = buffers.rounded[0, :count]
        rounded[:] = total
        total[:] = rounded
        return total

    def _read(self, source: Source, float_offset: int, count: int, buffers: _Buffers) -> Float32Vector:
        floats = buffers.floats[:count]
        source.readinto(float_offset * FLOAT_BYTES, floats.data.cast("B"))
        return floats

    def _old_state(self, offset: int, count: int, buffers: _Buffers) -> tuple[Vector, ...]:
        vectors, vector_floats = buffers.state[:, :count], self._start.size // FLOAT_BYTES
        for index, values in enumerate(vectors):
            if self._state is None:
                values[:] = 0.0
            else:
                values[:] = self._read(self._state, index * vector_floats + offset, count, buffers)
        return tuple(vectors)

    def _ranges_within(self, offset: int, count: int) -> Iterator[tuple[int, int]]:
        for first, end in self._average_only[bisect_right(self._range_ends, offset) :]:
            if first >= offset + count:
                return
            yield max(first - offset, 0), min(end - offset, count)

    def _check_finite(self, values: Float32Vector, offset: int) -> None:
        found = first_non_finite(values.data)
        if found is not None:
            advice = "lower serverLearningRate and retry" if self._rule.options else "check its updates"
            raise NonFiniteStep(
                f"Step {self._step} of {self._rule.id} must give finite values; found {values[found]} for weight "
                f"{offset + found}: {advice}."
            )
