"""C01 to C21 where they are about arithmetic; `w0`, A and B are the shared data of those cases."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import struct
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.aggregation import (
    MAX_STEP,
    METHODS,
    NonFiniteStep,
    WeightedSource,
    average_metrics,
    engine,
    merge,
    method_named,
    parse_aggregation,
)
from weei_core.errors import Invalid
from weei_core.weights import BytesSource, FileSource

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "aggregation.json").read_text())

W0 = [1, -2, 0.5, 0]
A = (1, [2, -3, 0.5, 0.25])
B = (3, [1.5, -1, 0.5, -0.25])
CHANGE_2 = [0.125, 0.25, 0, 0]
FEDADAM = {"method": "fedadam", "serverLearningRate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 0.001}


def pack(floats: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(floats)}f", *floats)


def unpack(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class Run:
    """A job's merges, one after the other, with the state carried along as checkpoints carry it."""

    def __init__(self, start: bytes | Sequence[float]) -> None:
        self.weights = start if isinstance(start, bytes) else pack(start)
        self.state = b""
        self.step = 0

    def merge(
        self,
        settings: Any,
        *updates: Any,
        average_only: Sequence[tuple[int, int]] = (),
        out: tuple[io.BytesIO, io.BytesIO] | None = None,
    ) -> Run:
        settings = parse_aggregation(settings)
        outputs = out or (io.BytesIO(), io.BytesIO())
        sources = [
            WeightedSource(BytesSource(data if isinstance(data, bytes) else pack(data)), weight, (place,))
            for place, (weight, data) in enumerate(updates)
        ]
        result = merge(
            start=BytesSource(self.weights),
            updates=sources,
            state=BytesSource(self.state) if self.state else None,
            step=self.step + 1,
            method=settings,
            average_only=average_only,
            weights_out=outputs[0],
            state_out=outputs[1] if method_named(settings.method).state_vectors else None,
        )
        self.weights, self.state = outputs[0].getvalue(), outputs[1].getvalue()
        self.step = result.step
        assert result.weights_sha256 == hashlib.sha256(self.weights).hexdigest()
        assert result.state_sha256 == (hashlib.sha256(self.state).hexdigest() if self.state else None)
        return self

    def change(self, settings: Any, change: Sequence[float]) -> Run:
        """Merge one update that is the current weights plus `change`."""
        return self.merge(settings, (1, [w + c for w, c in zip(unpack(self.weights), change, strict=True)]))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 3, 5, 64 * 1024])
@pytest.mark.parametrize("vector", GOLDEN, ids=lambda v: v["method"] + ("-averageOnly" if v["averageOnly"] else ""))
def test_gives_the_golden_bits_whatever_the_block_size(vector, block, threads, monkeypatch):
    """The golden file was made one element at a time with Python's floats. Ranges start and end inside blocks."""
    monkeypatch.setattr(engine, "BLOCK_FLOATS", block)
    monkeypatch.setattr(engine, "MOST_THREADS", threads)
    monkeypatch.setattr("os.cpu_count", lambda: threads)
    run = Run(bytes.fromhex(vector["start"]))
    for expected in vector["rounds"]:
        updates = [(update["weight"], bytes.fromhex(update["weights"])) for update in expected["updates"]]
        run.merge({"method": vector["method"], **vector["options"]}, *updates, average_only=vector["averageOnly"])
        assert run.weights.hex() == expected["weights"]
        assert run.state.hex() == expected["state"]
        assert run.step == (expected["step"] if run.state else 0)


def test_fedavg_is_the_weighted_mean_in_any_order():
    """C01."""
    for updates in ((A, B), (B, A)):
        run = Run(W0).merge({"method": "fedavg"}, *updates)
        assert run.weights.hex() == "0000d03f0000c0bf0000003f000000be"
        assert (
            hashlib.sha256(run.weights).hexdigest()
            == "4a838096569b0541e943476d0bec85dac5a1e2fa7d00c4cdb7d2165d53cf678b"
        )


