"""The vectors that Python and JavaScript share: how the ranges of a divided assignment become one update."""

import hashlib
import json
from pathlib import Path

import pytest

from weei_core.ranges import merge_ranges
from weei_core.results import TrainResult

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ranges.json").read_text())


@pytest.mark.parametrize("vector", GOLDEN, ids=lambda vector: vector["name"])
def test_gives_the_golden_bits(vector, tmp_path):
    """The golden file was made one element at a time with Python's floats."""
    start, out = tmp_path / "start", tmp_path / "out"
    start.write_bytes(bytes.fromhex(vector["start"]))
    results = []
    for index, part in enumerate(vector["parts"]):
        path = tmp_path / f"part{index}"
        path.write_bytes(bytes.fromhex(part["weights"]))
        metrics, counts = part["metrics"], (part["examplesProcessed"], part["uniqueExamples"], part["optimizerSteps"])
        results.append((path, TrainResult(0, path.stat().st_size, metrics, *counts)))
    merged = merge_ranges(start, results, out)
    expected = vector["merged"]
    assert out.read_bytes().hex() == expected["weights"]
    assert hashlib.sha256(out.read_bytes()).hexdigest() == expected["sha256"]
    assert merged.metrics == expected["metrics"]
    assert merged.examples_processed == expected["examplesProcessed"]
    assert merged.unique_examples == expected["uniqueExamples"]
    assert merged.optimizer_steps == expected["optimizerSteps"]
