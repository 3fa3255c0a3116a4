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

from tests.simulation.scenario import SimulationFailed, simulate

SEEDS = 1000
BATCH = 50
KNOWN = Path(__file__).with_name("seeds.txt")


def known_seeds() -> list[int]:
    lines = [line.split("#")[0].strip() for line in KNOWN.read_text().splitlines()]
    return [int(line) for line in lines if line]


def run(seeds) -> None:
    failures = []
    for seed in seeds:
        try:
            simulate(seed)
        except SimulationFailed as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


def test_seeds_that_failed_once_pass():
    run(known_seeds())


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_run_keeps_the_invariants(first):
    run(range(first, first + BATCH))


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
