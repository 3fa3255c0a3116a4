"""A divided assignment: the ranges it is played in, and how their weights become one update.

The division is the assignment's own, so that the result does not depend on how many Workers a machine has.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from weei_core import seeds
from weei_core.abi.requests import Units
from weei_core.aggregation import WeightedSource, average_metrics, merge, parse_aggregation
from weei_core.results import TrainResult
from weei_core.weights import FileSource


def divided(whole: Units, split: int) -> list[Units]:
    """The ranges of an assignment, in the order in which they are merged (spec: range k of an assignment's split)."""
    seed = seeds.parse_seed(whole.seed, "experience.seed")
    ranges = seeds.split_ranges(whole.unit_start, whole.unit_count, split)
    return [Units(seeds.format_seed(seeds.range_seed(seed, k, s)), s, n) for k, (s, n) in enumerate(ranges)]


def merge_ranges(start: Path, results: Sequence[tuple[Path, TrainResult]], weights_out: Path) -> TrainResult:
    """The exact weighted mean in range order; metrics likewise, counts summed. Removes the ranges' files.

    When no unit was finished nothing is learnt: `weights_out` gets the bytes of `start`.
    """
    reports = [result for _, result in results]
    unique = sum(report.unique_examples for report in reports)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path, _ in results]
        begin = stack.enter_context(start.open("rb"))
        out = stack.enter_context(weights_out.open("w+b"))
        if unique:
            updates = [
                WeightedSource(FileSource(file.fileno()), report.unique_examples, (index,))
                for index, (file, report) in enumerate(zip(files, reports, strict=True))
            ]
            merge(
                start=FileSource(begin.fileno()),
                updates=updates,
                state=None,
                step=0,
                method=parse_aggregation(None),
                weights_out=out,
            )
        else:
            shutil.copyfileobj(begin, out)
    for path, _ in results:
        path.unlink()
    steps = [report.optimizer_steps for report in reports if report.optimizer_steps is not None]
    names = sorted({name for report in reports for name in report.metrics})
    return TrainResult(
        pointer=0,
        bytes=start.stat().st_size,
        metrics=average_metrics(names, [(report.unique_examples, report.metrics) for report in reports]),
        examples_processed=sum(report.examples_processed for report in reports),
        unique_examples=unique,
        optimizer_steps=sum(steps) if steps else None,
    )
