"""One attempt at one assignment: fetch, train, deliver. Cancelled as a whole when the server names it no more."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weei_agent.outcomes import AttemptFailed
from weei_agent.report import Reporter
from weei_agent.snapshot import Measurements
from weei_agent.state import Assignment, File, Job
from weei_agent.trainer import Order, Progress, Trainer
from weei_agent.transfer import Cache, WrongBytes
from weei_agent.upload import Update, make_update
from weei_client.server import Server
from weei_client.tus import Upload
from weei_core.errors import ModelError
from weei_core.results import TrainResult

GRACE_SECONDS = 30.0
"""Past an attempt's end the server gives its work away by itself, which is no error of ours; later it is one."""


@dataclass(frozen=True)
class Tools:
    """What every part of a running agent works with."""

    server: Server
    cache: Cache
    trainer: Trainer
    measurements: Measurements
    reporter: Reporter
    scratch: Path
    workers: int
    """Training Workers that this machine runs at most."""


class Attempt:
    """Also listens to the trainer: any call is a sign of life."""

    def __init__(self, tools: Tools, job: Job, assignment: Assignment) -> None:
        self.assignment = assignment
        self.delivering = False
        self._tools = tools
        self._job = job
        self._sign = time.monotonic()
        self._weights_out = tools.scratch / f"{assignment.attemptId}.weights"

    async def make_update(self) -> Update:
        """Raises `AttemptFailed`, or `Problem` when the server refuses a file."""
        order = await self._receive()
        self._tools.measurements.enter("preparing")
        begun = time.monotonic()
        result = await self._train(order)
        self._tools.reporter.event(
            "trained",
            round=self.assignment.round,
            attemptId=self.assignment.attemptId,
            seconds=round(time.monotonic() - begun, 3),
            examplesProcessed=result.examples_processed,
            uniqueExamples=result.unique_examples,
            metrics=result.metrics,
        )
        return await asyncio.to_thread(
            make_update,
            self.assignment.attemptId,
            self._weights_out,
            self.assignment.weights.bytes,
            _report(self.assignment.round, result),
        )

    @property
    def unit(self) -> str:
        """What `exampleCount` counts, for people."""
        return self._job.unit.label.lower() if self._job.unit else "examples"

    async def deliver(self, update: Update) -> bool:
        """Whether the server had it already. Raises `Problem` when the server refuses it."""
        self.delivering = True
        duplicate = await Upload(self._tools.server, update.weights, update.bytes, update.labels()).send()
        self._tools.measurements.enter("awaitingAggregation")
        return duplicate

    def clean_up(self) -> None:
        self._weights_out.unlink(missing_ok=True)

    async def _receive(self) -> Order:
        work = self.assignment
        try:
            module = await self._fetch(File(sha256=work.moduleSha256, bytes=self._job.module.bytes), "The module")
            auxiliary = [await self._fetch(slot, f"Auxiliary weights {slot.id}") for slot in work.auxiliary]
            if work.weights.inline is not None:
                weights = self._tools.cache.put(work.weights, work.weights.inline, "The start weights")
            else:
                weights = await self._fetch(work.weights, "The start weights")
            data = await self._fetch(work.data, f"Chunk {work.chunkId}") if work.data else None
        except WrongBytes as error:
            raise AttemptFailed(str(error)) from None
        except OSError as error:
            raise AttemptFailed(f"This machine could not keep a file: {error.strerror or error}.") from None
        used = [module, weights, *auxiliary, *([data] if data else [])]
        await asyncio.to_thread(self._tools.cache.trim, used)
        return Order(work, module, weights, tuple(auxiliary), data, self._weights_out)

    async def _fetch(self, file: File, what: str) -> Path:
        return await self._tools.cache.fetch(self._tools.server, self.assignment.jobId, file, what)

    async def _train(self, order: Order) -> TrainResult:
        self._sign = time.monotonic()
        training = asyncio.create_task(self._tools.trainer.train(order, self))
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((training, watching), return_when=asyncio.FIRST_COMPLETED)
            if training.done():
                return training.result()
            raise AttemptFailed(watching.result())
        except ModelError as error:
            raise AttemptFailed(error.message) from None
        except OSError as error:
            raise AttemptFailed(f"This machine could not keep a file: {error.strerror or error}.") from None
        finally:
            for task in (training, watching):
                task.cancel()
            await asyncio.wait((training, watching))

    async def _watch(self) -> str:
        """Returns the reason when training has to end."""
        stall, allowed = self._job.stallMinutes * 60, self.assignment.secondsLeft + GRACE_SECONDS
        end = time.monotonic() + allowed
        while True:
            now = time.monotonic()
            left = min(self._sign + stall, end) - now
            if left > 0:
                await asyncio.sleep(left)
            elif now >= end:
                return f"Training did not end within {allowed:.0f} seconds."
            else:
                return f"Training made no progress for {self._job.stallMinutes:g} minutes."

    def entered(self, operation: str, workers: int) -> None:
        self._sign = time.monotonic()
        measurements = self._tools.measurements
        measurements.workers_active(workers)
        if operation == "train" and measurements.stage == "preparing":
            measurements.enter("training")

    def timed(self, stage: str | None) -> None:
        self._tools.measurements.time(stage)

    def progressed(self, progress: Progress) -> None:
        self._sign = time.monotonic()
        self._tools.measurements.progress(progress.processed, progress.total, progress.steps, progress.metrics)


def _report(round_number: int, result: TrainResult) -> dict[str, Any]:
    report: dict[str, Any] = {
        "round": round_number,
        "examplesProcessed": result.examples_processed,
        "uniqueExamples": result.unique_examples,
        "metrics": result.metrics,
    }
    if result.optimizer_steps is not None:
        report["optimizerSteps"] = result.optimizer_steps
    return report
