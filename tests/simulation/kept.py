"""The seeds that failed once: `seeds.txt`. A run that fails adds its seed, so that it is committed with the mending."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.simulation.scenario import SimulationFailed, simulate

FILE = Path(__file__).with_name("seeds.txt")
WHAT_CHARACTERS = 100


def kept_seeds(file: Path = FILE) -> list[int]:
    lines = [line.split("#")[0].strip() for line in file.read_text().splitlines()]
    return [int(line) for line in lines if line]


def keep(failure: SimulationFailed, file: Path = FILE) -> None:
    """At the end of the file, with what went wrong; a person says it better in the commit."""
    if failure.seed not in kept_seeds(file):
        with file.open("a") as text:
            text.write(f"{failure.seed:<5} # {' '.join(failure.what.split())[:WHAT_CHARACTERS]}\n")


def run(seeds: Iterable[int]) -> list[SimulationFailed]:
    """Those that failed; each is kept."""
    failures = []
    for seed in seeds:
        try:
            simulate(seed)
        except SimulationFailed as failure:
            keep(failure)
            failures.append(failure)
    return failures
