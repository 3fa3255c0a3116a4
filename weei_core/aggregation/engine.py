"""Merge a round's updates into the next checkpoint, exactly and block by block.

The same updates give the same bits whoever sent them and in whatever order they came: sums run in float64 and in
slot order, and every result is rounded to float32 once. Memory depends on neither size nor number of the updates.
Blocks are independent of each other, so some are made at once, each by one thread: while it reads and while merge.wasm
works, Python's lock is free.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from weei_core.aggregation.kernel import FLOATS, UPDATES, Float32Vector, Kernel
from weei_core.aggregation.method import Method
from weei_core.aggregation.registry import AggregationSettings, method_named
from weei_core.errors import Invalid, WeeiError
from weei_core.strict_json import EXACT_INT, as_int
from weei_core.weights import FLOAT_BYTES, FileSource, Source, blocks, first_non_finite

BLOCK_FLOATS = FLOATS
MOST_THREADS = 4

MAX_STEP = 10_000_000
"""Bias correction multiplies once per step, so that a checkpoint file must not claim just any number of them."""


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
        made = _Merger(start, counted, state, step, method, _float_ranges(average_only)).blocks()
        with closing(made):
            return _write(made, start.size, rule.state_vectors, step, weights_out, state_out)
    except BaseException:
        for output in outputs:
            output.seek(0)
            output.truncate()
        raise


def _write(
    made: Iterator[Block], size: int, vectors: int, step: int, weights_out: BinaryIO, state_out: BinaryIO | None
) -> MergeResult:
    """The vectors of the state stand one behind the other but are made side by side, so all but the first are hashed
    when they are whole. Then the weights are too, beside them: until then the blocks need the processor more."""
    digest, state_digest = hashlib.sha256(), hashlib.sha256()
    for offset, (weights, *state) in made:
        weights_out.write(weights.data)
        for vector, values in enumerate(state):
            assert state_out is not None
            state_out.seek(vector * size + offset * FLOAT_BYTES)
            state_out.write(values.data)
        if vectors < 2:
            digest.update(weights.data)
        if state:
            state_digest.update(state[0].data)
    if state_out is None or not vectors:
        return MergeResult(digest.hexdigest(), None, 0)
    if vectors > 1:
        with ThreadPoolExecutor(1) as beside:
            hashed = beside.submit(_update, digest, FileSource(weights_out, 0, size))
            _update(state_digest, FileSource(state_out, size, size * (vectors - 1)))
            hashed.result()
    return MergeResult(digest.hexdigest(), state_digest.hexdigest(), step)


def _update(digest: hashlib._Hash, source: Source) -> None:
    for block in blocks(source):
        digest.update(block)


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


Block = tuple[int, list[Float32Vector]]
"""Position of its first float; the weights, then the state's vectors."""


class _Task:
    """A block that a thread of the pool makes, unless somebody who would have to wait takes it first."""

    def __init__(self, make: Callable[[], Block], pool: ThreadPoolExecutor) -> None:
        self._make = make
        self._future: Future[Block] = pool.submit(make)

    @property
    def done(self) -> bool:
        return self._future.done()

    def take(self) -> bool:
        """Make it here and now, if nobody has begun. An error waits for its turn, so that the first block's counts."""
        if not self._future.cancel():
            return False
        self._future = Future()
        try:
            self._future.set_result(self._make())
        except Exception as error:
            self._future.set_exception(error)
        return True

    def result(self) -> Block:
        return self._future.result()


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
            kernel = self._kernel()
            for offset in offsets:
                yield self._block(offset, kernel)
            return
        # This thread hashes and writes the blocks, and makes some itself before it waits: one thread more than there
        # are processors would cost more in changes between them than it brings.
        free = [self._kernel() for _ in range(threads + 2)]
        tasks: deque[tuple[_Task, Kernel]] = deque()
        left = deque(offsets)
        with ThreadPoolExecutor(threads - 1) as pool:
            while left or tasks:
                while left and free:
                    kernel = free.pop()
                    tasks.append((_Task(partial(self._block, left.popleft(), kernel), pool), kernel))
                oldest, kernel = tasks[0]
                while not oldest.done and any(task.take() for task, _ in tasks if not task.done):
                    pass
                yield oldest.result()
                tasks.popleft()
                free.append(kernel)

    def _kernel(self) -> Kernel:
        return Kernel(self._rule.id, self._total, self._rule.constants(self._method.options, self._step))

    def _block(self, offset: int, kernel: Kernel) -> Block:
        count = min(BLOCK_FLOATS, self._start.size // FLOAT_BYTES - offset)
        vectors = [kernel.weights[:count], *kernel.state[: self._rule.state_vectors, :count]]
        kernel.begin(count)
        weights = self._read_updates(offset, count, kernel)
        if self._rule.state_vectors:
            _read(self._start, offset, kernel.start[:count])
            self._read_state(offset, vectors[1:])
        finite = kernel.step(weights)
        for first, end in self._ranges_within(offset, count):
            kernel.average_only(first, end)
        if not finite:
            for values in vectors:
                self._check_finite(values, offset)
        return offset, vectors

    def _read_updates(self, offset: int, count: int, kernel: Kernel) -> list[float]:
        """Into the kernel. All but the last ones are summed up already; the weights of those."""
        weights: list[float] = []
        for update in self._updates:
            if len(weights) == UPDATES:
                kernel.accumulate(weights)
                weights.clear()
            _read(update.source, offset, kernel.updates[len(weights), :count])
            weights.append(float(update.weight))
        return weights

    def _read_state(self, offset: int, vectors: Sequence[Float32Vector]) -> None:
        vector_floats = self._start.size // FLOAT_BYTES
        for index, values in enumerate(vectors):
            if self._state is None:
                values[:] = 0.0
            else:
                _read(self._state, index * vector_floats + offset, values)

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


def _read(source: Source, float_offset: int, into: Float32Vector) -> None:
    source.readinto(float_offset * FLOAT_BYTES, into.data.cast("B"))