@given(st.permutations(range(6)), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_change_a_bit(arrival, random):
    """Fact 7, I6: sums run in slot order, so that float64 rounding is the same too."""
    slots = [
        WeightedSource(
            BytesSource(pack([random.uniform(-1e15, 1e15) for _ in range(8)])), 1 + random.randrange(999), place
        )
        for place in [(0, 0), (0, 64), (1, 0), (2, 0), (10, 0), (10, 5)]
    ]
    results = [
        merge(
            start=BytesSource(bytes(32)),
            updates=updates,
            state=None,
            step=1,
            method=parse_aggregation(FEDADAM),
            weights_out=io.BytesIO(),
            state_out=io.BytesIO(),
        )
        for updates in (slots, [slots[i] for i in arrival])
    ]
    assert results[0] == results[1]


def test_two_updates_for_one_slot_are_a_mistake_of_the_caller():
    updates = [WeightedSource(BytesSource(bytes(4)), 1, (7,))] * 2
    with pytest.raises(ValueError, match="same slot"):
        merge(
            start=BytesSource(bytes(4)),
            updates=updates,
            state=None,
            step=1,
            method=parse_aggregation(None),
            weights_out=io.BytesIO(),
        )


def test_fedavgm_is_plain_momentum():
    """C02: neither damped nor Nesterov."""
    settings = {"method": "fedavgm", "serverLearningRate": 1, "momentum": 0.5}
    run = Run(W0).merge(settings, A, B)
    assert unpack(run.weights) == [1.625, -1.5, 0.5, -0.125]
    assert run.state.hex() == "0000203f0000003f00000000000000be"
    run.change(settings, CHANGE_2)
    assert run.weights.hex() == "00000440000080bf0000003f000040be"
    assert unpack(run.state) == [0.4375, 0.5, 0, -0.0625]
    settings["momentum"] = 0.9
    run = Run(W0).merge(settings, A, B).change(settings, CHANGE_2)
    assert unpack(run.weights) == pytest.approx([2.3125, -0.8, 0.5, -0.2375], abs=1e-6)
    assert unpack(run.state) == pytest.approx([0.6875, 0.7, 0, -0.1125], abs=1e-6)
    assert run.step == 2


def test_fedadam_steps_by_the_smoothed_change():
    """C04."""
    run = Run(W0).merge(FEDADAM, A, B)
    assert unpack(run.weights) == pytest.approx([1.09984028, -1.90019965, 0.5, -0.0992063507], abs=1e-6)
    assert unpack(run.state)[:4] == pytest.approx([0.0625, 0.05, 0, -0.0125], abs=1e-6)
    assert unpack(run.state)[4:] == pytest.approx([0.00390625, 0.0025, 0, 0.00015625], abs=1e-6)
    run.change(FEDADAM, CHANGE_2)
    assert unpack(run.weights) == pytest.approx([1.18013418, -1.80709076, 0.5, -0.165611193], abs=1e-6)


def test_neutral_options_are_the_identity():
    """C05."""
    run = Run(W0).merge({"method": "fedavgm", "momentum": 0, "serverLearningRate": 1}, A, B)
    assert run.weights.hex() == "0000d03f0000c0bf0000003f000000be"
    assert (len(run.state), run.step) == (16, 1)
    run = Run(W0).merge({"method": "fedavgm", "momentum": 0.9, "serverLearningRate": 0}, A, B)
    assert unpack(run.weights) == W0
    assert unpack(run.state) == [0.625, 0.5, 0, -0.125]


def test_updates_without_a_weight_are_left_out():
    """C06, U9: also when their values would not be finite."""
    with pytest.raises(Invalid, match="needs an update with a weight above 0") as refused:
        Run(W0).merge({"method": "fedavg"}, (0, A[1]), (0, B[1]))
    assert refused.value.code == "no_weight"
    with pytest.raises(Invalid):
        Run(W0).merge({"method": "fedavg"})
    run = Run(W0).merge({"method": "fedavg"}, (0, [math.nan] * 4), (100, A[1]))
    assert unpack(run.weights) == A[1]


@pytest.mark.parametrize("weight", [-1, 128.5, True, math.nan, "3", 2**53 + 1])
def test_refuses_weights_that_are_not_counts(weight):
    """C21 (c)."""
    with pytest.raises(Invalid, match="weight of an update must be a whole number"):
        Run(W0).merge({"method": "fedavg"}, (weight, A[1]))


def test_a_step_that_overflows_leaves_nothing_and_may_be_tried_again():
    """C10, U15: finite in float64, infinite in float32."""
    start, update = bytes.fromhex("e6b1617f"), bytes.fromhex("c2bd707f")
    run = Run(start)
    outputs = io.BytesIO(), io.BytesIO()
    with pytest.raises(
        NonFiniteStep, match=r"Step 1 of fedavgm .* inf for weight 0: lower serverLearningRate"
    ) as failed:
        run.merge({"method": "fedavgm", "serverLearningRate": 10, "momentum": 0.9}, (5, update), out=outputs)
    assert failed.value.code == "non_finite_step"
    assert [output.getvalue() for output in outputs] == [b"", b""]
    assert (run.weights, run.state, run.step) == (start, b"", 0)
    run.merge({"method": "fedavgm", "serverLearningRate": 0.1, "momentum": 0.9}, (5, update))
    assert unpack(run.weights) == pytest.approx([3.02e38], rel=1e-6)


def test_a_late_block_that_fails_empties_the_files(monkeypatch):
    monkeypatch.setattr(engine, "BLOCK_FLOATS", 2)
    outputs = io.BytesIO(), io.BytesIO()
    with pytest.raises(NonFiniteStep, match="weight 5"):
        Run([0] * 6).merge({"method": "fedavgm"}, (1, [1, 2, 3, 4, 5, math.inf]), out=outputs)
    assert [output.getvalue() for output in outputs] == [b"", b""]


def test_state_that_overflows_fails_the_step_as_well():
    """Δ·Δ = 1e50 has no float32, although the weight itself would be fine."""
    with pytest.raises(NonFiniteStep, match="inf"):
        Run([0]).merge({"method": "fedadam"}, (1, [1e25]))


def test_zero_by_zero_fails_and_a_tiny_change_does_not():
    """C11."""
    with pytest.raises(NonFiniteStep, match="nan for weight 2"):
        Run(W0).merge({**FEDADAM, "epsilon": 0}, A, B)
    run = Run([0]).merge({**FEDADAM, "epsilon": 0}, (1, [1e-25]))
    assert unpack(run.weights) == pytest.approx([0.1], abs=1e-6)
    assert unpack(run.state)[1] == 0
    assert unpack(Run(W0).merge(FEDADAM, A, B).weights)[2] == 0.5


def test_average_only_ranges_are_averaged_and_keep_no_state():
    """A 0/0 inside such a range is not a failure: nothing is stepped there."""
    run = Run(W0).merge({**FEDADAM, "epsilon": 0}, A, B, average_only=[(8, 8)])
    assert unpack(run.weights)[2:] == [0.5, -0.125]
    assert unpack(run.state)[2:4] == unpack(run.state)[6:] == [0, 0]
    assert unpack(run.state)[0] != 0


def test_state_follows_the_checkpoint():
    """C14: options change and keep it, the method changes and starts from zero, a restored one repeats."""
    run = Run([1]).change({"method": "fedavgm", "momentum": 0.5}, [0.5])
    assert (unpack(run.weights), unpack(run.state)) == ([1.5], [0.5])
    second = {"method": "fedavgm", "momentum": 0.25}
    checkpoint = run.weights, run.state, run.step
    run.change(second, [0.25])
    assert (unpack(run.weights), unpack(run.state), run.step) == ([1.875], [0.375], 2)

    run.state, run.step = b"", 0
    run.change({"method": "fedadam", "serverLearningRate": 0.1, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.001}, [0.5])
    assert unpack(run.weights) == pytest.approx([1.9748003], abs=1e-6)
    assert (unpack(run.state), run.step) == ([0.25, 0.0625], 1)
    run.state, run.step = b"", 0
    run.change(second, [0.125])
    assert unpack(run.weights) == pytest.approx([2.0998003], abs=1e-6)
    assert unpack(run.state) == pytest.approx([0.125], abs=1e-6)

    run.weights, run.state, run.step = checkpoint
    assert unpack(run.change(second, [0.25]).weights) == [1.875]


def test_metrics_are_divided_by_the_weights_of_those_who_reported():
    """C17: 0.675 would be the wrong denominator, 0 for f1 an invented value."""
    reports = [(100, {"loss": 0.8}), (300, {"loss": 0.4, "accuracy": 0.9, "secret": 1.0})]
    assert average_metrics(["loss", "accuracy", "f1"], reports) == {"loss": pytest.approx(0.5), "accuracy": 0.9}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "0.5", True, None, [], {}])
def test_a_metric_that_is_no_finite_number_counts_as_not_reported(value):
    """C07, U10, C76: the update itself stays."""
    assert average_metrics(["loss"], [(1, {"loss": value}), (3, {"loss": 0.5})]) == {"loss": 0.5}
    assert average_metrics(["loss"], [(1, {"loss": value})]) == {}


def test_metrics_without_weight_or_beyond_doubles_are_absent():
    """C06: weight 0 counts neither in weights nor in metrics."""
    assert average_metrics(["loss"], [(0, {"loss": 9.0}), (2, {"loss": 1.0})]) == {"loss": 1.0}
    assert average_metrics(["loss"], [(0, {"loss": 9.0})]) == {}
    assert average_metrics(["loss"], [(300, {"loss": 1e308})]) == {}
    assert average_metrics(["loss"], []) == {}


@pytest.mark.parametrize("size", [12, 20, 17, 0])
def test_refuses_an_update_of_another_size(size):
    """C18: says both sizes."""
    with pytest.raises(Invalid, match=rf"^An update must be 16 bytes; found {size}") as refused:
        Run(W0).merge({"method": "fedavg"}, A, (1, bytes(size)))
    assert refused.value.code == "wrong_size"


@pytest.mark.parametrize(("method", "size"), [("fedavg", 16), ("fedavgm", 32), ("fedadam", 16)])
def test_refuses_state_of_another_method(method, size):
    run = Run(W0)
    run.state, run.step = bytes(size), 1
    with pytest.raises(Invalid, match=rf"^The state of {method} must be .* found {size}"):
        run.merge({"method": method}, A)


