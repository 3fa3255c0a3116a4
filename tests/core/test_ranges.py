"""Divided assignments."""

import numpy as np
import pytest

from weei_core import seeds
from weei_core.abi.requests import Units
from weei_core.errors import Invalid
from weei_core.ranges import divided, merge_ranges
from weei_core.results import TrainResult


def test_an_undivided_assignment_is_one_range_with_its_own_seed():
    assert divided(Units("7", 100, 5), 1) == [Units("7", 100, 5)]


def test_ranges_are_contiguous_with_seeds_of_their_own_and_the_larger_ones_first():
    assert divided(Units("7", 100, 5), 2) == [
        Units("7", 100, 3),
        Units(str(seeds.range_seed(7, 1, 103)), 103, 2),
    ]


def test_no_range_is_empty():
    with pytest.raises(Invalid, match="split must be from 1 to the 3 units"):
        divided(Units("7", 0, 3), 4)


def merged(tmp_path, *parts):
    start = tmp_path / "start"
    start.write_bytes(np.array([9, 9], "<f4").tobytes())
    results = []
    for index, (weights, unique, metrics, steps) in enumerate(parts):
        path = tmp_path / f"part{index}"
        path.write_bytes(np.array(weights, "<f4").tobytes())
        results.append((path, TrainResult(0, 8, metrics, unique, unique, steps)))
    out = tmp_path / "out"
    result = merge_ranges(start, results, out)
    assert not any(path.exists() for path, _ in results)
    return np.frombuffer(out.read_bytes(), "<f4").tolist(), result


def test_parts_are_averaged_by_units_finished(tmp_path):
    """C21: 32 units of [1, 0] and 8 of [0, 1]."""
    weights, result = merged(tmp_path, ([1, 0], 32, {"loss": 1.0, "return": 5.0}, 2), ([0, 1], 8, {"loss": 2.0}, 3))
    assert weights == pytest.approx([0.8, 0.2])
    assert (result.unique_examples, result.examples_processed, result.optimizer_steps) == (40, 40, 5)
    assert result.metrics == {"loss": 1.2, "return": 5.0}


def test_a_part_without_a_finished_unit_counts_nothing(tmp_path):
    weights, result = merged(tmp_path, ([1, 0], 0, {"loss": 9.0}, None), ([0, 1], 8, {"loss": 2.0}, None))
    assert weights == [0, 1]
    assert (result.metrics, result.optimizer_steps) == ({"loss": 2.0}, None)


def test_when_nothing_was_finished_the_weights_stay(tmp_path):
    """C06."""
    weights, result = merged(tmp_path, ([1, 0], 0, {}, None), ([0, 1], 0, {}, None))
    assert weights == [9, 9]
    assert result.unique_examples == 0
