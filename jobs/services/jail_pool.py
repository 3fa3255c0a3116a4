"""Jailed children of one module that share work: as many tasks at once as there are children."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from weei_core.abi.limits import Limits
from weei_core.jail.parent import Jail

T = TypeVar("T")


class JailPool:
    """A context manager. Leaving it ends what still runs: tasks that wait are cancelled, children are killed."""

    def __init__(self, module: Path, limits: Limits, *, cache: Path, processes: int) -> None:
        self._jails: list[Jail] = []
        self._idle: SimpleQueue[Jail] = SimpleQueue()
        with contextlib.ExitStack() as stack:
            for _ in range(processes):
                self._jails.append(stack.enter_context(Jail(module, limits, cache=cache)))
                self._idle.put(self._jails[-1])
            self._threads = ThreadPoolExecutor(processes)
            self._open = stack.pop_all()

    def __enter__(self) -> JailPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for jail in self._jails:
            jail.kill()
        self._threads.shutdown()
        self._open.close()

    def submit(self, work: Callable[[Jail], T]) -> Future[T]:
        """Run `work` with the next child that is free."""
        return self._threads.submit(self._run, work)

    def run(self, work: Callable[[Jail], T]) -> T:
        return self.submit(work).result()

    def _run(self, work: Callable[[Jail], T]) -> T:
        jail = self._idle.get()
        try:
            return work(jail)
        finally:
            self._idle.put(jail)
