"""Whole runs of the engine in a simulated world: cases C06, C22, C24 to C26, C28 to C30, C32, C44 and C75,
and the faults P1 to P9, P12, P13 and S1.

A failure names its seed: `python -m tests.simulation --seed N` replays it with its log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.kept import keep, kept_seeds, run
from tests.simulation.scenario import SimulationFailed, simulate

SEEDS, BATCH = 1000, 50
FULL_SEEDS, FULL_BATCH = 20_000, 500


def none_fails(seeds) -> None:
    failures = run(seeds)
    assert not failures, "\n".join(map(str, failures))


def test_seeds_that_failed_once_pass():
    none_fails(kept_seeds())


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_run_keeps_the_invariants(first):
    none_fails(range(first, first + BATCH))


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEEDS, FULL_SEEDS, FULL_BATCH))
def test_twenty_thousand_runs_keep_the_invariants(first):
    none_fails(range(first, min(first + FULL_BATCH, FULL_SEEDS)))


def test_a_seed_that_fails_is_kept_once_with_its_reason(tmp_path):
    file = tmp_path / "seeds.txt"
    file.write_text("4     # an old one\n")
    for seed in (4, 77, 77):
        keep(SimulationFailed(seed, AssertionError("two\ncheckpoints of round 3"), []), file)
    assert file.read_text() == "4     # an old one\n77    # AssertionError: two checkpoints of round 3\n"
    assert kept_seeds(file) == [4, 77]


def test_one_seed_is_one_run_in_every_process():
    """Also when Python hashes texts differently, so that no order hangs on a set."""
    seeds = (3, 4, 5)
    here = [simulate(seed)[-1] for seed in seeds]
    for seed, expected in zip(seeds, here, strict=True):
        assert simulate(seed)[-1] == expected
    command = [sys.executable, "-m", "tests.simulation", "--log-hashes", *map(str, seeds)]
    root = Path(__file__).parents[2]
    other = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True
    )
    assert other.stdout.split("\n")[: len(seeds)] == here
