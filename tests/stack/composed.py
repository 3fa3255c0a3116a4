"""What docker-compose.yml says, and a stack of exactly those processes: same commands, same variables, same number.

Nothing is written down here that stands there. Only addresses differ: of the other containers, of ports and folders.
"""

from __future__ import annotations

import re
import shlex
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.stack.ports import free_port
from tests.stack.round_robin import RoundRobin
from tests.stack.stack import ROOT, Stack

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = tuple(name for name, service in COMPOSE["services"].items() if service["image"] == "weei")
ONCE = tuple(name for name in OURS if COMPOSE["services"][name]["restart"] == "no")
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "STORAGE_URL", "PUBLIC_URLS", "METRICS_PORT")
"""Variables whose values name another container or a port of a container's own."""


def copies(name: str) -> int:
    return int(COMPOSE["services"][name].get("deploy", {}).get("replicas", 1))


def filled(text: str, values: Mapping[str, str]) -> str:
    """`${NAME:?}` replaced as Compose does it; a missing one fails."""
    return re.sub(r"\$\{(\w+):\?\}", lambda found: values[found[1]], text)


@dataclass(frozen=True)
class Process:
    """One container of ours, as a process of this machine."""

    name: str
    service: str
    command: list[str]
    environment: dict[str, str]
    port: int
    """Its web server's, or of its metrics."""

    def shell_command(self, keep: list[str]) -> str:
        """For supervisor. A container has only the variables that it is given."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return shlex.join(["/usr/bin/env", "-i", *keep, *variables, *self.command])


def process(service: str, name: str, values: Mapping[str, str], addresses: Mapping[str, str], folder: Path) -> Process:
    said, port = COMPOSE["services"][service], free_port()
    environment = {key: filled(value, values) for key, value in said["environment"].items()}
    environment |= {key: value for key, value in addresses.items() if key in environment}
    if "METRICS_PORT" in environment:
        environment["METRICS_PORT"] = str(port)
    # The Dockerfile's; a container's file system is its own.
    environment |= {"VAR_DIR": str(folder / name / "var"), "RUN_DIR": str(folder / name / "run")}
    program, *arguments = shlex.split(said["command"])
    assert program == "python"
    if "--port" in arguments:
        arguments[arguments.index("--port") + 1] = str(port)
    # A container has a host name of its own; these share one.
    arguments = [argument.replace("%h", f"{name}.{socket.gethostname()}") for argument in arguments]
    return Process(name, service, [sys.executable, *arguments], environment, port)


class Composed(Stack):
    """Every process of docker-compose.yml that is ours, behind a proxy that takes turns."""

    def __init__(self, shared: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> None:
        """`shared`: what the other containers are here. `overrides`: times that a test shortens."""
        values = {"DOMAIN": "localhost", "STORE_SECRET": shared["AWS_SECRET_ACCESS_KEY"], "METRICS_TOKEN": "m" * 32}
        values |= {"SECRET_KEY": shared["SECRET_KEY"], "POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r"}
        super().__init__({**shared, **(overrides or {})})
        self.metrics_token = values["METRICS_TOKEN"]
        addresses = {name: self.environment[name] for name in ADDRESSES if name in self.environment}
        self.processes: dict[str, Process] = {}
        self.once: list[Process] = []
        for service in OURS:
            for number in range(copies(service)):
                name = service if copies(service) == 1 else f"{service}-{number + 1}"
                made = process(service, name, values, addresses, self.folder)
                made.environment.update(overrides or {})
                if service in ONCE:
                    self.once.append(made)
                else:
                    self.processes[name] = made
        self.services = list(self.processes)
        self.webs = [name for name in self.services if "uvicorn" in self.processes[name].command]
        self.proxy = RoundRobin(self.port, [self.processes[name].port for name in self.webs])

    def __enter__(self) -> Composed:
        super().__enter__()
        try:
            self.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def set_up(self) -> None:
        keep = [
            f"{name}={self.environment[name]}" for name in ("PATH", "PYTHONPATH", "HOME") if name in self.environment
        ]
        for one in self.once:
            self.run_once(one)
        commands = {name: one.shell_command(keep) for name, one in self.processes.items()}
        self.shell(WRITE, commands=commands)
        self.proxy.start()

    def run_once(self, one: Process) -> str:
        before = dict(self.environment)
        self.environment.update(one.environment)
        try:
            return self.python(*one.command[1:])
        finally:
            self.environment = before

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self.proxy.stop()

    def wait_until_up(self) -> None:
        """Until every web process is ready."""
        for name in self.webs:
            self.wait(lambda name=name: self.answer(name, "/readyz")[0] == 200, 90, f"{name} to be ready")

    def answer(self, name: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str, dict[str, str]]:
        """What one process says at its own port: (status, body, headers); status 0 when nobody answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.processes[name].port}{path}",
            headers={"Host": f"localhost:{self.port}", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                return (
                    answer.status,
                    answer.read().decode(),
                    {key.lower(): value for key, value in answer.headers.items()},
                )
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), {key.lower(): value for key, value in error.headers.items()}
        except OSError:
            return 0, "", {}

    def said(self, name: str, about: str) -> list[str]:
        """The lines of its log that hold this text."""
        return [line for line in (self.folder / f"var/log/{name}.log").read_text().splitlines() if about in line]

    def metrics(self, name: str) -> str:
        status, body, _ = self.answer(name, "/metrics", {"Authorization": f"Bearer {self.metrics_token}"})
        assert status == 200, (name, status, body)
        return body


WRITE = """
from django.conf import settings
from weei_site.launch import services as known
known.write_configuration(
    settings.RUN_DIR / "supervisor.conf", [known.Service(name, command) for name, command in commands.items()],
    run_dir=settings.RUN_DIR, log_dir=settings.VAR_DIR / "log",
)
"""
