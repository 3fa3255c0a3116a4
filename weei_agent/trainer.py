"""Runs assignments in jailed children, never in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from weei_agent.outcomes import first_error
from weei_agent.state import Assignment
from weei_core import strict_json
from weei_core.abi.limits import Limits
from weei_core.abi.progress import Report
from weei_core.abi.requests import DataRange, Units
from weei_core.aggregation import average_metrics
from weei_core.assignment import Assignment as Work
from weei_core.errors import ModelError
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.ranges import merge_ranges
from weei_core.results import TrainResult

T = TypeVar("T")
RUN_SECONDS = 24 * 3600.0
"""A backstop only: an attempt has a time of its own, and ends sooner when nothing moves."""


@dataclass(frozen=True)
class Order:
    """One assignment with its files, all verified. `weights_out` is the file to make."""

    assignment: Assignment
    module: Path
    weights: Path
    auxiliary: tuple[Path, ...]
    data: Path | None
    weights_out: Path


@dataclass(frozen=True)
class Progress:
    """What all Workers of an assignment reported so far, together."""

    processed: int
    total: int | None
    steps: int | None
    metrics: dict[str, float] | None = None


class Listener(Protocol):
    """Called on the event loop; each call is a sign of life."""

    def entered(self, operation: str, workers: int) -> None: ...

    def timed(self, stage: str | None) -> None:
        """What all Workers together are at: training when one is inside `train`, else preparing, else nothing."""

    def progressed(self, progress: Progress) -> None: ...


class Trainer(Protocol):
    """What fails is a `ModelError`. Cancelling a call ends its children at once."""

    async def load(self, module: Path) -> ModelInfo: ...

    async def train(self, order: Order, listener: Listener) -> TrainResult: ...

    async def close(self) -> None: ...


class JailTrainer:
    """At most `workers` children, kept from one assignment to the next; each runs one range at a time."""

    def __init__(self, scratch: Path, compiled: Path, *, memory_bytes: int, workers: int) -> None:
        self._scratch = scratch
        self._compiled = compiled
        self._limits = Limits(memory_bytes=memory_bytes, run_seconds=RUN_SECONDS)
        self._workers = workers
        self._info: ModelInfo | None = None
        self._idle: list[tuple[Path, Jail]] = []
        self._running: set[Jail] = set()

    async def load(self, module: Path) -> ModelInfo:
        """Compiles, and lets the module make weights and load them: what an assignment will do, without the work."""
        weights_out = self._scratch / "describe.weights"
        run = partial(self._run, module, {"operation": "describe", "seed": "0"}, {}, weights_out)
        try:
            outcome = await self._in_thread(run)
        finally:
            weights_out.unlink(missing_ok=True)
        self._info = parse_model_info(str(outcome["modelInfo"]).encode())
        return self._info

    async def train(self, order: Order, listener: Listener) -> TrainResult:
        assert self._info is not None
        _check_slots(self._info, order.assignment)
        work = _work(order, self._info)
        parts = work.ranges()
        free, loop = asyncio.Semaphore(self._workers), asyncio.get_running_loop()
        progress = _Sum(len(parts), listener)

        async def play(index: int, units: Units | None) -> tuple[Path, TrainResult]:
            target = order.weights_out if len(parts) == 1 else order.weights_out.with_suffix(f".{index}")
            async with free:
                hear = _Ear(loop, listener, progress, index, lambda: len(self._running))
                progress.enter(index, "preparing")
                try:
                    return target, await self._play(order, work, units, target, hear)
                finally:
                    progress.enter(index, None)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(play(index, units)) for index, units in enumerate(parts)]
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        results = [task.result() for task in tasks]
        if len(parts) == 1:
            return results[0][1]
        return await self._in_thread(partial(merge_ranges, order.weights, results, order.weights_out))

    async def close(self) -> None:
        for jail in self._running:
            jail.kill()
        while self._idle:
            await asyncio.to_thread(self._idle.pop()[1].close)

    async def _play(self, order: Order, work: Work, units: Units | None, target: Path, ear: _Ear) -> TrainResult:
        task, inputs = work.task(units)
        run = partial(self._run, order.module, task, inputs, target, ear)
        try:
            outcome = await self._in_thread(run)
        except ModelError as error:
            if error.code != "crash":
                raise
            outcome = await self._in_thread(run)  # a dead Worker's range is played again, once
        return work.result(units, outcome)

    def _run(
        self, module: Path, task: dict[str, Any], inputs: dict[str, InputFile], target: Path, ear: _Ear | None = None
    ) -> dict[str, strict_json.JsonValue]:
        """In a thread. A child that is still good afterwards is kept for the next run."""
        jail = self._take(module)
        self._running.add(jail)
        try:
            with target.open("w+b") as out:
                outcome = jail.run(
                    task,
                    inputs,
                    {"weightsOut": out},
                    on_progress=ear.report if ear else None,
                    on_call=ear.call if ear else None,
                )
        finally:
            self._running.discard(jail)
            if jail.alive:
                self._idle.append((module, jail))
        return outcome

    def _take(self, module: Path) -> Jail:
        with contextlib.suppress(IndexError):  # ranges begin at once, and each thread may find the last one gone
            while True:
                held, jail = self._idle.pop()
                if held == module:
                    return jail
                jail.close()
        return Jail(module, self._limits, cache=self._compiled)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """A thread cannot be cancelled, but what it waits for can be killed."""
        running = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                for jail in list(self._running):
                    jail.kill()
                await asyncio.wait([running], timeout=0.1)
            running.exception()  # seen, and no longer of interest
            raise


@dataclass
class _Sum:
    """Adds up what the Workers report, and what they are at; each reports for its own range only."""

    parts: int
    listener: Listener
    latest: dict[int, Report] = field(default_factory=dict)
    stages: dict[int, str] = field(default_factory=dict)
    told: str | None = None

    def enter(self, index: int, stage: str | None) -> None:
        if stage is None:
            self.stages.pop(index, None)
        else:
            self.stages[index] = stage
        at = set(self.stages.values())
        now = "training" if "training" in at else "preparing" if at else None
        if now != self.told:
            self.told = now
            self.listener.timed(now)

    def add(self, index: int, report: Report) -> None:
        self.latest[index] = report
        self.listener.progressed(
            Progress(self._of("processedExamples") or 0, self._total(), self._of("optimizerSteps"), self._metrics())
        )

    def _metrics(self) -> dict[str, float] | None:
        """Of all Workers the mean by what they processed."""
        told: list[tuple[int, dict[str, strict_json.JsonValue]]] = []
        for report in self.latest.values():
            processed, metrics = report.get("processedExamples"), report.get("metrics")
            if isinstance(processed, int) and isinstance(metrics, dict):
                told.append((processed if self.parts > 1 else 1, metrics))
        return average_metrics(sorted({name for _, metrics in told for name in metrics}), told) or None

    def _of(self, name: str) -> int | None:
        numbers = [value for report in self.latest.values() if isinstance(value := report.get(name), int)]
        return sum(numbers) if numbers else None

    def _total(self) -> int | None:
        return self._of("totalExamples") if len(self.latest) == self.parts else None


@dataclass(frozen=True)
class _Ear:
    """Takes what one child says from its thread to the event loop."""

    loop: asyncio.AbstractEventLoop
    listener: Listener
    sum: _Sum
    index: int
    running: Callable[[], int]

    def report(self, report: Report) -> None:
        self._tell(self.sum.add, self.index, report)

    def call(self, operation: str) -> None:
        self._tell(self.listener.entered, operation, self.running())
        self._tell(self.sum.enter, self.index, "training" if operation == "train" else "preparing")

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended before the child did
            self.loop.call_soon_threadsafe(function, *arguments)


def _check_slots(info: ModelInfo, assignment: Assignment) -> None:
    """The model's own slots, filled in its own order with the sizes it declares."""
    declared = [(slot.id, slot.bytes) for slot in info.auxiliary_weights]
    given = [(slot.id, slot.bytes) for slot in assignment.auxiliary]
    if given != declared:
        raise ModelError(
            f"The assignment must fill the slots that the model declares, {declared}; found {given}.",
            operation="loadAuxiliary",
            field="auxiliary",
            code="wrong_slots",
        )


def _work(order: Order, info: ModelInfo) -> Work:
    assignment = order.assignment
    data, units = assignment.data, assignment.experience
    return Work(
        round=assignment.round,
        settings=assignment.settings,
        seed=assignment.seed or "",
        info=info,
        start=order.weights,
        auxiliary={slot.id: path for slot, path in zip(assignment.auxiliary, order.auxiliary, strict=True)},
        data=order.data,
        part=DataRange(data.format, data.recordStart, data.recordCount) if data else None,
        records=assignment.exampleCount,
        units=Units(units.seed, units.unitStart, units.unitCount) if units else None,
        split=assignment.split,
    )
