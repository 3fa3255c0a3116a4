"""A split assignment: the ranges it is played in, and how their weights become one update.

The split is the assignment's own, so that the result does not depend on how many Workers a machine has.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weei_agent.state import Assignment, Experience
from weei_core import seeds
from weei_core.aggregation import WeightedSource, average_metrics, merge, parse_aggregation
from weei_core.results import TrainResult
from weei_core.weights import FileSource


@dataclass(frozen=True)
class Part:
    """`size` is in records or units. `units` only for experience."""

    index: int
    size: int
    units: Experience | None


def parts_of(assignment: Assignment) -> list[Part]:
    whole = assignment.experience
    if whole is None or assignment.split == 1:
        return [Part(0, assignment.exampleCount, whole)]
    seed = seeds.parse_seed(whole.seed, "experience.seed")
    parts = []
    for index, (start, count) in enumerate(seeds.split_ranges(whole.unitStart, whole.unitCount, assignment.split)):
        text = seeds.format_seed(seeds.range_seed(seed, index, start))
        parts.append(Part(index, count, Experience(seed=text, unitStart=start, unitCount=count)))
    return parts


def merge_parts(start: Path, results: Sequence[tuple[Path, TrainResult]], weights_out: Path) -> TrainResult:
    """The exact weighted mean in range order; metrics likewise, counts summed. Removes the parts' files."""
    reports = [result for _, result in results]
    unique = sum(report.unique_examples for report in reports)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path, _ in results]
        begin = stack.enter_context(start.open("rb"))
        out = stack.enter_context(weights_out.open("w+b"))
        updates = [
            WeightedSource(FileSource(file.fileno()), report.unique_examples, (index,))
            for index, (file, report) in enumerate(zip(files, reports, strict=True))
        ]
        if unique:
            merge(
                start=FileSource(begin.fileno()),
                updates=updates,
                state=None,
                step=0,
                method=parse_aggregation(None),
                weights_out=out,
            )
        else:
            shutil.copyfileobj(begin, out)  # nothing was finished, so nothing is learnt
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
