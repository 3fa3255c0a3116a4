"""One fake participant: speaks the whole of docs/protocol.md, trains nothing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from tests.load.behaviour import BAD, draw
from tests.load.calls import Caller, Problem, delays
from tests.load.frames import Refused, Socket, connected
from tests.load.shared import Shared
from tests.load.snapshots import SNAPSHOT
from tests.load.transfer import Transfer
from tests.load.updates import broken, item_of, report_of, update_of
from weei_core.protocol import CLOSE_PROTOCOL, CLOSE_REPLACED, CLOSE_UNAUTHORIZED, HEARTBEAT_SECONDS, POLL_SECONDS

PING = b'{"type":"heartbeat","at":0}'
"""Not valid, so that it is answered: with an `error` frame, by the code that reads messages."""
PING_ANSWER = b'{"type":"error","code":"invalid_message"'
ENDS = (CLOSE_REPLACED, CLOSE_UNAUTHORIZED, CLOSE_PROTOCOL)


class Participant:
    def __init__(self, shared: Shared, index: int, *, token: str | None, source: str | None) -> None:
        self.online = False
        self.active = False
        """It takes part in a job and is ready."""
        self._shared, self._index, self._source = shared, index, source
        self._counters, self._behaviour = shared.counters, shared.behaviour
        self._draw = random.Random(f"{shared.seed}/{index}")
        self._calls = Caller(shared.url, shared.origin, self._draw, statuses=self._counters.statuses, source=source)
        self._calls.token = token or ""
        self._transfer = Transfer(shared, self._calls)
        self._socket: Socket | None = None
        self._session: int | None = None
        self._sequence = 0
        self._state: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._moments = self._state_moment = 0
        self._held: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._begun: set[asyncio.Task[None]] = set()
        self._delivering = False
        self._over: deque[str] = deque(maxlen=8)
        self._given: tuple[int, str] | None = None
        self._joined = False
        self._accepted_at: float | None = None
        self._connecting = 0.0
        self._pinged = 0.0
        self._spoke = 0.0
        self._stays_away = 0.0
        self._meant_to_close = False

    async def run(self) -> None:
        """Until cancelled, or until the server wants no more of this participant."""
        try:
            async with asyncio.TaskGroup() as group:
                if not self._calls.token:
                    made = await self._calls.json("POST", "/api/v1/peers", {})
                    self._calls.token = made["token"]
                tasks = [group.create_task(work) for work in self._tasks()]
                await tasks[0]
                for task in tasks:
                    task.cancel()
        finally:
            for work in self._begun:
                work.cancel()
            if self._socket is not None:
                self._socket.close()
            self._calls.close()

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        tasks = [self._stay_connected(), self._follow(), self._poll()]
        if self._behaviour.telemetry_seconds:
            tasks.append(self._tell())
        if self._behaviour.ping_seconds:
            tasks.append(self._ping())
        return [*tasks, self._beat()]

    # --- the socket ---

    async def _stay_connected(self) -> None:
        waits = delays(self._draw)
        while True:
            with contextlib.suppress(OSError):
                self._connecting = time.monotonic()
                self._socket = await self._connect()
                code = await self._socket.closed
                if self.online:
                    waits = delays(self._draw)
                self._ended(code)
                if code in ENDS:
                    return
            self.online = False
            await asyncio.sleep(self._stays_away + next(waits))
            self._stays_away = 0.0
            self._counters.reconnects += 1

    async def _connect(self) -> Socket:
        try:
            socket = await connected(self._shared.url, self._shared.origin, self._hear, source=self._source)
        except Refused as error:
            self._counters.closes[f"handshake {error.status}"] += 1
            raise
        hello: dict[str, Any] = {"type": "hello", "protocol": 1, "token": self._calls.token, "train": True}
        if self._session is not None:
            hello["session"] = self._session
        if self._held is not None:
            hello["attemptId"] = self._held
        socket.send(json.dumps(hello).encode())
        return socket

    def _ended(self, code: int) -> None:
        self._socket = None
        self.online = False
        if self._meant_to_close:
            self._meant_to_close = False
            return
        self._counters.drops += 1
        self._counters.closes[str(code)] += 1

    def _hang_up(self, seconds: float) -> None:
        self._stays_away = seconds
        if self._socket is not None:
            self._meant_to_close = True
            self._socket.cut()

    def _hear(self, frame: bytes) -> None:
        if frame.startswith(PING_ANSWER) and self._pinged:
            self._counters.latency["message"].add(time.monotonic() - self._pinged)
            self._pinged = 0.0
            return
        message = json.loads(frame)
        kind = message["type"]
        if kind == "state":
            self._counters.states += 1
            self._moments += 1
            self._offer(message, self._moments)
        elif kind == "welcome":
            self._counters.latency["connect"].add(time.monotonic() - self._connecting)
            self.online = True
            self._session, self._sequence = message["session"], message["sequence"]
        elif kind == "error":
            self._counters.errors[message["code"]] += 1

    def _say(self, frame: bytes) -> None:
        if self.online and self._socket is not None:
            self._spoke = time.monotonic()
            self._socket.send(frame)

    async def _tell(self) -> None:
        async for _ in self._every(self._behaviour.telemetry_seconds):
            if self.online and self._state is not None and self._state["job"] is not None:
                self._sequence += 1
                self._counters.snapshots += 1
                self._say(SNAPSHOT.frame(self._state["job"]["id"], self._sequence))

    async def _beat(self) -> None:
        """Every other message counts as a heartbeat."""
        async for _ in self._every(HEARTBEAT_SECONDS / 2):
            if time.monotonic() - self._spoke >= HEARTBEAT_SECONDS / 2:
                self._say(b'{"type":"heartbeat"}')

    async def _ping(self) -> None:
        async for _ in self._every(self._behaviour.ping_seconds):
            if self.online and not self._pinged:
                self._pinged = time.monotonic()
                self._say(PING)
            elif not self.online:
                self._pinged = 0.0

    async def _every(self, seconds: float) -> AsyncIterator[None]:
        """Each participant at moments of its own, so that a swarm makes an even load."""
        due = time.monotonic() + self._draw.uniform(0, seconds)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield
            due = max(due + seconds, time.monotonic())

    # --- the state, and what follows from it ---

    def _offer(self, state: dict[str, Any], moment: int) -> None:
        """An answer to a question that was asked before a newer state came is dropped."""
        if moment > self._state_moment:
            self._state_moment, self._state = moment, state
            self._changed.set()

    async def _command(self, path: str, body: dict[str, Any]) -> None:
        self._moments += 1
        moment = self._moments
        self._offer(await self._calls.json("POST", path, body), moment)

    async def _poll(self) -> None:
        """When no state came for a while, by whatever way."""
        seen, since = 0, time.monotonic()
        async for _ in self._every(1.0):
            if self._state_moment != seen:
                seen, since = self._state_moment, time.monotonic()
            elif self._session is not None and time.monotonic() - since >= POLL_SECONDS and not self._stays_away:
                since = time.monotonic()
                await self._ask()

    async def _ask(self) -> None:
        self._moments += 1
        moment, begun = self._moments, time.monotonic()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            answer = await self._calls.once("GET", "/api/v1/peer/state")
            problem = answer.problem
            if problem is not None:
                self._counters.refused[problem.code] += 1
            elif answer.status == 200:
                self._counters.latency["poll"].add(time.monotonic() - begun)
                self._offer(json.loads(answer.body), moment)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._apply()
            except Problem as problem:
                self._counters.refused[problem.code] += 1
                self._counters.unexpected[f"following {problem.code}"] += 1

    async def _apply(self) -> None:
        state = self._state
        assert state is not None
        job, assignment = state["job"], state["assignment"]
        self.active = job is not None and job["ready"]
        if job is None:
            await self._join()
        elif not job["ready"] and job["state"] in ("approved", "modelLoaded") and job["status"] != "completed":
            await self._get_ready(job)
        named = assignment and assignment["attemptId"]
        if self._work is not None and named != self._held and not self._delivering:
            self._work.cancel()
            self._work = self._held = None
        if assignment is not None and assignment["attemptId"] not in self._over and self._work is None:
            self._begin(assignment)

    async def _join(self) -> None:
        if self._shared.invitation is None or self._joined:
            return
        found = await self._calls.json("POST", "/api/v1/invitations/open", {"token": self._shared.invitation})
        await self._command("/api/v1/invitations/decide", {"jobId": found["jobId"], "accepted": True})
        self._joined = True

    async def _get_ready(self, job: dict[str, Any]) -> None:
        files = [job["module"], *job["auxiliary"]]
        if self._behaviour.download:
            for file in files:
                await self._transfer.fetch(job["id"], file)
        auxiliary = {slot["id"]: slot["sha256"] for slot in job["auxiliary"]}
        body = {"jobId": job["id"], "moduleSha256": job["module"]["sha256"], "auxiliary": auxiliary}
        await self._command("/api/v1/peer/ready", body)

    # --- an assignment ---

    def _begin(self, assignment: dict[str, Any]) -> None:
        self._counters.assignments += 1
        if self._accepted_at is not None:
            self._counters.latency["next"].add(time.monotonic() - self._accepted_at)
        self._held = assignment["attemptId"]
        self._delivering = False
        self._work = asyncio.create_task(self._try(assignment, self._fault(assignment)))
        self._begun.add(self._work)
        self._work.add_done_callback(self._begun.discard)

    def _fault(self, assignment: dict[str, Any]) -> str | None:
        """At most one for each time that an item is dealt, or a participant would be loaded anew for ever."""
        shared, item = self._shared, item_of(assignment)
        again, self._given = self._given, (assignment["round"], item)
        if again == self._given:
            return None
        fault = self._behaviour.fault(shared.seed, self._index, assignment["round"], item)
        if fault == "bad" and item in shared.spoiled:
            return None
        if fault is not None:
            self._counters.failures[fault] += 1
        return fault

    async def _try(self, assignment: dict[str, Any], fault: str | None) -> None:
        """One attempt to its end; only cancelling leaves it open."""
        try:
            await self._transfer.fetch_for(assignment)
            await self._train(fault)
            if fault == "reload":
                self._load_anew(assignment["attemptId"], self._draw.uniform(0, self._behaviour.away_seconds))
                return
            await self._deliver(assignment, fault)
        except Problem as problem:
            self._counters.refused[problem.code] += 1
            if problem.code != "stale_attempt":
                self._counters.unexpected[problem.code] += 1
        except ValueError as error:
            self._counters.unexpected[str(error)] += 1
        self._over.append(assignment["attemptId"])
        if self._work is asyncio.current_task():
            self._work = self._held = None
            self._changed.set()

    async def _train(self, fault: str | None) -> None:
        seconds = self._behaviour.work_seconds
        if fault == "straggle":
            seconds *= self._behaviour.straggle_factor
        await asyncio.sleep(seconds / 2)
        if fault == "drop_out":
            self._hang_up(self._draw.uniform(0, self._behaviour.away_seconds))
        await asyncio.sleep(seconds / 2)
        while self._stays_away:
            await asyncio.sleep(0.05)

    def _load_anew(self, attempt: str, away: float) -> None:
        """As a page does: it names no session and no attempt, and is given its work as a new attempt."""
        self._over.append(attempt)
        self._work = self._held = self._session = None
        self._hang_up(away)

    async def _deliver(self, assignment: dict[str, Any], fault: str | None) -> None:
        weights, attempt = assignment["weights"], assignment["attemptId"]
        item = item_of(assignment)
        update = update_of(weights["sha256"], item, assignment["seed"], weights["bytes"])
        report = report_of(assignment)
        sha256 = hashlib.sha256(update).hexdigest()
        self._delivering = True
        if fault == "bad" and not await self._deliver_badly(assignment, update, report):
            return
        if fault == "late":
            await self._be_late(attempt, update, sha256, report)
            return
        begun = time.monotonic()
        await self._transfer.upload(attempt, update, sha256, report)
        self._accepted_at = time.monotonic()
        self._counters.latency["upload"].add(self._accepted_at - begun)
        self._counters.accepted += 1
        self._shared.spoiled.discard(item)
        if fault == "duplicate" and not await self._transfer.upload(attempt, update, sha256, report):
            self._counters.unexpected["a duplicate was taken for new"] += 1
        if fault == "other_bytes":
            other = update_of(sha256, item, "other", len(update))
            declared = hashlib.sha256(other).hexdigest()
            # The round may be over before they come, which is an answer of its own.
            await self._refused(
                ("already_received", "stale_attempt"), self._transfer.upload(attempt, other, declared, report)
            )

    async def _deliver_badly(self, assignment: dict[str, Any], update: bytes, report: dict[str, Any]) -> bool:
        """Whether the right update may follow."""
        attempt, item = assignment["attemptId"], item_of(assignment)
        kind = BAD[int(draw(self._shared.seed, "kind", attempt) * len(BAD))]
        self._shared.spoiled.add(item)
        self._counters.failures[kind] += 1
        wrong, report, declared = broken(kind, update, report)
        await self._refused((kind, "stale_attempt"), self._transfer.upload(attempt, wrong, declared, report))
        return kind == "hash_mismatch"

    async def _be_late(self, attempt: str, update: bytes, sha256: str, report: dict[str, Any]) -> None:
        """Say hello as a page that was loaded anew, which replaces the attempt, and then come with its update."""
        before = self._socket
        self._load_anew(attempt, 0.0)
        while self._socket is before or not self.online:
            await asyncio.sleep(0.05)
        await self._refused(("stale_attempt",), self._transfer.upload(attempt, update, sha256, report))

    async def _refused(self, codes: tuple[str, ...], call: Coroutine[Any, Any, bool]) -> None:
        try:
            await call
        except Problem as problem:
            self._counters.refused[problem.code] += 1
            if problem.code not in codes:
                self._counters.unexpected[f"{problem.code} instead of {codes[0]}"] += 1
        else:
            self._counters.unexpected[f"accepted instead of {codes[0]}"] += 1
