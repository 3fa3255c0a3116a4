"""`python -m weei_site.launch` as a process of its own, as `make run` and `make demo` start it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.stack.ports import free_port
from weei_site.launch.supervision import controls, end_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT_SECONDS = 120


class Place:
    """A folder for data, one for sockets, and a port: what a run needs for itself."""

    def __init__(self, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weei-launch-"))
        self.run_dir = self.folder / "run"
        self.port = free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            "VAR_DIR": str(self.folder / "var"),
            "RUN_DIR": str(self.run_dir),
            "PORT": str(self.port),
            "PYTHONPATH": str(ROOT),
            # The machine of a test may be fuller than a server's should be.
            "MIN_FREE_FRACTION": "0",
            **environment,
        }

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def states(self) -> dict[str, str]:
        return {info["name"]: info["statename"] for info in controls(self.run_dir).getAllProcessInfo()}

    def info(self, name: str) -> dict[str, Any]:
        return controls(self.run_dir).getProcessInfo(name)

    def processes(self) -> list[str]:
        """The command of every process that was started for this place, whoever is its parent now."""
        mark = f"VAR_DIR={self.folder / 'var'}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # It ended meanwhile, or is another user's.
                continue
        return [command for command in found if command]


class Program:
    """One run; `output` grows while it lasts. It ends with the block, if not before."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self.place = place
        self.output: list[str] = []
        command = [sys.executable, "-m", "weei_site.launch", *arguments]
        self.process = subprocess.Popen(
            command,
            env=place.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=end_with_parent,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line.rstrip("\n"))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *args: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)

    @property
    def text(self) -> str:
        return "\n".join(self.output)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Until the output has it."""
        end = time.monotonic() + WAIT_SECONDS
        while not (found := re.search(pattern, self.text, re.MULTILINE)):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"no {pattern!r} in\n{self.text}\n{self.logs()}")
            time.sleep(0.1)
        return found

    def end(self, how: int) -> int:
        """Send a signal, wait for the end; the exit code."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        return code

    def logs(self) -> str:
        paths = sorted((self.place.folder / "var/log").glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in paths)


def wait(condition: Any, what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.1)
