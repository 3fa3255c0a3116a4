"""The websocket of a peer. Messages are hints: one dirty flag, never a queue; what is sent is read anew each time.

Writes to the database happen at hello only; heartbeats are gathered (peers/services/presence.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import timezone

from diagnostics.domain.snapshot import clean_snapshot
from diagnostics.live import last_sequence, snapshot_put, snapshots
from jobs.selectors.access import job_for_owner
from jobs.selectors.peer_state import peer_state
from jobs.selectors.status import participant_ids
from jobs.services.participants import peer_hello
from peers.models import Peer
from peers.outbox import job_group, peer_group
from peers.services.presence import heartbeats
from peers.services.tokens import peer_for_token
from weei_core import js_json
from weei_core import protocol as wire
from weei_core.errors import Invalid, Unauthorized, WeeiError

logger = logging.getLogger(__name__)
SEND_SECONDS = 30
LIVE_SECONDS = 1.0
SOCKETS_PER_PEER = 8
_open: dict[UUID, set[PeerConsumer]] = {}


class PeerConsumer(AsyncWebsocketConsumer):
    """From connect to close: wait for hello, then send the peer's state whenever it may have changed."""

    peer: Peer | None = None
    session = 0
    trains = False
    watching: UUID | None = None

    async def connect(self) -> None:
        self._times: deque[float] = deque(maxlen=wire.MAX_MESSAGES_PER_SECOND)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._sent_live: dict[str, int] = {}
        self._what: set[str] = set()
        await self.accept()
        self._start(self._expect_hello())

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        if self.peer is not None:
            _open.get(self.peer.pk, set()).discard(self)
            await self._group("group_discard", peer_group(self.peer.pk))
        if self.watching is not None:
            await self._group("group_discard", job_group(self.watching))
        raise StopConsumer

    # --- from the peer ---

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        now = time.monotonic()
        if len(self._times) == self._times.maxlen and now - self._times[0] < 1:
            await self.close(1008)
            return
        self._times.append(now)
        if text_data is None:
            await self.close(1003)
            return
        try:
            message = wire.parse_client_message(text_data)
            await self._handle(message)
        except WeeiError as error:
            await self._send({"type": "error", "code": error.code, "message": error.message})
            if isinstance(error, Unauthorized):
                await self.close(wire.CLOSE_UNAUTHORIZED)

    async def _handle(self, message: Any) -> None:
        if isinstance(message, wire.Hello):
            await self._hello(message)
            return
        if self.peer is None:
            raise Invalid("The first message must be hello.", field="message.type", code="hello_first")
        heartbeats.note(self.peer.pk)
        if isinstance(message, wire.Diagnostics):
            if len(js_json.dumps(message.snapshot)) > wire.MAX_SNAPSHOT_BYTES:
                raise Invalid(f"snapshot: at most {wire.MAX_SNAPSHOT_BYTES} bytes are allowed.", field="snapshot")
            await self._keep(clean_snapshot(message.snapshot))
        elif isinstance(message, wire.Watch):
            await self._watch(message.jobId)

    async def _hello(self, message: wire.Hello) -> None:
        if message.protocol != wire.PROTOCOL_VERSION:
            await self.close(wire.CLOSE_PROTOCOL)
            return
        if self.peer is not None:
            raise Invalid("hello was said before.", field="message.type", code="hello_first")
        peer = await database_sync_to_async(peer_for_token)(message.token)
        sockets = _open.setdefault(peer.pk, set())
        if len(sockets) >= SOCKETS_PER_PEER:
            await self.close(1008)
            return
        sockets.add(self)
        self.peer = peer
        await self._group("group_add", peer_group(peer.pk))
        allowed = await database_sync_to_async(peer_hello)(
            peer, train=message.train, session=message.session, attempt_id=message.attemptId, now=timezone.now()
        )
        if not allowed:
            await self.close(wire.CLOSE_REPLACED)
            return
        self.trains, self.session = message.train, peer.session
        await self._send(
            {
                "type": "welcome",
                "protocol": wire.PROTOCOL_VERSION,
                "peerId": str(peer.pk),
                "session": peer.session,
                "sequence": await database_sync_to_async(last_sequence)(peer.pk),
                "heartbeatSeconds": wire.HEARTBEAT_SECONDS,
                "pollSeconds": wire.POLL_SECONDS,
            }
        )
        self._changed.set()
        self._start(self._send_states())
        if message.watch is not None:
            await self._watch(message.watch)

    async def _keep(self, snapshot: dict[str, Any]) -> None:
        assert self.peer is not None
        await database_sync_to_async(snapshot_put)(self.peer.pk, snapshot)

    async def _watch(self, job_id: UUID | None) -> None:
        """Follow a job that the signed-in person coordinates."""
        if job_id is not None:
            await database_sync_to_async(job_for_owner)(self.scope["user"], job_id)
        if self.watching is not None:
            await self._group("group_discard", job_group(self.watching))
        first = self.watching is None
        self.watching, self._sent_live = job_id, {}
        if job_id is not None:
            await self._group("group_add", job_group(job_id))
            if first:
                self._start(self._send_live())

    # --- to the peer ---

    async def peer_changed(self, event: dict[str, Any]) -> None:
        self._changed.set()

    async def peer_replaced(self, event: dict[str, Any]) -> None:
        if self.trains and event["session"] != self.session:
            await self.close(wire.CLOSE_REPLACED)

    async def job_changed(self, event: dict[str, Any]) -> None:
        self._what |= set(event["what"])

    async def _send_states(self) -> None:
        """Send the whole state after each change; changes during a send are one more send."""
        assert self.peer is not None
        while True:
            await self._changed.wait()
            self._changed.clear()
            state = await database_sync_to_async(peer_state)(self.peer, timezone.now())
            if self.trains and state["session"] != self.session:
                await self.close(wire.CLOSE_REPLACED)
                return
            await self._send({"type": "state", **state})

    async def _send_live(self) -> None:
        """What changed in the watched job, a few times a second; snapshots once a second."""
        while True:
            await asyncio.sleep(LIVE_SECONDS / 4)
            if self.watching is None:
                continue
            if self._what:
                what, self._what = sorted(self._what), set()
                await self._send({"type": "job", "jobId": str(self.watching), "what": what})
            if not (time.monotonic() % LIVE_SECONDS < LIVE_SECONDS / 4):
                continue
            fresh = await database_sync_to_async(self._fresh_snapshots)(self.watching)
            if fresh:
                await self._send({"type": "live", "jobId": str(self.watching), "peers": fresh})

    def _fresh_snapshots(self, job_id: UUID) -> dict[str, Any]:
        """Snapshots that this socket has not sent yet."""
        connected = participant_ids(job_id, timezone.now())
        fresh = {}
        for peer_id, held in snapshots(connected).items():
            sequence = held["snapshot"]["sequence"]
            if self._sent_live.get(peer_id) != sequence:
                self._sent_live[peer_id] = sequence
                fresh[peer_id] = {**held, "connected": connected[UUID(peer_id)]}
        return fresh

    async def _send(self, message: dict[str, Any]) -> None:
        """A peer that does not drain its socket is cut off; it will fetch everything when it returns."""
        try:
            await asyncio.wait_for(self.send(text_data=js_json.dumps(message)), SEND_SECONDS)
        except TimeoutError:
            await self.close(1008)

    async def _expect_hello(self) -> None:
        await asyncio.sleep(wire.HELLO_SECONDS)
        if self.peer is None:
            await self.close(wire.CLOSE_HELLO)

    async def _group(self, method: str, group: str) -> None:
        """Groups are for hints: without Redis the socket still works, and its peer polls."""
        try:
            await asyncio.wait_for(getattr(self.channel_layer, method)(group, self.channel_name), 2)
        except Exception as error:
            logger.warning("%s %s: %s", method, group, error)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("a socket's task failed", exc_info=task.exception())