@given(
    st.integers(1, 2**53), st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9)
)
def test_one_participant_gives_exactly_its_update(weight, floats):
    """C19: whatever its weight; -0.0 and denormals too."""
    assert Run([0] * len(floats)).merge({"method": "fedavg"}, (weight, floats)).weights == pack(floats)


def test_momentum_over_whole_passes_overshoots():
    """C20: the toy model moves 90 % of the way to its target each round."""
    for settings, expected in [
        ({"method": "fedavgm"}, [0.1, -0.8, -0.89, -0.17, 0.631, 0.784]),
        ({"method": "fedavg"}, [0.1, 0.01, 0.001]),
    ]:
        run = Run([1])
        errors = []
        for _ in expected:
            run.change(settings, [-0.9 * unpack(run.weights)[0]])
            errors += unpack(run.weights)
        assert errors == pytest.approx(expected, abs=1e-3)


def test_finished_units_are_the_weight():
    """C21 (b): 32 and 8 units."""
    run = Run([0, 0]).merge({"method": "fedavg"}, (32, [1, 0]), (8, [0, 1]))
    assert unpack(run.weights) == pytest.approx([0.8, 0.2])


def test_large_finite_updates_do_not_overflow_their_sum():
    """Fact 7: 3e38 × 128 is infinite in float32."""
    run = Run([0]).merge({"method": "fedavg"}, *[(128, [3e38])] * 4)
    assert unpack(run.weights) == pytest.approx([3e38])


def test_files_give_the_same_as_memory():
    with tempfile.TemporaryFile() as start, tempfile.TemporaryFile() as update, tempfile.TemporaryFile() as weights:
        start.write(pack(W0))
        update.write(pack(A[1]) + b"tail")
        for file in (start, update):
            file.flush()
        with tempfile.TemporaryFile() as state:
            result = merge(
                start=FileSource(start.fileno()),
                updates=[WeightedSource(FileSource(update.fileno(), 0, 16), 2, (0, 0))],
                state=None,
                step=1,
                method=parse_aggregation(FEDADAM),
                weights_out=weights,
                state_out=state,
            )
            weights.seek(0)
            state.seek(0)
            expected = Run(W0).merge(FEDADAM, (2, A[1]))
            assert (weights.read(), state.read()) == (expected.weights, expected.state)
            assert result.step == 1


class Zeros:
    """Weights of any size without the memory for them."""

    def __init__(self, size: int) -> None:
        self.size = size

    def readinto(self, offset: int, buffer: memoryview) -> None:
        buffer[:] = bytes(len(buffer))


