"""Supervisor as a child of this program: started, waited for, asked how its processes are, stopped with all of them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xmlrpc.client import Error, ServerProxy

from supervisor.xmlrpc import SupervisorTransport

from weei_site.launch.machine import CannotStart

START_SECONDS = 90
STOP_SECONDS = 40
FAILED_STARTS = 3
"""A process that ended so often before the web server answered will not come up."""
SILENCE = (OSError, http.client.HTTPException)
"""Nobody answers at supervisor's socket, or hangs up. `Error`: it answers that it cannot now."""
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36


def controls(run_dir: Path) -> Any:
    """Supervisor's remote procedures (its manual's chapter "XML-RPC API")."""
    # The address is not used, but must be one.
    transport = SupervisorTransport(None, None, f"unix://{run_dir / 'supervisor.sock'}")
    return ServerProxy("http://127.0.0.1", transport=transport).supervisor


class Supervision:
    """The processes of one run. Whoever holds `claim` is the only one to use this RUN_DIR."""

    def __init__(self, run_dir: Path, log_dir: Path) -> None:
        self.run_dir = run_dir
        self.log_dir = log_dir
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._last_words = ""
        self._told: set[str] = set()

    # --- before ---

    def claim(self) -> None:
        """Refuse a second run on the same data; end what a run left behind that was killed outright."""
        lock = (self.run_dir / "launch.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise CannotStart(
                f"Weei is running here already (process {lock.read().strip() or 'unknown'}). "
                "Stop it, or choose another folder and another port with VAR_DIR and PORT."
            ) from None
        lock.seek(0)
        lock.truncate()
        print(os.getpid(), file=lock, flush=True)
        self._lock = lock
        self._end_last_run()

    def _end_last_run(self) -> None:
        if self._left_behind():
            print("Stopping what the last run left behind …", flush=True)
            end = time.monotonic() + STOP_SECONDS
            while self._left_behind():
                if time.monotonic() > end:
                    raise CannotStart(f"Processes of the last run do not end; see {self.log_dir}/supervisor.log")
                time.sleep(0.2)
        for path in self.run_dir.glob("*.sock"):
            path.unlink()

    def _left_behind(self) -> bool:
        """Whether a supervisor still answers. It stops listening when its children have ended."""
        try:
            controls(self.run_dir).shutdown()
        except Error:  # It is shutting down already.
            return True
        except SILENCE:
            return False
        return True

    # --- during ---

    def start(self, configuration: Path) -> None:
        if sys.platform == "linux":
            # Should supervisor itself be killed, its children become ours.
            ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(configuration)]
        # A session of its own: Ctrl-C reaches this program alone, which then stops the others in order.
        self._process = subprocess.Popen(
            command, preexec_fn=end_with_parent, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._hear, args=(self._process.stderr,), daemon=True).start()

    def _hear(self, stderr: IO[str]) -> None:
        """On a full disk supervisor complains about its own log, line after line, which helps nobody."""
        for line in stderr:
            self._last_words = line.strip()

    def wait_until_up(self, url: str) -> None:
        """Until the web server answers at `url`. Raises CannotStart with the log to read."""
        end = time.monotonic() + START_SECONDS
        pids: set[int] = set()
        while time.monotonic() < end and self.alive() and len(pids) < FAILED_STARTS:
            if _answers(url):
                return
            pids |= {info["pid"] for info in self._infos() if info["name"] == "web" and info["pid"]}
            time.sleep(0.2)
        if not self.alive():
            words = f": {self._last_words}" if self._last_words else ""
            raise CannotStart(f"The process manager did not start; see {self.log_dir}/supervisor.log{words}")
        raise CannotStart(f"The web server did not start; see {self.log_dir}/web.log")

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def troubles(self) -> Iterator[str]:
        """One sentence for each process that does not stay up, once; it is started again all the while."""
        for info in self._infos():
            name, state = info["name"], info["statename"]
            if state == "RUNNING":
                self._told.discard(name)
            elif state in ("BACKOFF", "FATAL") and name not in self._told:
                self._told.add(name)
                yield f"Process {name} does not stay up; see {self.log_dir}/{name}.log"

    def _infos(self) -> list[dict[str, Any]]:
        with contextlib.suppress(*SILENCE, Error):
            return list(controls(self.run_dir).getAllProcessInfo())
        return []

    # --- after ---

    def stop(self) -> None:
        """Stop every child and wait for it; nothing of the run stays but its data. Not to be interrupted."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if self._process is not None and self.alive():
            self._stop_at_once()
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        _end_orphans()
        left = (*self.run_dir.glob("*.sock"), *self.run_dir.glob("worker-*"), self.run_dir / "supervisor.pid")
        for path in left:
            path.unlink(missing_ok=True)

    def _stop_at_once(self) -> None:
        """Supervisor would stop one after the other; only Valkey must outlive its users."""
        for info in self._infos():
            if info["name"] != "valkey":
                with contextlib.suppress(*SILENCE, Error):
                    controls(self.run_dir).stopProcess(info["name"], False)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/sign-in/", timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def end_with_parent() -> None:
    """If this program is killed outright, the kernel tells supervisor, which stops the rest. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGTERM)


def _end_orphans() -> None:
    """What supervisor left, because it was killed itself, is our child now (Linux only)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + STOP_SECONDS / 4
        while (pids := _children()) and time.monotonic() < end:
            for pid in pids:
                with contextlib.suppress(OSError):
                    # Supervisor made each the head of a group, which its own children are in.
                    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, number)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.2)


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []
