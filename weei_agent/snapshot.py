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
from weei_agent.clock import Clock
from weei_agent.state import Assignment

UNKNOWN = "unknown"
WINDOW_SECONDS = 5.0
MOST_ERROR_CHARACTERS = 500
_COMPUTING = ("preparing", "training")
_SYSTEMS = {"Linux": "Linux", "Darwin": "macOS", "Windows": "Windows"}
_TIMED = {"preparing": "preparationMs", "compiling": "compilationMs", "training": "trainingMs", "uploading": "uploadMs"}


class Stopwatch:
    """Time spent in each stage of one assignment. A stage entered twice is summed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: dict[str, float] = {}
        self._stage = "waiting"
        self._since = clock.monotonic()

    def enter(self, stage: str) -> None:
        now = self._clock.monotonic()
        self._spent[self._stage] = self._spent.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def finished_ms(self, stage: str) -> float | None:
        """None until the stage is over."""
        if stage == self._stage or stage not in self._spent:
            return None
        return self._spent[stage] * 1000

    def seconds(self, stage: str) -> float:
        """So far, a stage that still runs included."""
        running = self._clock.monotonic() - self._since if stage == self._stage else 0.0
        return self._spent.get(stage, 0.0) + running


class Rate:
    """Examples per second over the samples of the last five seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, examples: int) -> None:
        self._samples.append((self._clock.monotonic(), examples))
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
        self._computed = False
        self._active = 0
        self._clear(None)

    def _clear(self, assignment: Assignment | None) -> None:
        self._assignment = assignment
        self._error: str | None = None
        self._stopwatch = Stopwatch(self._clock)
        self._rate = Rate(self._clock)
        self.processed = 0
        self.total: int | None = None
        self._steps: int | None = None
        self._progress_at: float | None = None

    def continue_after(self, sequence: int) -> None:
        """The server's last one, so that it takes what this process sends for newer."""
        self._sequence = max(self._sequence, sequence)

    @property
    def round(self) -> int | None:
        return self._assignment.round if self._assignment else None

    def model_loaded(self, model_id: str, version: str, sha256: str) -> None:
        wgsl = {"present": False, "sha256": []}
        self._model = {"id": model_id, "version": version, "wasmSha256": sha256, "wgsl": wgsl}

    def begin(self, assignment: Assignment) -> None:
        self._clear(assignment)
        self.enter("receiving")

    def enter(self, stage: str) -> None:
        self.stage = stage
        self._stopwatch.enter(stage)
        self._computed = self._computed or stage == "training"
        if stage not in _COMPUTING:
            self._active = 0
        self.on_stage()

    def workers_active(self, count: int) -> None:
        self._active = count

    def fail(self, reason: str) -> None:
        self._error = reason[:MOST_ERROR_CHARACTERS]
        self.enter("error")

    def rest(self) -> None:
        """No assignment: the last one was taken away, or the round it belonged to is over."""
        self._clear(None)
        self.enter("waiting")

    def progress(self, processed: int, total: int | None = None, steps: int | None = None) -> None:
        """Never falls, never passes the total."""
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
        }

    def _execution(self) -> dict[str, Any]:
        return {
            "requested": "cpu",
            "actual": "cpu" if self._computed else UNKNOWN,
            "backend": "cpu-wasm",
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
            "averageExamplesPerSecond": self.processed / trained if trained > 0 else None,
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


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
