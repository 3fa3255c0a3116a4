"""Flower's own processes on this machine, which need no network: one SuperLink and two SuperNodes with
`benchmarks/flower_idle`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.stack.ports import free_port
from weei_site.launch.supervision import end_with_parent

APP = Path(__file__).resolve().parent / "flower_idle"
MOST_SECONDS = 150
CONFIGURATION = """[superlink]
default = "bench"
[superlink.bench]
address = "{address}"
insecure = true
"""


class FlowerFailed(Exception):
    """What Flower's processes said."""


@dataclass(frozen=True)
class FlowerRounds:
    version: str
    a_second: float


def flower_rounds(python: str, *, rounds: int, weights: int) -> FlowerRounds:
    """So many rounds after a first one, which also starts what is started once. Raises `FlowerFailed`."""
    programs = Path(python).parent
    version = _said(programs, "flwr", "--version").split()[-1]
    with tempfile.TemporaryDirectory(prefix="weei-flower-") as name:
        folder, address = Path(name), f"127.0.0.1:{free_port()}"
        (folder / "config.toml").write_text(CONFIGURATION.format(address=address))
        # A copy, so that nothing is written into the project.
        shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
        times = folder / "times.json"
        environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
        }
        port = address.rpartition(":")[2]
        link = ("flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--port", port)
        with (folder / "log").open("wb") as log, _running(programs, link, environment, log):
            node = ("flower-supernode", "--insecure", "--superlink", address, "--port")
            with (
                _running(programs, (*node, str(free_port())), environment, log),
                _running(programs, (*node, str(free_port())), environment, log),
            ):
                settings = f'times="{times}" rounds={rounds + 1} weights={weights}'
                _start(programs, folder, settings, environment)
                _wait(times, folder / "log")
        begun = json.loads(times.read_text())
    return FlowerRounds(version, rounds / (begun[-1] - begun[1]))


@contextmanager
def _running(programs: Path, command: tuple[str, ...], environment: dict[str, str], log: BinaryIO) -> Iterator[None]:
    program = str(programs / command[0])
    process = subprocess.Popen(
        [program, *command[1:]], env=environment, stdout=log, stderr=log, preexec_fn=end_with_parent
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(programs: Path, folder: Path, settings: str, environment: dict[str, str]) -> None:
    """The SuperLink may not listen yet."""
    command = [str(programs / "flwr"), "run", str(folder / "app"), "bench", "--run-config", settings]
    end = time.monotonic() + MOST_SECONDS
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            raise FlowerFailed(done.stdout + done.stderr)
        time.sleep(1)


def _wait(times: Path, log: Path) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not times.exists():
        if time.monotonic() > end:
            raise FlowerFailed(log.read_text(errors="replace")[-2000:])
        time.sleep(0.5)


def _said(programs: Path, *command: str) -> str:
    return subprocess.run(
        [str(programs / command[0]), *command[1:]], check=True, capture_output=True, text=True
    ).stdout.strip()
