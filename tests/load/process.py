"""A swarm in a process of its own, so that its work and that of a test are not mixed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.load.behaviour import Behaviour
from weei_site.launch.supervision import end_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent


class SwarmProcess:
    """Ends with the block; `told` and `until` as of a Swarm."""

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
        record: Path | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weei-swarm-")
        self._output, self._errors = Path(self._folder.name, "out"), Path(self._folder.name, "err")
        Path(self._folder.name, "tokens").write_text("\n".join(tokens))
        options = {
            "--url": url,
            "--origin": origin,
            "--invitation": invitation,
            "--tokens": str(Path(self._folder.name, "tokens")),
            "--count": str(count),
            "--seed": str(seed),
            "--spread": str(spread),
            "--record": None if record is None else str(record),
            "--behaviour": json.dumps(asdict(behaviour or Behaviour())),
        }
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.load.swarm", *given],
                cwd=ROOT,
                stdout=output,
                stderr=errors,
                preexec_fn=end_with_parent,
            )

    def __enter__(self) -> SwarmProcess:
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        return self.process.pid

    def told(self) -> dict[str, Any]:
        """What it said last; waits for the first time."""
        end = time.monotonic() + 30
        while not (lines := self._output.read_bytes().splitlines(keepends=True)) or not lines[0].endswith(b"\n"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the swarm says nothing:\n{self._errors.read_text(errors='replace')}")
            time.sleep(0.1)
        found: dict[str, Any] = json.loads(next(line for line in reversed(lines) if line.endswith(b"\n")))
        if self.process.poll() not in (None, 0):
            raise AssertionError(f"the swarm ended:\n{self._errors.read_text(errors='replace')}")
        return found

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Raises AssertionError when the condition does not come true in time."""
        end = time.monotonic() + seconds
        while not condition(told := self.told()):
            if time.monotonic() > end:
                raise AssertionError(f"the swarm was not that far within {seconds:g} s: {json.dumps(told)}")
            time.sleep(0.2)
        return told

    def clear(self) -> None:
        """Begin to count anew; returns when it does."""
        before = self.told()["cleared"]
        self.process.send_signal(signal.SIGUSR1)
        self.until(lambda told: told["cleared"] > before, 10)

    def stop(self) -> dict[str, Any]:
        """End it; the last counters."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.told()
