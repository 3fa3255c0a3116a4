"""The real processes for tests: web, both workers and Valkey under supervisor, as `make run` starts them.

with Stack(folder) as stack:
    stack.url, stack.sign_in_link(), stack.kill("web") …
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

from supervisor.xmlrpc import SupervisorTransport

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 90
SERVICES = ("valkey", "web", "fast", "slow")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """`environment` overrides variables (DATABASE_URL, LEASE_SECONDS, …); `host` is where the web server listens."""

    def __init__(self, environment: dict[str, str] | None = None, *, host: str = "127.0.0.1") -> None:
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
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stack:
        (self.folder / "run").mkdir(mode=0o700)
        self.manage("migrate", "--verbosity", "0")
        self.python("-c", CONFIGURE, str(self.port), self.host)
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self.folder / "run/supervisor.conf")]
        self._process = subprocess.Popen(command, env=self.environment, cwd=ROOT, start_new_session=True)
        try:
            self.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *args: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            for name in SERVICES:
                with contextlib.suppress(OSError, RuntimeError):
                    self.kill(name)
            self._process.kill()
        self._folder.cleanup()

    # --- processes ---

    @property
    def supervisor(self) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.folder / 'run/supervisor.sock'}")
        return ServerProxy("http://127.0.0.1", transport=transport).supervisor

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
        for path in sorted((self.folder / "var/log").glob("*.log")):
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
        """Run Python in a Django process of its own; `answer` is sent back as JSON. `values` are its globals."""
        script = SHELL.format(values=json.dumps(values), code=code)
        return json.loads(self.python("-c", script).strip().splitlines()[-1])

    def sign_in_link(self, username: str = "alice") -> str:
        path = self.shell(
            "from django.contrib.auth.models import User\n"
            "from weei_site.signin import link_create\n"
            "answer = link_create(User.objects.get_or_create(username=username)[0])",
            username=username,
        )
        return f"{self.url}{path}"


CONFIGURE = """
import sys, django
django.setup()
from django.conf import settings
from weei_site.launch import services
port, host = int(sys.argv[1]), sys.argv[2]
chosen = [services.web("0.0.0.0" if host != "127.0.0.1" else host, port), *services.workers()]
import os
if not os.environ.get("REDIS_URL"):
    chosen.insert(0, services.valkey(settings.RUN_DIR / "valkey.sock"))
services.write_configuration(
    settings.RUN_DIR / "supervisor.conf", chosen, run_dir=settings.RUN_DIR, log_dir=settings.VAR_DIR / "log"
)
"""

SHELL = """
import json, logging, django
django.setup()
logging.disable(logging.WARNING)
globals().update(json.loads({values!r}))
answer = None
{code}
print(json.dumps(answer))
"""
