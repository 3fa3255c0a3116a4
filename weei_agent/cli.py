"""The command `weei-agent`: one identity, one invitation, one job, one exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from weei_agent import __version__, predicting
from weei_agent.agent import Agent, Bounds
from weei_agent.attempt import Tools
from weei_agent.connection import Timing
from weei_agent.identity import IdentityStore
from weei_agent.joining import (
    describe,
    identify,
    is_member,
    leave,
    missing_here,
    open_invitation,
    unless_silent,
)
from weei_agent.link import parse_link
from weei_agent.options import Options, parse_options
from weei_agent.outcomes import Enough, Exit, Stop, UnknownPeer
from weei_agent.report import Reporter, make_reporter
from weei_agent.snapshot import Measurements
from weei_agent.state import Invitation
from weei_agent.trainer import JailTrainer, Trainer
from weei_agent.transfer import MIB, Cache
from weei_client.clock import SystemClock
from weei_client.server import Server


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["predict"]:
        return predicting.main(given[1:])
    options = parse_options(given)
    reporter = make_reporter(as_json=options.json, quiet=options.quiet)
    try:
        stop = Session(options, reporter).run()
    except KeyboardInterrupt:
        stop = Stop(Exit.INTERRUPTED, "Interrupted.")
    reporter.close()
    reporter.event("stopped" if stop.code == Exit.COMPLETED else "error", code=int(stop.code), message=stop.message)
    return int(stop.code)


MAX_WORKERS = 64
"""As many as a server can be told of."""


def jail_trainer(options: Options, scratch: Path) -> Trainer:
    return JailTrainer(
        scratch,
        options.state_dir / "compiled",
        memory_bytes=options.memory_mib * MIB,
        workers=options.workers,
    )


class Session:
    """From the command line to the end. Steps on the network are asynchronous; asking the person is not."""

    def __init__(
        self,
        options: Options,
        reporter: Reporter,
        *,
        timing: Timing | None = None,
        make_trainer: Callable[[Options, Path], Trainer] = jail_trainer,
    ) -> None:
        self._options = options
        self._reporter = reporter
        self._timing = timing or Timing()
        self._make_trainer = make_trainer
        self._clock = SystemClock()

    def run(self) -> Stop:
        try:
            self._link = parse_link(self._options.link)
            self._store = IdentityStore(self._options.state_dir, self._link.origin, self._options.name)
            with self._store.lock():
                self._take_part()
        except UnknownPeer as stop:
            self._store.forget()
            return stop
        except Stop as stop:
            return stop
        except OSError as error:
            return Stop(Exit.USAGE, f"The state folder {self._options.state_dir} cannot be used: {error}.")
        raise AssertionError("taking part ends by an exception")

    def _take_part(self) -> None:
        if self._options.new_peer:
            self._store.forget()
        if self._options.leave:
            asyncio.run(self._leave())
        invitation = asyncio.run(self._open())
        if invitation is not None:
            self._ask(invitation)
        asyncio.run(self._work(invitation))

    async def _leave(self) -> None:
        async with self._server() as server:
            await unless_silent(server, self._options.give_up_minutes, leave(server, self._store))

    async def _open(self) -> Invitation | None:
        """None: this agent accepted the link earlier, and is still in the job."""
        async with self._server() as server:
            return await unless_silent(server, self._options.give_up_minutes, self._look(server))

    async def _look(self, server: Server) -> Invitation | None:
        identity = await identify(server, self._store)
        if await is_member(server, identity, self._link):
            return None
        return await open_invitation(server, self._link)

    def _ask(self, invitation: Invitation) -> None:
        """Returns when the answer is yes."""
        self._reporter.event(
            "invitation", text=describe(invitation), jobId=invitation.jobId, moduleSha256=invitation.module.sha256
        )
        if missing := missing_here(invitation, self._options.memory_mib):
            raise Stop(Exit.MODEL_UNUSABLE, f"This machine lacks what the model needs: {', '.join(missing)}.")
        if self._options.yes:
            return
        if self._options.json or not sys.stdin.isatty():
            raise Stop(Exit.USAGE, "Nobody can be asked here; add --yes to accept this invitation.")
        try:
            answer = input("Train this model on this machine? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            raise Stop(Exit.REFUSED, "Not accepted; nothing was downloaded.")

    async def _work(self, invitation: Invitation | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with self._server() as server:
            identity = await identify(server, self._store)
            job_id = invitation.jobId if invitation else identity.job_of(self._link.token)
            assert job_id is not None
            tools = self._tools(server)
            bounds = Bounds(self._options.max_rounds, self._options.max_minutes, self._options.rest)
            agent = Agent(tools, identity.token, job_id, self._timing, bounds)
            if invitation:
                await unless_silent(server, self._options.give_up_minutes, agent.accept())
                identity.remember(self._link.token, job_id)
                self._store.save(identity)
            try:
                await unless_silent(server, self._options.give_up_minutes, agent.run())
            except asyncio.CancelledError:
                await agent.say_goodbye()
                raise Stop(Exit.INTERRUPTED, f"Interrupted. Updates delivered: {agent.updates}.") from None
            except Enough:
                await agent.say_goodbye()
                raise
            finally:
                await tools.trainer.close()

    def _tools(self, server: Server) -> Tools:
        options = self._options
        return Tools(
            server=server,
            cache=Cache(options.state_dir / "cache", options.cache_mib * MIB),
            trainer=self._make_trainer(options, self._store.scratch),
            measurements=Measurements(self._clock, options.workers),
            reporter=self._reporter,
            scratch=self._store.scratch,
            workers=min(options.workers, MAX_WORKERS),
        )

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Server]:
        timing = self._timing
        server = Server(
            self._link.origin,
            program=f"weei-agent/{__version__}",
            clock=self._clock,
            first_retry=timing.first_retry,
            last_retry=timing.last_retry,
            on_trouble=self._trouble,
        )
        try:
            yield server
        finally:
            await server.close()

    def _trouble(self, reason: str, delay: float) -> None:
        self._reporter.event("retrying", reason=reason, seconds=round(delay, 1))
