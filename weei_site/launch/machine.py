"""What can be wrong with the machine before anything starts, each as one sentence."""

from __future__ import annotations

import contextlib
import errno
import shutil
import socket
from pathlib import Path

NEEDED_BYTES = 300 * 1024 * 1024


class CannotStart(Exception):
    """One clear sentence for the person at the terminal."""


def check_port(port: int, command: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except PermissionError:
            raise CannotStart(f"Port {port} needs root. Choose one above 1023: {command} PORT=8000") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise CannotStart(
                f"Port {port} is taken by another program. Stop it, or choose another: {command} PORT={port + 1}"
            ) from None


def check_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise CannotStart(
            f"The disk of {folder} has {free // 1024**2} MiB free; Weei needs {NEEDED_BYTES // 1024**2} MiB. "
            "Free some, or choose another folder with VAR_DIR."
        )


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
