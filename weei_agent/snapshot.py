"""What this agent measures of itself, as `PeerExecutionDiagnostics` without the receiver's fields.

Pure but for the clock it is given: durations and rates come from its monotonic side alone, and only times that are
shown (`measuredAt`, `lastProgressAt`) from the wall (C74, C75).
"""

from __future__ import annotations

import json
import os
import platform
from collections import deque
from collections.abc import Callable
from typing import Any

from weei_agent import __version__
from weei_agent.state import Assignment, Job
from weei_client.clock import Clock
from weei_core.protocol import MAX_SNAPSHOT_METRICS, MAX_SNAPSHOT_TEXT

UNKNOWN = "unknown"
WINDOW_SECONDS = 5.0
_COMPUTING = ("preparing", "training")
_SYSTEMS = {"Linux": "Linux", "Darwin": "macOS", "Windows": "Windows"}
_TIMED = {"preparing": "preparationMs", "compiling": "compilationMs", "training": "trainingMs", "uploading": "uploadMs"}


class Stopwatch:
    """Time spent in each stage of one assignment. A stage entered twice is summed."""

    def __init__(self, clock: Clock, stage: str = "waiting") -> None:
        self._clock = clock
        self._spent: dict[str, float] = {}
        self._stage = stage
        self._timed: str | None = stage
        self._since = clock.monotonic()

    def enter(self, stage: str) -> None:
        self.time(stage)
        self._stage = stage

    def time(self, stage: str | None) -> None:
        """Count the time of another stage than the one that is shown: a Worker prepares its next range in the middle
        of training, and between stages (None) nobody's time is counted."""
        now = self._clock.monotonic()
        if self._timed is not None:
            self._spent[self._timed] = self._spent.get(self._timed, 0.0) + now - self._since
        self._timed, self._since = stage, now

    def finished_ms(self, stage: str) -> float | None:
        """None until the stage is over."""
        if stage in (self._stage, self._timed) or stage not in self._spent:
            return None
        return self._spent[stage] * 1000

    def seconds(self, stage: str) -> float:
        """So far, a stage that still runs included."""
        running = self._clock.monotonic() - self._since if stage == self._timed else 0.0
        return self._spent.get(stage, 0.0) + running


