"""`diagnostics_fanout`: 200 participants tell of themselves every two seconds, and five pages watch, on the real
processes. Beside it a bare echo server on the same stack, which takes and sends as many and as large frames.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from benchmarks.measured import Duration, Figure, Measured
from tests.stack.model_jobs import DigitsJob
from tests.stack.ports import free_port
from tests.stack.stack import ROOT, Stack
from weei_site.launch.supervision import end_with_parent

PARTICIPANTS = 200
DASHBOARDS = 5
SNAPSHOT_SECONDS = 2.0
LIVE_SECONDS = 1.0
WARM_UP_SECONDS = 5
SECONDS = 30
SETTLE_SECONDS = 5
START_SECONDS = 30
FRAME_BYTES = 60_000
"""About what one live frame of many snapshots has."""
MOST_CORES = 0.5
MOST_MIB = 300
SNAPSHOT = json.loads((ROOT / "tests/golden/diagnostics.json").read_text())["whole"]
MEMBERS = """
from jobs.models import Job
from peers.models import Membership
from peers.services.tokens import peer_create
from django.utils import timezone
job, answer = Job.objects.get(pk=job_id), []
for _ in range(count):
    peer, token = peer_create()
    Membership.objects.create(
        job=job, peer=peer, role="participant", trains=True, current=True,
        state=Membership.State.MODEL_LOADED, ready_for=job.ready_key, accepted_at=timezone.now(),
    )
    answer.append([str(peer.pk), token])
"""


def measure() -> Iterator[Figure]:
    with Stack() as stack:
        ours = asyncio.run(diagnostics_load(stack))
    theirs = asyncio.run(echo_load(ours.live_bytes))
    per_second = PARTICIPANTS / SNAPSHOT_SECONDS
    peer = f"a bare Starlette websocket echo of {PARTICIPANTS} snapshots and {DASHBOARDS} dashboards on uvicorn"
    yield Duration("diagnostics_fanout_cpu", ours.cores, "cores", MOST_CORES)
    yield Duration("diagnostics_fanout_memory", ours.mib, "MiB", MOST_MIB)
    yield Duration("diagnostics_fanout_update_gap_p95", ours.gap_p95, "s", 1.5 * LIVE_SECONDS)
    yield Duration("diagnostics_fanout_not_shown", ours.lost, "last snapshots", 0)
    yield Measured("diagnostics_fanout", per_second / ours.cores, "snapshots/CPU s", peer, per_second / theirs.cores)


@dataclass
class Load:
    """What the server's process used, and what came to the dashboards."""

    cores: float
    mib: float
    gap_p95: float = 0.0
    lost: int = 0
    live_bytes: int = 0
    """That one dashboard got in a second."""


@dataclass
class Dashboard:
    """One page that watches: when it was told something, and each participant's latest number."""

    times: list[float] = field(default_factory=list)
    shown: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    def hear(self, frame: str) -> None:
        message = json.loads(frame)
        if message["type"] == "live":
            self.times.append(time.monotonic())
            self.bytes += len(frame)
            self.shown |= {peer: said["snapshot"]["sequence"] for peer, said in message["peers"].items()}


async def diagnostics_load(stack: Stack) -> Load:
    job = DigitsJob(stack)
    members = stack.shell(MEMBERS, job_id=job.id, count=PARTICIPANTS)
    url = stack.url.replace("http", "ws") + "/ws/peer"
    cookie = "; ".join(f"{name}={value}" for name, value in stack.signed_in().cookies.items())
    watcher = stack.shell("from peers.services.tokens import peer_create\nanswer = peer_create()[1]")
    watching = {"type": "hello", "protocol": 1, "token": watcher, "train": False, "watch": job.id}
    dashboards = [Dashboard() for _ in range(DASHBOARDS)]
    told: dict[str, int] = {}
    async with running() as start:
        for dashboard in dashboards:
            start(listen(await opened(url, stack.url, watching, cookie), dashboard.hear))
        for index, (peer_id, token) in enumerate(members):
            socket = await opened(url, stack.url, {"type": "hello", "protocol": 1, "token": token, "train": True})
            start(listen(socket, lambda frame: None))
            start(tell(socket, peer_id, job.id, told, SNAPSHOT_SECONDS * index / PARTICIPANTS))
        await asyncio.sleep(WARM_UP_SECONDS)
        for dashboard in dashboards:
            dashboard.times, dashboard.bytes = [], 0
        load = await used(stack.pid("web"))
        gaps = [
            after - before for page in dashboards for before, after in zip(page.times, page.times[1:], strict=False)
        ]
        # Frames of one second come together.
        load.gap_p95 = statistics.quantiles([gap for gap in gaps if gap > LIVE_SECONDS / 4], n=20)[-1]
        load.live_bytes = round(statistics.mean(page.bytes for page in dashboards) / SECONDS)
        load.lost = await not_shown(dashboards, told)
        return load


