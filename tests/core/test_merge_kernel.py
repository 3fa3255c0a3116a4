"""merge.wasm does what the formulas say, for any number of updates and any length. They are written down here with
NumPy, which rounds every operation once as well; the golden files of test_aggregation.py come from Python's floats.
"""

import ctypes
import io
import time

import numpy as np
import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from weei_core.aggregation import NonFiniteStep, WeightedSource, engine, kernel, merge, parse_aggregation
from weei_core.weights import BytesSource

METHODS = {
    "fedavg": {},
    "fedavgm": {"serverLearningRate": 0.3, "momentum": 0.7},
    "fedadam": {"serverLearningRate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8},
}
VECTORS = {"fedavg": 0, "fedavgm": 1, "fedadam": 2}


def reference(method, o, start, updates, state, step, ranges):
    """(weights, state vectors), float32; `updates` are (weight, float32 array), `ranges` (first, end) floats."""
    total = updates[0][1].astype("f8") * updates[0][0]
    for weight, values in updates[1:]:
        total += values.astype("f8") * weight
    average = (total / sum(float(weight) for weight, _ in updates)).astype("f4").astype("f8")
    start, state = start.astype("f8"), [vector.astype("f8") for vector in state]
    change = average - start
    if method == "fedavg":
        weights, after = average, []
    elif method == "fedavgm":
        after = [o["momentum"] * state[0] + change]
        weights = start + o["serverLearningRate"] * after[0]
    else:
        p1, p2 = np.prod([o["beta1"]] * step), np.prod([o["beta2"]] * step)
        after = [
            o["beta1"] * state[0] + (1 - o["beta1"]) * change,
            o["beta2"] * state[1] + (1 - o["beta2"]) * (change * change),
        ]
        weights = start + (o["serverLearningRate"] * (after[0] / (1 - p1))) / (
            np.sqrt(after[1] / (1 - p2)) + o["epsilon"]
        )
    for first, end in ranges:
        weights[first:end] = average[first:end]
        for vector in after:
            vector[first:end] = 0
    return weights.astype("f4"), [vector.astype("f4") for vector in after]


def merged(method, options, start, updates, state, step, ranges):
    weights, after = io.BytesIO(), io.BytesIO()
    merge(
        start=BytesSource(start.tobytes()),
        updates=[WeightedSource(BytesSource(v.tobytes()), w, (place,)) for place, (w, v) in enumerate(updates)],
        state=BytesSource(np.concatenate(state).tobytes()) if state else None,
        step=step,
        method=parse_aggregation({"method": method, **options}),
        average_only=[(4 * first, 4 * (end - first)) for first, end in ranges],
        weights_out=weights,
        state_out=after if VECTORS[method] else None,
    )
    return weights.getvalue(), after.getvalue()


@pytest.mark.parametrize("method", METHODS)
@given(
    seed=st.integers(0, 2**32 - 1),
    floats=st.integers(1, 300),
    updates=st.sampled_from([1, 2, 5, 15, 16, 17, 31, 32, 33, 50]),
    step=st.integers(2, 400),
    block=st.sampled_from([1, 7, 8, 64, 100, kernel.FLOATS]),
    ranges=st.sampled_from([[], [(0, 1)], [(3, 9), (9, 10), (60, 130)], [(0, 300)]]),
)
@settings(max_examples=60)
def test_any_number_of_updates_of_any_length_is_merged_as_the_formulas_say(
    method, seed, floats, updates, step, block, ranges
):
    draw = np.random.default_rng(seed)

    def values(scale=1.0):
        return (draw.standard_normal(floats) * scale * 10.0 ** draw.integers(-6, 6, floats)).astype("f4")

    start = values()
    received = [(int(draw.choice([1, 3, 128, 9973, 2**31 + 1])), values()) for _ in range(updates)]
    state = [values(), np.abs(values())][: VECTORS[method]]
    if not state:
        step = 1
    ranges = [(first, min(end, floats)) for first, end in ranges if first < floats]
    weights, after = reference(method, METHODS[method], start, received, state, step, ranges)
    usual = engine.BLOCK_FLOATS
    engine.BLOCK_FLOATS = block
    try:
        found = merged(method, METHODS[method], start, received, state, step, ranges)
    finally:
        engine.BLOCK_FLOATS = usual
    assert found == (weights.tobytes(), b"".join(vector.tobytes() for vector in after))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_blocks_that_several_threads_make_lie_where_they_belong(threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: threads)
    draw = np.random.default_rng(7)
    start = draw.standard_normal(5 * kernel.FLOATS + 3).astype("f4")
    received = [(100 + place, draw.standard_normal(start.size).astype("f4")) for place in range(3)]
    state = [np.zeros(start.size, "f4"), np.ones(start.size, "f4")]
    weights, after = reference("fedadam", METHODS["fedadam"], start, received, state, 2, [])
    found = merged("fedadam", METHODS["fedadam"], start, received, state, 2, [])
    assert found == (weights.tobytes(), np.concatenate(after).tobytes())


class Slow(BytesSource):
    """Its beginning takes longer than all the rest."""

    def readinto(self, offset, buffer):
        if offset == 0:
            time.sleep(0.2)
        super().readinto(offset, buffer)


def test_of_several_failures_the_first_weights_is_told_whoever_finds_one_first(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    values = np.zeros(4 * kernel.FLOATS, "f4")
    values[[5, kernel.FLOATS + 1, 3 * kernel.FLOATS]] = np.inf
    with pytest.raises(NonFiniteStep, match="inf for weight 5:"):
        merge(
            start=BytesSource(values.tobytes()),
            updates=[WeightedSource(Slow(values.tobytes()), 1, (0,))],
            state=None,
            step=1,
            method=parse_aggregation(None),
            weights_out=io.BytesIO(),
        )


def test_what_lies_behind_a_short_block_is_nobodys_failure():
    """It is 0 by 0 there, since blocks are stepped in whole vectors."""
    one = np.ones(1, "f4")
    weights, _ = merged("fedadam", {"epsilon": 0}, np.zeros(1, "f4"), [(1, one)], [], 1, [])
    assert np.frombuffer(weights, "f4") == pytest.approx(0.01)


def test_the_module_asks_for_nothing_and_has_the_layout_that_its_host_expects():
    engine_, module = kernel._compiled()
    assert module.imports == []
    store = wasmtime.Store(engine_)
    exports = wasmtime.Instance(store, module, []).exports(store)
    assert set(METHODS) | {"accumulate", "average_only"} <= {export.name for export in module.exports}
    layout = {name: exports[name](store) for name in ("row_floats", "update_rows", "call_bytes")}
    assert layout == {
        "row_floats": kernel.ROW,
        "update_rows": kernel.UPDATES,
        "call_bytes": ctypes.sizeof(kernel._Call),
    }