class Rate:
    """Examples per second over the samples of the last five seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, examples: int) -> None:
        now = self._clock.monotonic()
        if self._samples and self._samples[-1][0] == now:
            self._samples.pop()
        self._samples.append((now, examples))
        self._forget()

    def per_second(self) -> float | None:
        """None until two samples of different times lie in the window: never infinite, never a false zero."""
        self._forget()
        if not self._samples:
            return None
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else None

    def _forget(self) -> None:
        while self._samples and self._clock.monotonic() - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()


class Measurements:
    """Everything a snapshot says. `begin` starts from nothing for each assignment."""

    def __init__(self, clock: Clock, workers: int) -> None:
        self.stage = "waiting"
        self.on_stage: Callable[[], None] = lambda: None
        self._sequence = 0
        self._clock = clock
        self._workers = workers
        self._model: dict[str, Any] | None = None
        self._backend: str | None = None
        self._active = 0
        self._assignment: Assignment | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._error: str | None = None
        self._stopwatch = Stopwatch(self._clock, self.stage)
        self._rate = Rate(self._clock)
        self.processed = 0
        self.total: int | None = None
        self._steps: int | None = None
        self._metrics: dict[str, float] | None = None
        self._progress_at: float | None = None

    def continue_after(self, sequence: int) -> None:
        """The server's last one, so that it takes what this process sends for newer."""
        self._sequence = max(self._sequence, sequence)

    @property
    def round(self) -> int | None:
        return self._assignment.round if self._assignment else None

    def model_loaded(self, model_id: str, version: str, job: Job) -> None:
        self._model = {
            "id": model_id[:MAX_SNAPSHOT_TEXT],
            "version": version[:MAX_SNAPSHOT_TEXT],
            "wasmSha256": job.module.sha256,
            "wgsl": job.wgsl.model_dump(),
        }

    def begin(self, assignment: Assignment) -> None:
        """Timings and figures belong to one assignment and start again with the next."""
        self._start_anew()
        self._assignment = assignment
        self.enter("receiving")

    def enter(self, stage: str) -> None:
        self.stage = stage
        self._stopwatch.enter(stage)
        if stage == "training" and self._assignment is not None:
            self._backend = self._assignment.backend
        if stage not in _COMPUTING:
            self._active = 0
        self.on_stage()

    def time(self, stage: str | None) -> None:
        self._stopwatch.time(stage)

    def workers_active(self, count: int) -> None:
        self._active = count

    def fail(self, reason: str) -> None:
        self._error = reason[:MAX_SNAPSHOT_TEXT]
        self.enter("error")

    def rest(self) -> None:
        """No assignment: the last one was taken away, or the round it belonged to is over. Its figures stay until
        the next begins."""
        self._assignment = None
        self.enter("waiting")

    def progress(
        self,
        processed: int,
        total: int | None = None,
        steps: int | None = None,
        metrics: dict[str, float] | None = None,
    ) -> None:
        """Never falls, never passes the total."""
        self._metrics = self._metrics if metrics is None else _few(metrics)
        self.total = total if total is not None else self.total
        self._steps = steps if steps is not None else self._steps
        processed = processed if self.total is None else min(processed, self.total)
        self.processed = max(self.processed, processed)
        self._progress_at = self._clock.wall()
        self._rate.add(self.processed)

    def per_second(self) -> float | None:
        return self._rate.per_second() if self.stage == "training" else None

    def snapshot(self) -> dict[str, Any]:
        """The next in sequence."""
        self._sequence += 1
        return {
            "schemaVersion": 1,
            "sequence": self._sequence,
            "measuredAt": _ms(self._clock.wall()),
            "environment": environment(),
            "execution": self._execution(),
            "gpu": {
                "webgpu": "unavailable",
                "adapter": UNKNOWN,
                "memoryBudgetMiB": 0,
                "initializationError": UNKNOWN,
            },
            "model": self._model or UNKNOWN,
            "assignment": _describe(self._assignment) if self._assignment else None,
            "stage": self.stage,
            "error": self._error,
            "timings": {name: self._stopwatch.finished_ms(stage) for stage, name in _TIMED.items()},
            "performance": self._performance(),
            "metrics": self._metrics,
        }

    def _execution(self) -> dict[str, Any]:
        return {
            "requested": "cpu",
            "actual": "cpu" if self._backend else UNKNOWN,
            "backend": self._backend or UNKNOWN,
            "fallbackReason": None,
            "activeWorkers": self._active,
            "workerLimit": self._workers,
        }

    def _performance(self) -> dict[str, Any]:
        trained = self._stopwatch.seconds("training")
        return {
            "processedExamples": self.processed,
            "totalExamples": UNKNOWN if self.total is None else self.total,
            "optimizerSteps": UNKNOWN if self._steps is None else self._steps,
            "currentExamplesPerSecond": self.per_second(),
            "averageExamplesPerSecond": self.processed / trained if self.processed and trained > 0 else None,
            "lastProgressAt": None if self._progress_at is None else _ms(self._progress_at),
        }


def environment() -> dict[str, Any]:
    return {
        "browser": "Weei agent",
        "browserVersion": __version__,
        "os": _SYSTEMS.get(platform.system(), UNKNOWN),
        "logicalCores": os.cpu_count() or UNKNOWN,
    }


def _describe(assignment: Assignment) -> dict[str, Any]:
    settings = json.loads(assignment.settings)
    return {
        "jobId": assignment.jobId,
        "round": assignment.round,
        "assignmentId": assignment.assignmentId,
        "attemptId": assignment.attemptId,
        "chunkId": assignment.chunkId,
        "bytes": assignment.data.bytes if assignment.data else 0,
        "exampleCount": assignment.exampleCount,
        "batchSize": settings["batchSize"],
        "localEpochs": settings["localEpochs"],
        "learningRate": settings.get("learningRate", UNKNOWN),
    }


def _few(metrics: dict[str, float]) -> dict[str, float]:
    """A module may report anything."""
    shown = [(name, value) for name, value in metrics.items() if len(name) <= MAX_SNAPSHOT_TEXT]
    return dict(shown[:MAX_SNAPSHOT_METRICS])


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
