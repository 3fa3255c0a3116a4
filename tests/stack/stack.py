"""The real processes for tests: web, both workers and Valkey under supervisor, as `make run` starts them.

with Stack(folder) as stack:
    stack.url, stack.sign_in_link(), stack.kill("web") …
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xmlrpc.client import Error

import httpx

from tests.stack.ports import free_port
from weei_site.launch.supervision import controls, end_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 90
SERVICES = ("valkey", "web", "fast", "slow")


class Stack:
    """`environment` overrides variables (DATABASE_URL, LEASE_SECONDS, …); `host` is where the web server listens;
    `services` are the processes to start. Several stacks may share what `tests.stack.shared` gives."""

    def __init__(
        self,
        environment: dict[str, str] | None = None,
        *,
        host: str = "127.0.0.1",
        services: Sequence[str] = SERVICES,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weei-stack-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.port = free_port()
        self.host = host
        self.url = f"http://127.0.0.1:{self.port}"
        urls = [self.url, f"http://localhost:{self.port}"]
        if host not in ("127.0.0.1", "0.0.0.0"):
            self.url = f"http://{host}:{self.port}"
            urls.insert(0, self.url)
        self.environment = {
            **os.environ,
            "VAR_DIR": str(self.folder / "var"),
            "RUN_DIR": str(self.folder / "run"),
            "PORT": str(self.port),
            "PUBLIC_URLS": ",".join(urls),
            "DJANGO_SETTINGS_MODULE": "weei_site.settings",
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
        }
        # A broker of one's own, unless one is shared.
        self.services = [name for name in services if name != "valkey" or not self.environment.get("REDIS_URL")]
        self._process: subprocess.Popen[bytes] | None = None
        self._helper: subprocess.Popen[str] | None = None

    def __enter__(self) -> Stack:
        (self.folder / "run").mkdir(mode=0o700)
        self.set_up()
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self.folder / "run/supervisor.conf")]
        self._process = subprocess.Popen(command, env=self.environment, cwd=ROOT, preexec_fn=end_with_parent)
        try:
            if "web" in self.services:
                self.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def set_up(self) -> None:
        """Migrate, and write supervisor's configuration."""
        self.shell(SET_UP, port=self.port, host=self.host, services=self.services)

    def __exit__(self, *args: object) -> None:
        assert self._process is not None
        if self._helper is not None:
            self._helper.kill()
            self._helper.wait()
        for name in self.services:
            # All at once; supervisor itself would stop one after the other.
            with contextlib.suppress(OSError, Error):
                self.supervisor.stopProcess(name, False)
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            for name in self.services:
                with contextlib.suppress(OSError, RuntimeError):
                    self.kill(name)
            self._process.kill()
        self._folder.cleanup()

    # --- processes ---

    @property
    def supervisor(self) -> Any:
        return controls(self.folder / "run")

    def pid(self, name: str) -> int:
        pid = int(self.supervisor.getProcessInfo(name)["pid"])
        if pid == 0:
            raise RuntimeError(f"{name} is not running")
        return pid

    def kill(self, name: str, how: int = signal.SIGKILL) -> int:
        """Send a signal to the process; supervisor starts it again. Returns its old pid."""
        pid = self.pid(name)
        os.kill(pid, how)
        return pid

    def wait_for_restart(self, name: str, old_pid: int, seconds: float = 60) -> None:
        def restarted() -> bool:
            try:
                return self.pid(name) != old_pid
            except RuntimeError:
                return False

        self.wait(restarted, seconds, f"{name} to be started again")

    def wait_until_up(self) -> None:
        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/sign-in/", timeout=5):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        self.wait(answers, START_SECONDS, "the web server")

    def wait(self, condition: Any, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds:g} s for {what}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self, lines: int = 30) -> str:
        parts = []
        for path in sorted([*(self.folder / "var/log").glob("*.log"), *self.folder.glob("*.log")]):
            parts.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]))
        return "\n".join(parts)

    # --- what tests ask of it ---

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"{arguments[:2]} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def manage(self, *arguments: str) -> str:
        return self.python("manage.py", *arguments)

    def shell(self, code: str, **values: object) -> Any:
        """Run Python in a Django process; `answer` is sent back as JSON. `values` are its globals."""
        if self._helper is None:
            self._helper = self._start_helper()
        assert self._helper.stdin is not None and self._helper.stdout is not None
        print(json.dumps({"code": code, "values": values}), file=self._helper.stdin, flush=True)
        said = json.loads(self._helper.stdout.readline() or '{"error": "the helper process ended"}')
        if "error" in said:
            raise AssertionError(f"{said['error']}\n{self.logs()}")
        return said["answer"]

    def _start_helper(self) -> subprocess.Popen[str]:
        with (self.folder / "helper.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.stack.helper"],
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=end_with_parent,
            )

    def sign_in_link(self, username: str = "alice") -> str:
        path = self.shell(
            "from django.contrib.auth.models import User\n"
            "from weei_site.signin import link_create\n"
            "answer = link_create(User.objects.get_or_create(username=username)[0])",
            username=username,
        )
        return f"{self.url}{path}"

    def signed_in(self, username: str = "alice") -> httpx.Client:
        """A client with that person's session."""
        client = httpx.Client(base_url=self.url, follow_redirects=True, timeout=30)
        page = client.get(link := self.sign_in_link(username)).raise_for_status()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token is not None
        client.post(link, data={"csrfmiddlewaretoken": token[1]}, headers={"Origin": self.url}).raise_for_status()
        return client


SET_UP = """
from django.conf import settings
from django.core.management import call_command
from weei_site.launch import services as known
call_command("migrate", verbosity=0)
everywhere = host if host == "127.0.0.1" else "0.0.0.0"
chosen = [known.valkey(settings.RUN_DIR / "valkey.sock"), known.web(everywhere, port), *known.workers()]
known.write_configuration(
    settings.RUN_DIR / "supervisor.conf", [service for service in chosen if service.name in services],
    run_dir=settings.RUN_DIR, log_dir=settings.VAR_DIR / "log",
)
"""
