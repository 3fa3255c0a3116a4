"""Carries faults out, by the ids of the processes that were started here and by nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.installation import Installation, NotHere
from tests.chaos.schedule import Fault
from tests.chaos.toxic import Toxic

CHILD_SECONDS = 30
"""How long a module's process is waited for: one lives only while a validation runs."""
SERVER_AWAY_SECONDS = 1.0
HOUR = 3600


class Nemesis:
    def __init__(self, installation: Installation) -> None:
        self._at = installation

    def strike(self, fault: Fault) -> int | None:
        """The fault from its beginning to its end; the id of the process that it hit, where it was one. Processes that
        end come back by themselves. Raises NotHere."""
        how: dict[str, Callable[[Fault], int | None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "terminate": self._terminate,
            "flush": self._flush,
            "outage": self._outage,
            "disconnect": self._disconnect,
            "disk-full": self._disk_full,
            "clock": self._clock,
            "link": self._link,
        }
        try:
            return how[fault.kind](fault)
        finally:
            self.calm()

    def calm(self) -> None:
        """Everything that was made bad is good again; does nothing where nothing is."""
        self._at.links.calm()
        self._at.disk.free()
        self._at.clock.set(0)

    def _kill(self, fault: Fault) -> int:
        if fault.target == "postgres":
            pid = self._at.postgres.kill()
            time.sleep(SERVER_AWAY_SECONDS)
            self._at.postgres.start()
            return pid
        if fault.target == "redis":
            pid = self._at.broker.kill()
            time.sleep(SERVER_AWAY_SECONDS)
            self._at.broker.start()
            return pid
        if fault.target == "backend":
            backends = self._at.postgres.backends()
            return _send(backends[int(fault.strength * len(backends))], signal.SIGKILL)
        if fault.target == "jail":
            return self._kill_jail()
        return _send(self._at.pid(fault.target), signal.SIGKILL)

    def _kill_jail(self) -> int:
        """The child that runs the module, in the middle of its work."""
        end = time.monotonic() + CHILD_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError, RuntimeError):
                for child in descendants(self._at.pid("slow")):
                    return _send(child, signal.SIGKILL)
            time.sleep(0.005)
        raise NotHere(f"no module ran in {CHILD_SECONDS} s")

    def _stop(self, fault: Fault) -> int:
        pid = self._at.pid(fault.target)
        pids = [pid, *descendants(pid)]
        for one in pids:
            _send(one, signal.SIGSTOP)
        time.sleep(fault.seconds)
        for one in pids:
            _send(one, signal.SIGCONT)
        return pid

    def _terminate(self, fault: Fault) -> int:
        return _send(self._at.pid(fault.target), signal.SIGTERM)

    def _flush(self, fault: Fault) -> None:
        self._at.broker.client().flushall()

    def _outage(self, fault: Fault) -> int:
        server = self._at.broker if fault.target == "redis" else self._at.postgres
        pid = server.pid
        (self._at.broker.kill if fault.target == "redis" else self._at.postgres.stop)()
        time.sleep(fault.seconds)
        server.start()
        return pid

    def _disconnect(self, fault: Fault) -> None:
        self._at.postgres.disconnect()

    def _disk_full(self, fault: Fault) -> None:
        self._at.disk.fill()
        time.sleep(fault.seconds)

    def _clock(self, fault: Fault) -> None:
        if self._at.clock.why_not:
            raise NotHere(self._at.clock.why_not)
        self._at.clock.set(HOUR if fault.target == "forward" else -HOUR)
        time.sleep(fault.seconds)

    def _link(self, fault: Fault) -> None:
        self._at.links[fault.target].set(toxic(fault))
        time.sleep(fault.seconds)


def toxic(fault: Fault) -> Toxic:
    """Cuts come anywhere in the first 20,000 bytes: within an upload's head, its body, or its answer."""
    place = int(fault.strength * 20_000)
    return {
        "latency": Toxic(latency=0.05 + 0.25 * fault.strength),
        "bandwidth": Toxic(bandwidth=20_000 + 80_000 * fault.strength),
        "cut": Toxic(cut_at=place),
        "reset": Toxic(reset_at=place),
        "half-open": Toxic(half_open=True),
    }[fault.toxic]


def _send(pid: int, what: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)
    return pid


def descendants(pid: int) -> Iterator[int]:
    """Children of all its threads, and theirs."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))