@pytest.mark.parametrize(("size", "participants"), [(1 << 22, 2), (1 << 26, 2), (1 << 22, 32)])
def test_memory_depends_on_neither_size_nor_participants(size, participants):
    updates = [WeightedSource(Zeros(size), 1, (place,)) for place in range(participants)]
    with tempfile.TemporaryFile() as weights, tempfile.TemporaryFile() as state:
        tracemalloc.start()
        try:
            merge(
                start=Zeros(size),
                updates=updates,
                state=None,
                step=1,
                method=parse_aggregation({"method": "fedavgm"}),
                weights_out=weights,
                state_out=state,
            )
            assert tracemalloc.get_traced_memory()[1] < 16_000_000
        finally:
            tracemalloc.stop()


def test_no_claimed_step_keeps_the_server_busy():
    """A checkpoint file may claim any step, and bias correction multiplies once for each."""
    run = Run(W0)
    run.state, run.step = bytes(32), MAX_STEP
    with pytest.raises(Invalid, match=f"at most {MAX_STEP}"):
        run.merge(FEDADAM, A)


def test_state_and_step_go_together():
    for state, step in [(b"", 2), (b"", 0), (bytes(16), 0)]:
        run = Run(W0)
        run.state, run.step = state, step - 1
        with pytest.raises(ValueError, match="step 1 exactly when"):
            run.merge({"method": "fedavgm"}, A)


def test_methods_are_listed_with_their_state():
    assert [(method.id, method.state_vectors) for method in METHODS] == [("fedavg", 0), ("fedavgm", 1), ("fedadam", 2)]
    assert all(method.label for method in METHODS)


def test_defaults_are_filled_in_and_the_order_of_the_text_does_not_matter():
    assert parse_aggregation(None) == parse_aggregation({"method": "fedavg"})
    assert parse_aggregation({"method": "fedavgm"}).to_json() == {
        "method": "fedavgm",
        "serverLearningRate": 1.0,
        "momentum": 0.9,
    }
    assert parse_aggregation({"method": "fedadam"}).to_json() == {
        "method": "fedadam",
        "serverLearningRate": 0.01,
        "beta1": 0.9,
        "beta2": 0.99,
        "epsilon": 0.001,
    }
    texts = [json.dumps(parse_aggregation(dict(order)).to_json()) for order in itertools.permutations(FEDADAM.items())]
    assert len(set(texts)) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"method": "fedavgm", "momentum": 1}, r"momentum must be from 0 to below 1; found 1"),
        ({"method": "fedadam", "beta1": 1}, "beta1"),
        ({"method": "fedadam", "beta2": 1.0}, "beta2"),
        ({"method": "fedavgm", "serverLearningRate": 10.0001}, r"from 0 to 10; found 10\.0001"),
        ({"method": "fedavgm", "serverLearningRate": -0.1}, "serverLearningRate"),
        ({"method": "fedadam", "epsilon": 1.5}, "epsilon"),
        ({"method": "fedavgm", "beta1": 0.9}, 'may hold method, serverLearningRate, momentum; found "beta1"'),
        ({"method": "fedavg", "momentum": 0.9}, 'may hold method; found "momentum"'),
        ({"method": "fedavgm", "momentum": True}, "found true"),
        ({"method": "fedavgm", "momentum": "0.9"}, 'found "0.9"'),
        ({"method": "fedavgm", "momentum": math.nan}, "found nan"),
        ({"method": "fedavgm", "momentum": None}, "found null"),
        ({"method": "fedprox"}, "method must be one of fedavg, fedavgm, fedadam"),
        ({"method": ["fedavg"]}, "method must be one of"),
        ({}, "method"),
        ("fedavg", "must be an object"),
        ([], "must be an object"),
    ],
)
def test_refuses_settings_by_name(value, reason):
    """C05: nothing is switched on or off by a value that does not belong."""
    with pytest.raises(Invalid, match=reason) as refused:
        parse_aggregation(value)
    assert refused.value.message.startswith("settings.aggregation")


def test_bounds_themselves_are_allowed():
    parse_aggregation({"method": "fedavgm", "momentum": 0, "serverLearningRate": 10})
    parse_aggregation({"method": "fedadam", "epsilon": 1, "beta1": 0, "beta2": math.nextafter(1, 0)})