async def tell(socket: ClientConnection, peer_id: str, job_id: str, told: dict[str, int], delay: float) -> None:
    """A participant in the middle of training. `told` has the latest number of each."""
    snapshot = {**SNAPSHOT, "assignment": {**SNAPSHOT["assignment"], "jobId": job_id}}
    sequence = round(time.time() * 1000)
    await asyncio.sleep(delay)
    async for _ in every(SNAPSHOT_SECONDS):
        sequence += 1
        told[peer_id] = sequence
        await socket.send(json.dumps({"type": "diagnostics", "snapshot": {**snapshot, "sequence": sequence}}))


async def not_shown(dashboards: list[Dashboard], told: dict[str, int]) -> int:
    """How many of the latest snapshots did not come to some page. They supersede all that a page was not shown."""
    latest = dict(told)
    await asyncio.sleep(SETTLE_SECONDS)
    return sum(page.shown.get(peer, 0) < sequence for page in dashboards for peer, sequence in latest.items())


async def echo_load(live_bytes: int) -> Load:
    """The same frames, each sent back to where it came from."""
    port = free_port()
    options = ["--port", str(port), "--ws-per-message-deflate", "false", "--log-level", "warning"]
    command = [sys.executable, "-m", "uvicorn", "benchmarks.echo_app:app", *options]
    server = subprocess.Popen(command, cwd=ROOT, preexec_fn=end_with_parent)
    try:
        async with running() as start:
            url = f"ws://127.0.0.1:{port}/"
            snapshot = json.dumps({"type": "diagnostics", "snapshot": SNAPSHOT})
            for index in range(PARTICIPANTS):
                start(echoed(await opened(url), [snapshot], SNAPSHOT_SECONDS, index / PARTICIPANTS))
            frames = ["x" * FRAME_BYTES] * (live_bytes // FRAME_BYTES) + ["x" * (live_bytes % FRAME_BYTES)]
            for index in range(DASHBOARDS):
                start(echoed(await opened(url), frames, LIVE_SECONDS, index / DASHBOARDS))
            await asyncio.sleep(WARM_UP_SECONDS)
            return await used(server.pid)
    finally:
        server.terminate()
        server.wait()


async def echoed(socket: ClientConnection, frames: list[str], seconds: float, phase: float) -> None:
    await asyncio.sleep(seconds * phase)
    async for _ in every(seconds):
        for frame in frames:
            await socket.send(frame)
            await socket.recv()


# --- what both need ---


async def used(pid: int) -> Load:
    """Of one process, over the measured time."""
    before, begun = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(SECONDS)
    cores = (cpu_seconds(pid) - before) / (time.monotonic() - begun)
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Load(cores, resident * os.sysconf("SC_PAGE_SIZE") / 2**20)


def cpu_seconds(pid: int) -> float:
    """In user and kernel mode; the name before them may hold spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def opened(url: str, origin: str | None = None, hello: Any = None, cookie: str = "") -> ClientConnection:
    """A socket, once its server listens, that has said hello."""
    headers = {"Cookie": cookie} if cookie else {}
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                socket = await connect(
                    url,
                    origin=Origin(origin) if origin else None,
                    additional_headers=headers,
                    compression=None,
                    max_size=None,
                )
                break
            except OSError:
                await asyncio.sleep(0.1)
    if hello is not None:
        await socket.send(json.dumps(hello))
    return socket


async def listen(socket: ClientConnection, hear: Callable[[str], None]) -> None:
    async for frame in socket:
        hear(str(frame))


async def every(seconds: float) -> AsyncIterator[None]:
    """Now, and then on time, also when what is done meanwhile takes a while."""
    due = time.monotonic()
    while True:
        yield
        due += seconds
        await asyncio.sleep(max(0.0, due - time.monotonic()))


@asynccontextmanager
async def running() -> AsyncIterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Starts tasks that end with the block; one that fails before ends it."""
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        yield lambda work: tasks.append(group.create_task(work))
        for task in tasks:
            task.cancel()
