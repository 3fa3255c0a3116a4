"""Getting ready for a job's model: fetched, verified, compiled and tried once; then the server is told."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

from weei_agent.attempt import Tools
from weei_agent.connection import Connection, Timing
from weei_agent.outcomes import Exit, Stop
from weei_agent.state import Job
from weei_agent.transfer import WrongBytes
from weei_client.server import Problem
from weei_core.errors import Invalid, ModelError
from weei_core.model_info import ModelInfo

REASON_CHARACTERS = 1000


class Readiness:
    """`still_member` raises `Stop` when the latest state is no longer of this agent's job."""

    def __init__(
        self, tools: Tools, connection: Connection, timing: Timing, *, still_member: Callable[[], object]
    ) -> None:
        self._tools = tools
        self._connection = connection
        self._timing = timing
        self._still_member = still_member
        self._for: tuple[str, ...] | None = None
        self._told = 0.0

    def is_lacking(self, job: Job) -> bool:
        """Also when the server has forgotten it. A state just after the telling may only be older than that."""
        forgotten = not job.ready and time.monotonic() - self._told > 2 * self._timing.poll
        return self._for != _files(job) or forgotten

    async def reach(self, job: Job) -> None:
        try:
            info = await self._load(job)
            auxiliary = {slot.id: slot.sha256 for slot in job.auxiliary}
            body = {"jobId": job.id, "moduleSha256": job.module.sha256, "auxiliary": auxiliary}
            await self._connection.command("/api/v1/peer/ready", {**body, "workers": self._tools.workers})
        except Problem as problem:
            await self._connection.poll()
            self._still_member()  # removed meanwhile: that is the reason then
            await self._fail(job, problem.title)
        except TimeoutError:
            await self._fail(job, f"It was not ready within {self._timing.load:g} seconds.")
        except (WrongBytes, ModelError, Invalid, OSError) as error:
            await self._fail(job, str(error))
        else:
            self._for, self._told = _files(job), time.monotonic()
            self._tools.reporter.event("ready", jobId=job.id, model=info.name, moduleSha256=job.module.sha256)

    async def _load(self, job: Job) -> ModelInfo:
        tools = self._tools
        tools.measurements.enter("receiving")
        module = await tools.cache.fetch(tools.server, job.id, job.module, "The module")
        tools.measurements.enter("preparing")
        async with asyncio.timeout(self._timing.load):
            info = await tools.trainer.load(module)
        tools.measurements.enter("receiving")
        check_files(info, job)
        for slot in job.auxiliary:
            await tools.cache.fetch(tools.server, job.id, slot, f"Auxiliary weights {slot.id}")
        tools.measurements.model_loaded(info.id, info.version, job)
        tools.measurements.rest()
        return info

    async def _fail(self, job: Job, reason: str) -> None:
        self._tools.measurements.fail(reason)
        body = {"jobId": job.id, "reason": reason[:REASON_CHARACTERS]}
        with contextlib.suppress(Problem):
            await self._connection.command("/api/v1/peer/load-failed", body)
        raise Stop(Exit.MODEL_UNUSABLE, f"The model cannot be loaded here: {reason}")


def check_files(info: ModelInfo, job: Job) -> None:
    """Only files that the model itself declares are fetched."""
    declared = {slot.id: (slot.sha256, slot.bytes) for slot in info.auxiliary_weights if slot.sha256 is not None}
    offered = {slot.id: (slot.sha256, slot.bytes) for slot in job.auxiliary}
    if offered != declared:
        raise Invalid(
            f"The auxiliary weights must be the files that the model declares, {_named(declared)}; "
            f"found {_named(offered)}.",
            field="auxiliary",
        )


def _named(slots: Mapping[str, tuple[str, int]]) -> str:
    return ", ".join(f"{slot} ({sha256[:12]}…, {size} bytes)" for slot, (sha256, size) in slots.items()) or "none"


def _files(job: Job) -> tuple[str, ...]:
    return (job.module.sha256, *(slot.sha256 for slot in job.auxiliary))
