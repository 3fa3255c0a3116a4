"""The websocket of a peer. Messages are hints: one dirty flag, never a queue; what is sent is read anew each time.

Writes to the database happen at hello, and once for each attempt that is heard training; heartbeats are gathered
(peers/services/presence.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from diagnostics.domain.snapshot import clean_snapshot, training_attempt
from diagnostics.live import go_on_above, last_sequence
from jobs.selectors.peer_state import peer_state
from jobs.services.participants import peer_hello
from jobs.services.updates import attempt_trains
from peers.gathering import snapshots
from peers.models import Peer
from peers.outbox import job_group, peer_group
from peers.services.presence import heartbeats
from peers.services.tokens import peer_for_token
from peers.socket_person import check_page
from peers.socket_rules import in_cache, in_database, type_of
from peers.sockets import JsonSocket
from peers.watching import JobWatch, authorized
from weei_core import protocol as wire
from weei_core.errors import Forbidden, Invalid, Unauthorized, Unavailable, WeeiError

logger = logging.getLogger(__name__)
denials = logging.getLogger("weei.denied")
RETRY_SECONDS = 1.0
SNAPSHOT_GAP_SECONDS = 0.5
SOON_SECONDS = 0.2
"""How long a change that can wait waits for one that cannot."""
NO_JOB = "none"
"""Stands for the job of a peer that has none."""
SOCKETS_PER_PEER = 5
PAGE_CHECK_SECONDS = 10.0
"""So long a page of another site may hear on after its right to take part has ended."""
DENIALS_LOGGED = 20
_open: dict[UUID, set[PeerConsumer]] = {}


class PeerConsumer(JsonSocket):
    """Wait for hello, then send the peer's state whenever it may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.peer: Peer | None = None
        self.session = 0
        self.trains = False
        self._changed = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self._snapshot: dict[str, Any] | None = None
        self._heard_training: UUID | None = None
        self._snapshot_came = asyncio.Event()
        self._sequence = 0
        self._job_id: str | None = None
        self._job_known = asyncio.Event()
        self._watch: JobWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self._denied: set[str] = set()

    async def opened(self) -> None:
        self.start(self._expect_hello())

    async def ended(self) -> None:
        if self.peer is not None:
            sockets = _open.get(self.peer.pk, set())
            sockets.discard(self)
            if not sockets:
                _open.pop(self.peer.pk, None)
            await self.part(peer_group(self.peer.pk))
        if self._watch is not None:
            await self.part(job_group(self._watch.job_id))

    # --- from the peer ---

    async def received(self, text: str) -> None:
        try:
            await self._handle(wire.parse_client_message(text))
        except WeeiError as error:
            await self._refuse(error, type_of(text))
        except (OperationalError, InterfaceError) as error:
            logger.warning("the database does not answer: %s", error)
            await self._refuse(Unavailable("The server cannot answer now; try again in a moment."), type_of(text))

    async def _refuse(self, error: WeeiError, about: str | None) -> None:
        self._log_denial(error, about)
        re = {} if about is None else {"re": about}
        await self.send_json({"type": "error", "code": error.code, "message": error.message, **re})
        if about == "hello" and error.code == Unauthorized.default_code:
            await self.close(wire.CLOSE_UNAUTHORIZED)
        elif about == "hello" and isinstance(error, Unauthorized | Forbidden):
            await self.close(1008)
        elif about == "hello" and isinstance(error, Unavailable):
            await self.close(1013)

    def _log_denial(self, error: WeeiError, about: str | None) -> None:
        """One line for each kind of refusal of this socket: a flood must not fill the log."""
        kind = f"{about!r} {error.code}"
        if kind not in self._denied and len(self._denied) < DENIALS_LOGGED:
            self._denied.add(kind)
            denials.info("user=- peer=%s WS /ws/peer message=%s", self.peer.pk if self.peer else "-", kind)

    async def _handle(self, message: Any) -> None:
        if isinstance(message, wire.Hello):
            await self._hello(message)
            return
        if self.peer is None:
            raise Invalid("The first message must be hello.", field="message.type", code="hello_first")
        heartbeats.note(self.peer.pk)
        if isinstance(message, wire.Diagnostics):
            if self.trains:
                self._keep(message.snapshot)
        elif isinstance(message, wire.Watch):
            await self._follow(message.jobId)

    async def _hello(self, message: wire.Hello) -> None:
        if message.protocol != wire.PROTOCOL_VERSION:
            await self.close(wire.CLOSE_PROTOCOL)
            return
        if self.peer is not None:
            raise Invalid("hello was said before.", field="message.type", code="hello_first")
        cast(dict[str, Any], self.scope)["user_token"] = message.user
        await in_database(check_page, self.scope)
        peer = await in_database(peer_for_token, message.token)
        sockets = _open.setdefault(peer.pk, set())
        if len(sockets) >= SOCKETS_PER_PEER:
            await self.close(1008)
            return
        sockets.add(self)
        self.peer = peer
        # Before anything is read, so that no change falls between the state and the first hint.
        await self.join(peer_group(peer.pk))
        allowed = await in_database(
            peer_hello,
            peer,
            train=message.train,
            session=message.session,
            attempt_id=message.attemptId,
            now=timezone.now(),
        )
        if not allowed:
            await self.close(wire.CLOSE_REPLACED)
            return
        self.trains, self.session = message.train, peer.session
        await self._welcome(peer)
        if "site_origin" in self.scope:
            self.start(self._check_page())
        if message.watch is not None:
            try:
                await self._follow(message.watch)
            except WeeiError as error:
                # The peer itself is welcome: whose job it may watch is a matter of its page.
                await self._refuse(error, "watch")

    async def _welcome(self, peer: Peer) -> None:
        self._sequence = await in_cache(last_sequence, peer.pk)
        await self.send_json(
            {
                "type": "welcome",
                "protocol": wire.PROTOCOL_VERSION,
                "peerId": str(peer.pk),
                "session": peer.session,
                "sequence": go_on_above(self._sequence),
                "heartbeatSeconds": wire.HEARTBEAT_SECONDS,
                "pollSeconds": wire.POLL_SECONDS,
            }
        )
        self._changed.set()
        self.start(self._send_states(peer))
        self.start(self._keep_snapshots(peer))

    def _keep(self, value: dict[str, Any]) -> None:
        """Only the latest snapshot counts; one that is older than what was kept is dropped."""
        size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > wire.MAX_SNAPSHOT_BYTES:
            limit = wire.MAX_SNAPSHOT_BYTES
            raise Invalid(f"snapshot must have at most {limit} bytes; found {size}.", field="snapshot")
        snapshot = clean_snapshot(value)
        if snapshot["sequence"] > self._sequence:
            self._sequence, self._snapshot = snapshot["sequence"], snapshot
            self._snapshot_came.set()

    async def _keep_snapshots(self, peer: Peer) -> None:
        await self._job_known.wait()
        while True:
            await self._snapshot_came.wait()
            self._snapshot_came.clear()
            if self._snapshot is not None:
                await snapshots.put(peer.pk, self._snapshot, self._job_id or NO_JOB)
                await self._note_training(peer, self._snapshot)
            await asyncio.sleep(SNAPSHOT_GAP_SECONDS)

    async def _note_training(self, peer: Peer, snapshot: dict[str, Any]) -> None:
        attempt_id = training_attempt(snapshot)
        if attempt_id is None or attempt_id == self._heard_training:
            return
        self._heard_training = attempt_id
        try:
            await in_database(attempt_trains, peer=peer, attempt_id=attempt_id, now=timezone.now())
        except (OperationalError, InterfaceError) as error:
            logger.warning("the beginning of a training was not noted: %s", error)

    async def _follow(self, job_id: UUID | None) -> None:
        """Tell about a job that the signed-in person coordinates, instead of the one before."""
        if job_id is not None:
            await in_database(authorized, self.scope, job_id)
        if self._watch is not None and self._watching is not None:
            self._watching.cancel()
            before, self._watch = self._watch, None
            await self.part(job_group(before.job_id))
        if job_id is not None:
            self._watch = JobWatch(job_id, self.scope, self.send_text)
            await self.join(job_group(job_id))
            self._watching = self.start(self._tell(self._watch))

    async def _tell(self, watch: JobWatch) -> None:
        try:
            await watch.run()
        except WeeiError as error:
            # Signed out, or the job is gone: the page behind this socket is not the coordinator's any more.
            await self._refuse(error, "watch")
            await self.close(1008)

    # --- to the peer ---

    async def peer_changed(self, event: dict[str, Any]) -> None:
        if not event.get("soon"):
            self._changed.set()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(SOON_SECONDS, self._changed.set)

    async def peer_replaced(self, event: dict[str, Any]) -> None:
        if self.trains and event["session"] != self.session:
            await self.close(wire.CLOSE_REPLACED)

    async def job_changed(self, event: dict[str, Any]) -> None:
        if self._watch is not None and event["job_id"] == str(self._watch.job_id):
            self._watch.what |= set(event["what"])

    async def _send_states(self, peer: Peer) -> None:
        """Send the whole state after each change; changes during a send are one more send."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._later is not None:
                self._later.cancel()
                self._later = None
            try:
                state = await in_database(peer_state, peer, timezone.now())
            except (OperationalError, InterfaceError) as error:
                logger.warning("the state was not read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()
                continue
            if self.trains and state["session"] != self.session:
                await self.close(wire.CLOSE_REPLACED)
                return
            self._job_id = state["job"] and state["job"]["id"]
            self._job_known.set()
            await self.send_json({"type": "state", **state})

    async def _check_page(self) -> None:
        while True:
            await asyncio.sleep(PAGE_CHECK_SECONDS)
            try:
                await in_database(check_page, self.scope)
            except WeeiError as error:
                await self._refuse(error, None)
                await self.close(1008)
            except (OperationalError, InterfaceError):
                continue

    async def _expect_hello(self) -> None:
        await asyncio.sleep(wire.HELLO_SECONDS)
        if self.peer is None:
            await self.close(wire.CLOSE_HELLO)
