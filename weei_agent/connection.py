"""The latest state of this peer, by websocket and by polling. Whatever comes is a whole snapshot: the newest wins."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Origin

from weei_agent.outcomes import Exit, Stop, UnknownPeer
from weei_agent.state import PeerState, read
from weei_client.server import Problem, Server, Unreachable
from weei_core import protocol
from weei_core.errors import Invalid

SNAPSHOT_SECONDS = 2.0
# Stages of a short round follow one another faster than the server reads messages of one peer.
SNAPSHOT_GAP_SECONDS = 0.2


@dataclass(frozen=True)
class Timing:
    poll: float = protocol.POLL_SECONDS
    lease: float = protocol.LEASE_SECONDS
    snapshot: float = SNAPSHOT_SECONDS
    snapshot_gap: float = SNAPSHOT_GAP_SECONDS
    first_retry: float = 0.5
    last_retry: float = 30.0
    load: float = 300.0


class Connection:
    """`held_attempt` names the attempt this agent still works on; `snapshot` makes the next diagnostics."""

    def __init__(
        self,
        server: Server,
        token: str,
        timing: Timing,
        *,
        held_attempt: Callable[[], str | None],
        snapshot: Callable[[], dict[str, Any]],
        on_welcome: Callable[[protocol.Welcome], None],
    ) -> None:
        self.state: PeerState | None = None
        self.changed = asyncio.Event()
        # The first hello names no attempt, so work taken before its answer may be taken away by it.
        self.introduced = asyncio.Event()
        self._server = server
        self._token = token
        self._timing = timing
        self._held_attempt = held_attempt
        self._snapshot = snapshot
        self._on_welcome = on_welcome
        self._session: int | None = None
        self._online = False
        self._snapshot_due = asyncio.Event()
        self._new_state = asyncio.Event()
        # Order of knowledge: a request counts from when it was asked, a socket state from when it came.
        self._moments = 0
        self._state_moment = 0

    async def run(self) -> None:
        """Until cancelled; ends by raising `Stop` when the server wants no more of this agent."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_socket())
            group.create_task(self._keep_polling())

    def snapshot_changed(self) -> None:
        self._snapshot_due.set()

    async def command(self, path: str, body: object) -> None:
        """A POST that answers with the state; made again until it is answered, raises `Problem`."""
        await self._server.until_answered(lambda: self._ask("POST", path, body))

    async def poll(self) -> None:
        await self._server.until_answered(lambda: self._ask("GET", "/api/v1/peer/state"))
        self._server.mend_gap()

    async def poll_if_offline(self) -> None:
        """After a change of our own making: the socket would say what follows, the next poll would be late."""
        if not self._online:
            await self.poll()

    async def poll_after_silence(self) -> None:
        """Work must not begin on an assignment that may have been given to another meanwhile."""
        if self._server.gap() > self._timing.lease:
            await self.poll()

    async def _ask(self, method: str, path: str, body: object = None) -> None:
        moment = self._moment()
        try:
            self._offer(await self._server.json_once(method, path, body), moment)
        except Problem as problem:
            if problem.code == "unauthorized":
                raise UnknownPeer() from None
            raise

    def _moment(self) -> int:
        self._moments += 1
        return self._moments

    def _offer(self, body: object, moment: int) -> None:
        """An answer to a question asked before the last state was known may be older than it: it is dropped."""
        if moment > self._state_moment:
            self._state_moment = moment
            self.state = read(PeerState, body)
            self._new_state.set()
            self.changed.set()

    async def _keep_polling(self) -> None:
        """Asks when no state came for a while. Problems are left to the commands that care."""
        while True:
            self._new_state.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.poll):
                    await self._new_state.wait()
                continue
            try:
                await self._ask("GET", "/api/v1/peer/state")
            except Unreachable as trouble:
                self._server.trouble(str(trouble), self._timing.poll)
            except Problem as problem:
                self._server.trouble(problem.title, self._timing.poll)

    async def _keep_socket(self) -> None:
        url = "ws" + self._server.origin.removeprefix("http") + "/ws/peer"
        origin = Origin(self._server.origin)
        delays = self._server.delays()
        while True:
            reason = "the websocket closed"
            try:
                async with connect(url, origin=origin, compression=None, max_size=protocol.MAX_MESSAGE_BYTES) as socket:
                    if await self._converse(socket):
                        delays = self._server.delays()
            except (OSError, TimeoutError, WebSocketException) as error:
                reason = f"no websocket: {error or type(error).__name__}"
            finally:
                self._online = False
            self.introduced.set()
            delay = next(delays)
            self._server.trouble(reason, delay)
            await asyncio.sleep(delay)

    async def _converse(self, socket: ClientConnection) -> bool:
        """Until the socket closes. Says whether the server welcomed us."""
        await socket.send(self._hello())
        talker = asyncio.create_task(self._talk(socket))
        try:
            while True:
                self._hear(await socket.recv(decode=True))
        except ConnectionClosed as closed:
            _stop_for(closed.rcvd.code if closed.rcvd else None)
        finally:
            talker.cancel()
            await asyncio.wait([talker])
        return self._online

    def _hello(self) -> str:
        attempt = self._held_attempt()
        hello: dict[str, Any] = {
            "type": "hello",
            "protocol": protocol.PROTOCOL_VERSION,
            "token": self._token,
            "train": True,
        }
        # Without a session this takes over training; with one it is refused if another took over meanwhile.
        if self._session is not None:
            hello["session"] = self._session
        if attempt is not None:
            hello["attemptId"] = attempt
        return json.dumps(hello)

    def _hear(self, frame: str) -> None:
        self._server.heard()
        try:
            message = protocol.parse_server_message(frame)
        except Invalid as error:
            self._server.trouble(f"a message was not understood: {error.message}", 0)
            return
        if isinstance(message, protocol.Welcome):
            self._session = message.session
            self._online = True
            self.introduced.set()
            self._on_welcome(message)
            self._snapshot_due.set()
        elif isinstance(message, protocol.State):
            self._offer(message.model_dump(), self._moment())
        elif isinstance(message, protocol.ErrorMessage):
            self._server.trouble(f"the server refused a message: {message.message}", 0)

    async def _talk(self, socket: ClientConnection) -> None:
        """Snapshots at each change of stage and every two seconds, which makes heartbeats superfluous."""
        with contextlib.suppress(ConnectionClosed):  # the listening side sees the same and knows the code
            while True:
                if self._online:
                    snapshot = {"type": "diagnostics", "snapshot": self._snapshot()}
                    await socket.send(json.dumps(snapshot, allow_nan=False))
                    await asyncio.sleep(self._timing.snapshot_gap)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.snapshot):
                        await self._snapshot_due.wait()
                self._snapshot_due.clear()


def _stop_for(code: int | None) -> None:
    if code == protocol.CLOSE_REPLACED:
        raise Stop(Exit.REPLACED, "Another tab or agent trains with this identity now.")
    if code == protocol.CLOSE_UNAUTHORIZED:
        raise UnknownPeer()
    if code == protocol.CLOSE_PROTOCOL:
        raise Stop(Exit.VERSION, "The server speaks another version of the protocol; install the agent anew.")
