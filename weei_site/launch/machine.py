"""What can be wrong with the machine before anything starts, each as one sentence."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

MIB = 1024 * 1024
NEEDED_BYTES = 300 * MIB
"""For the database, the demo's files and some logs."""
LOW_BYTES = 32 * MIB
"""With less than this a running server is as good as out of space."""
LONGEST_RUN_DIR = 80
"""The path of a unix socket has at most 107 bytes, and supervisor adds a number to its own while it starts."""


class CannotStart(Exception):
    """One clear sentence for the person at the terminal."""


def chosen_port(text: str | None) -> int:
    port = int(text or 8000) if (text or "8000").isascii() and (text or "8000").isdigit() else 0
    if not 0 < port < 65536:
        raise CannotStart(f"PORT must be a number from 1 to 65535; found {text!r}.")
    return port


def check_port(port: int, command: str) -> None:
    try:
        _bind(port)
    except PermissionError:
        raise CannotStart(f"Port {port} needs root. Choose one above 1023: {command} PORT=8000") from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise CannotStart(
            f"Port {port} is taken by another program. Stop it, or choose another: {command} PORT={_free_after(port)}"
        ) from None


def _bind(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("0.0.0.0", port))


def _free_after(port: int) -> int:
    for candidate in range(port + 1, min(port + 100, 65536)):
        with contextlib.suppress(OSError):
            _bind(candidate)
            return candidate
    return 8000


def check_disk(folder: Path, min_free_fraction: float) -> None:
    """Room to start, and more than the fraction that the server always leaves free: below it, it takes no uploads."""
    usage = shutil.disk_usage(folder)
    needed = max(NEEDED_BYTES, int(usage.total * min_free_fraction) + LOW_BYTES)
    if usage.free < needed:
        kept = f" ({min_free_fraction:.0%} of it stay free: MIN_FREE_FRACTION)" if needed > NEEDED_BYTES else ""
        raise CannotStart(
            f"The disk of {folder} has {usage.free // MIB} MiB free; Weei needs {needed // MIB} MiB{kept}. "
            "Free some, or choose another folder with VAR_DIR."
        )


def disk_is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < LOW_BYTES


def says_disk_is_full(error: BaseException) -> bool:
    """Also when a library has wrapped the system's error, as SQLite's does."""
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def private_folder(folder: Path) -> None:
    """Make the folder of the sockets. In /tmp anybody could have made it before, to put sockets of their own there."""
    if len(os.fsencode(folder)) > LONGEST_RUN_DIR:
        raise CannotStart(f"RUN_DIR may have {LONGEST_RUN_DIR} bytes, for the sake of its sockets; found {folder}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise CannotStart(f"{folder} is a folder that others can write to. Remove it, or choose another with RUN_DIR.")


def lan_address() -> str | None:
    """This machine's address on its network, if it has one. Nothing is sent: connecting UDP only picks a route."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address = str(probe.getsockname()[0])
        return None if address.startswith("127.") else address
    return None


def public_urls(port: int) -> list[str]:
    """Where people reach this machine; the network's address first, so that links and QR codes work on phones."""
    hosts = [lan_address(), "localhost", "127.0.0.1"]
    return [f"http://{host}:{port}" for host in hosts if host]


def local_url(urls: Sequence[str]) -> str:
    """How this machine reaches the server: the server answers only to the names in PUBLIC_URLS."""
    local = [url for url in urls if urlsplit(url).hostname in ("localhost", "127.0.0.1")]
    return local[0] if local else urls[0]
