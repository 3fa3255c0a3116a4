"""One participant: follows the latest state, and does at most one thing at a time for it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from weei_agent.attempt import Attempt, Tools
from weei_agent.connection import Connection, Timing
from weei_agent.joining import refusal_of
from weei_agent.outcomes import AttemptFailed, Enough, Exit, Stop, first_error
from weei_agent.readiness import REASON_CHARACTERS, Readiness
from weei_agent.report import Live
from weei_agent.state import Assignment, Job, PeerState
from weei_client.server import Problem, Unreachable
from weei_core.protocol import Welcome

LIVE_SECONDS = 0.25
GOODBYE_SECONDS = 2.0
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class Bounds:
    """What the person who started the agent allows. None: no bound. `rest_seconds` follow each update."""

    rounds: int | None = None
    minutes: float | None = None
    rest_seconds: float = 0.0


class Agent:
    """Takes part in one job until it is over for this peer."""

    def __init__(self, tools: Tools, token: str, job_id: str, timing: Timing, bounds: Bounds) -> None:
        self.updates = 0
        self._tools = tools
        self._job_id = job_id
        self._timing = timing
        self._bounds = bounds
        self._attempt: Attempt | None = None
        self._work: asyncio.Task[None] | None = None
        self._over: set[str] = set()
        self._told: tuple[str, int] | None = None
        self._connection = Connection(
            tools.server,
            token,
            timing,
            held_attempt=self._held,
            snapshot=self._snapshot,
            on_welcome=self._welcomed,
        )
        self._readiness = Readiness(tools, self._connection, timing, still_member=self._my_job)
        tools.measurements.on_stage = self._connection.snapshot_changed

    async def accept(self) -> None:
        """Say yes to the invitation."""
        try:
            await self._connection.command("/api/v1/invitations/decide", {"jobId": self._job_id, "accepted": True})
        except Problem as problem:
            raise refusal_of(problem) from None

    async def run(self) -> None:
        """This peer is a member already. Ends only by raising."""
        try:
            await self._begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._connection.run())
                group.create_task(self._follow())
                group.create_task(self._show())
                group.create_task(self._mind_the_time())
        except BaseExceptionGroup as errors:
            error = first_error(errors)
            raise (refusal_of(error) if isinstance(error, Problem) else error) from None
        except Problem as problem:
            raise refusal_of(problem) from None
        finally:
            await self._drop()

    async def say_goodbye(self) -> None:
        """Frees what this peer was dealt at once, instead of when its lease runs out. Best effort."""
        with contextlib.suppress(TimeoutError, Unreachable, Problem):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._tools.server.json_once(
                    "POST", "/api/v1/peer/pause", {"jobId": self._job_id, "paused": True}
                )

    async def _begin(self) -> None:
        await self._connection.poll()
        job = self._my_job()
        peer_id = self._connection.state.peerId if self._connection.state else ""
        self._tools.reporter.event("accepted", jobId=job.id, jobName=job.name, peerId=peer_id)
        if job.pausedByPeer:
            await self._connection.command("/api/v1/peer/pause", {"jobId": self._job_id, "paused": False})

    async def _follow(self) -> None:
        await self._connection.introduced.wait()
        while True:
            self._connection.changed.clear()
            await self._apply()
            await self._connection.changed.wait()

    async def _apply(self) -> None:
        """Brings what is being done in line with the latest state."""
        await self._settle()
        job, state = self._my_job(), self._connection.state
        assignment = state.assignment if state else None
        self._tell(job)
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            work.result()
        if self._attempt is not None and not self._is_named(self._attempt.assignment):
            self._tools.reporter.event("dropped", **_names(self._attempt.assignment))
            await self._drop()
            self._tools.measurements.rest()
        if self._work is None:
            self._begin_next(job, assignment)

    async def _settle(self) -> None:
        """The news that an update was accepted may overtake the answer to its upload, which alone says so."""
        attempt, work = self._attempt, self._work
        if attempt is not None and work is not None and attempt.delivering and not self._is_named(attempt.assignment):
            await asyncio.wait([work], timeout=SETTLE_SECONDS)

    def _my_job(self) -> Job:
        job = self._connection.state.job if self._connection.state else None
        if job is None or job.id != self._job_id:
            raise Stop(Exit.REMOVED, "This agent is not in the job any more: it was removed, or the job is gone.")
        if job.status == "completed":
            self._tools.reporter.event("completed", jobId=job.id, jobName=job.name, round=job.round)
            raise Stop(Exit.COMPLETED, f"Updates delivered: {self.updates}.")
        return job

    def _tell(self, job: Job) -> None:
        if self._told != (job.status, job.round):
            self._told = (job.status, job.round)
            self._tools.reporter.event(
                "round",
                jobId=job.id,
                round=job.round,
                status=job.status,
                passesDone=job.passesDone,
                plannedPasses=job.plannedPasses,
                waitingFor=job.waitingFor or "",
            )
        measurements = self._tools.measurements
        if measurements.stage == "awaitingAggregation" and measurements.round != job.round:
            measurements.rest()

    def _begin_next(self, job: Job, assignment: Assignment | None) -> None:
        if self._readiness.is_lacking(job):
            self._work = asyncio.create_task(self._readiness.reach(job))
        elif assignment is not None and assignment.attemptId not in self._over:
            self._attempt = Attempt(self._tools, job, assignment)
            self._work = asyncio.create_task(self._try(self._attempt))
        else:
            return
        self._work.add_done_callback(lambda _: self._connection.changed.set())

    async def _try(self, attempt: Attempt) -> None:
        """One attempt to its end, whatever that is; only cancelling leaves it open."""
        work, tools = attempt.assignment, self._tools
        tools.measurements.begin(work)
        tools.reporter.event("assigned", **_names(work), exampleCount=work.exampleCount, unit=attempt.unit)
        try:
            await self._connection.poll_after_silence()
            if not self._is_named(work):
                return
            update = await attempt.make_update()
            duplicate = await attempt.deliver(update)
            self.updates += 1
            tools.reporter.event(
                "uploaded", **_names(work), bytes=update.bytes, duplicate=duplicate, updates=self.updates
            )
        except AttemptFailed as failure:
            self._attempt = None
            await self._fail(work, failure.reason)
        except Problem as problem:
            self._attempt = None
            await self._refused(work, problem)
        finally:
            attempt.clean_up()
        self._attempt = None
        self._over.add(work.attemptId)
        if self._bounds.rounds is not None and self.updates >= self._bounds.rounds:
            raise Enough(f"Updates delivered: {self.updates}, as many as --max-rounds allows.")
        await asyncio.sleep(self._bounds.rest_seconds)
        await self._connection.poll_if_offline()

    async def _refused(self, work: Assignment, problem: Problem) -> None:
        """The server ended most refused attempts itself; one that it still names would keep the round waiting."""
        await self._connection.poll()
        if problem.code == "stale_attempt":
            self._tools.reporter.event("dropped", **_names(work))
            self._tools.measurements.rest()
        elif self._is_named(work):
            await self._fail(work, problem.title)
        else:
            self._tools.reporter.event("failed", **_names(work), reason=problem.title)
            self._tools.measurements.fail(problem.title)

    async def _fail(self, work: Assignment, reason: str) -> None:
        self._tools.reporter.event("failed", **_names(work), reason=reason)
        self._tools.measurements.fail(reason)
        self._over.add(work.attemptId)
        with contextlib.suppress(Problem):  # over already
            await self._connection.command(
                f"/api/v1/peer/attempts/{work.attemptId}/failed", {"reason": reason[:REASON_CHARACTERS]}
            )

    async def _drop(self) -> None:
        """End what is being done, children included."""
        work, self._work, self._attempt = self._work, None, None
        if work is not None:
            work.cancel()
            await asyncio.wait([work])

    def _is_named(self, work: Assignment) -> bool:
        named = self._connection.state.assignment if self._connection.state else None
        return named is not None and named.attemptId == work.attemptId

    def _held(self) -> str | None:
        return self._attempt.assignment.attemptId if self._attempt else None

    def _snapshot(self) -> dict[str, Any]:
        return self._tools.measurements.snapshot()

    def _welcomed(self, welcome: Welcome) -> None:
        self._tools.measurements.continue_after(welcome.sequence)

    async def _mind_the_time(self) -> None:
        if self._bounds.minutes is not None:
            await asyncio.sleep(self._bounds.minutes * 60)
            raise Enough(f"Updates delivered: {self.updates}; --max-minutes is over.")

    async def _show(self) -> None:
        while True:
            state = self._connection.state
            if state and state.job:
                self._tools.reporter.live(_live(state, state.job, self._tools))
            await asyncio.sleep(LIVE_SECONDS)


def _names(work: Assignment) -> dict[str, Any]:
    return {"jobId": work.jobId, "round": work.round, "attemptId": work.attemptId, "chunkId": work.chunkId}


def _live(state: PeerState, job: Job, tools: Tools) -> Live:
    measurements = tools.measurements
    return Live(
        job_name=job.name,
        round=job.round,
        passes_done=job.passesDone,
        planned_passes=job.plannedPasses,
        waiting_for=job.waitingFor or "",
        stage=measurements.stage,
        done=measurements.processed,
        total=measurements.total,
        per_second=measurements.per_second(),
    )
