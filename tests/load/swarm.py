"""Thousands of fake participants, which speak the whole protocol and train nothing.

    async with Swarm(url, origin, invitation=link, count=50, seed=1, behaviour=Behaviour(bad=0.05)) as swarm:
        await swarm.until(lambda told: told["accepted"] >= 1000, seconds=60)

`python -m tests.load.swarm --url … --invitation … --count …` runs one as a process of its own and prints a line of JSON
each second and one at the end (SIGTERM, or `--seconds`); SIGUSR1 makes it count anew. `tests/load/process.py` starts
such a process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO
from urllib.parse import urlsplit

from tests.load.behaviour import Behaviour
from tests.load.counting import Counters
from tests.load.participant import Participant
from tests.load.shared import Shared

PER_ADDRESS = 50
"""Participants that come from one address of 127.0.0.0/8: the server makes sixty new peers a minute for each."""
TELL_SECONDS = 1.0


class Swarm:
    """`invitation` is a link, or its token: participants join by themselves. `tokens` are those of peers that exist;
    the rest of `count` are made by the server. `url` may be that of a proxy, `origin` is always the server's own.
    `spread` opens so many a second; 0: all at once. `record` gets a line of JSON for each update that was accepted."""

    def __init__(
        self,
        url: str,
        origin: str | None = None,
        *,
        count: int,
        seed: int,
        invitation: str | None = None,
        tokens: Sequence[str] = (),
        behaviour: Behaviour | None = None,
        spread: float = 0.0,
        record: TextIO | None = None,
    ) -> None:
        self.counters = Counters()
        self._count, self._spread, self._tokens = count, spread, tokens
        self._shared = Shared(
            url=url.rstrip("/"),
            origin=(origin or url).rstrip("/"),
            seed=seed,
            behaviour=behaviour or Behaviour(),
            counters=self.counters,
            record=record,
            invitation=token_of(invitation) if invitation else None,
        )
        self._participants: list[Participant] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._starting: asyncio.Task[None] | None = None
        self._begun = self._cpu = 0.0
        self._cleared = 0

    async def __aenter__(self) -> Swarm:
        self._begun, self._cpu = time.monotonic(), time.process_time()
        self._starting = asyncio.create_task(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._starting is not None:
            self._starting.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def told(self) -> dict[str, Any]:
        """All counters since the beginning, or `clear`, as JSON has them. Raises what a participant failed with."""
        if self._failed is not None:
            raise self._failed
        return {
            "seconds": round(time.monotonic() - self._begun, 3),
            "cleared": self._cleared,
            "connected": sum(one.online for one in self._participants),
            "ready": sum(one.active for one in self._participants),
            "cpu_seconds": round(time.process_time() - self._cpu, 3),
            **self.counters.told(),
        }

    def clear(self) -> None:
        """Begin to count anew, so that joining is not a part of what is measured."""
        self.counters.clear()
        self._cleared += 1
        self._begun, self._cpu = time.monotonic(), time.process_time()

    async def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Raises TimeoutError, with what was told last, when the condition does not come true in time."""
        end = time.monotonic() + seconds
        while not condition(told := self.told()):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds:g} s: {json.dumps(told)}")
            await asyncio.sleep(0.1)
        return told

    async def _start(self) -> None:
        local = urlsplit(self._shared.url).hostname in ("127.0.0.1", "localhost")
        for index in range(self._count):
            token = self._tokens[index] if index < len(self._tokens) else None
            number = index // PER_ADDRESS
            source = f"127.0.{1 + number // 250}.{1 + number % 250}" if local else None
            participant = Participant(self._shared, index, token=token, source=source)
            self._participants.append(participant)
            task = asyncio.create_task(participant.run())
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            if self._spread:
                await asyncio.sleep(1 / self._spread)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error


def token_of(invitation: str) -> str:
    """The token of a link, which stands behind its last / or #."""
    return invitation.rstrip("/").replace("#", "/").rpartition("/")[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.load.swarm", description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="where to connect")
    parser.add_argument("--origin", help="the server's own origin, where --url is that of a proxy")
    parser.add_argument("--invitation", help="a link, or its token")
    parser.add_argument("--tokens", type=Path, help="a file with a peer's token in each line")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spread", type=float, default=0.0, help="participants that start in each second; 0: all")
    parser.add_argument("--seconds", type=float, help="how long; without it until SIGTERM")
    parser.add_argument("--behaviour", default="{}", help=f"JSON of {', '.join(vars(Behaviour()))}")
    parser.add_argument("--record", type=Path, help="a file for a line of JSON for each update that was accepted")
    options = parser.parse_args()
    try:
        behaviour = Behaviour.read(json.loads(options.behaviour))
    except ValueError as error:
        parser.error(f"--behaviour: {error}")
    tokens = options.tokens.read_text().split() if options.tokens else []
    swarm = Swarm(
        options.url,
        options.origin,
        count=options.count,
        seed=options.seed,
        invitation=options.invitation,
        tokens=tokens,
        behaviour=behaviour,
        spread=options.spread,
        record=options.record.open("a") if options.record else None,
    )
    asyncio.run(_run(swarm, options.seconds))


async def _run(swarm: Swarm, seconds: float | None) -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, swarm.clear)
    async with swarm:
        end = None if seconds is None else time.monotonic() + seconds
        while not done.is_set() and (end is None or time.monotonic() < end):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), TELL_SECONDS)
            print(json.dumps(swarm.told()), flush=True)


if __name__ == "__main__":
    main()
