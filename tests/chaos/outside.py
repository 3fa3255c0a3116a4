"""What is seen from outside: I7 (who may read), I8 (no 5xx, no dead process, memory under its cap)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx

RSS_CAP_BYTES = 400 * 1024**2
"""Of one process of the product, jailed children not counted."""
ALLOWED_5XX = frozenset({503, 507})
UNHANDLED = re.compile(r"Exception in ASGI application|Task exception was never retrieved|Exception in callback")
"""What the sweeper logs when its database is away is handled, and no part of this."""
TEMPORARY_SECONDS = 11 * 60
"""The collector takes what is older than ten minutes."""


class Outsider:
    """A peer that accepted nothing: it knows every hash, and gets no byte."""

    def __init__(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=30) as client:
            made = client.post("/api/v1/peers", json={}).raise_for_status().json()
        self._headers = {"Authorization": f"Bearer {made['token']}"}

    def denied(self, urls: Iterable[str], paths: Iterable[str]) -> list[str]:
        """I7: one sentence for each answer that is no refusal."""
        told = []
        paths = list(paths)
        for url in urls:
            with httpx.Client(base_url=url, timeout=30) as client:
                for path in paths:
                    for who, headers in (("a stranger", {}), ("a peer of no job", self._headers)):
                        status = client.get(path, headers=headers).status_code
                        if status not in (401, 403, 404):
                            told.append(f"{who} got {status} for {path} at {url}")
        return told


def serves(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/sign-in/", timeout=5).status_code < 500
    return False


def bad_statuses(statuses: Mapping[str, int]) -> list[str]:
    """I8: what clients were answered, by status."""
    wrong = {status: count for status, count in statuses.items() if int(status) >= 500}
    return [f"{count} answers were {status}" for status, count in wrong.items() if int(status) not in ALLOWED_5XX]


def deaths(before: Mapping[str, int], after: Mapping[str, int], hit: Iterable[str]) -> list[str]:
    """I8: processes that ended without being hit."""
    spared = set(before) - set(hit)
    return [
        f"{name} ended by itself: {before[name]} became {after[name]}" for name in spared if before[name] != after[name]
    ]


def resident_bytes(pid: int) -> int:
    """0 for a process that is gone."""
    with contextlib.suppress(OSError):
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


def too_large(pids: Mapping[str, int]) -> list[str]:
    """I8."""
    sizes = {name: resident_bytes(pid) for name, pid in pids.items()}
    return [
        f"{name} holds {size >> 20} MiB, more than {RSS_CAP_BYTES >> 20}"
        for name, size in sizes.items()
        if size > RSS_CAP_BYTES
    ]


class Logs:
    """I8: errors that nobody handled, in what was written since the last look."""

    def __init__(self, files: Iterable[tuple[str, Path]]) -> None:
        self._files = list(files)
        self._seen: dict[str, int] = {}

    def unhandled(self) -> dict[str, int]:
        """How many each process wrote."""
        found = {}
        for name, path in self._files:
            text = path.read_bytes() if path.exists() else b""
            begin = self._seen.get(name, 0)
            # A rotated file begins anew.
            new = text[begin:] if begin <= len(text) else text
            self._seen[name] = len(text)
            if count := len(UNHANDLED.findall(new.decode(errors="replace"))):
                found[name] = count
        return found


def leftovers(folder: Path, older: float, now: float) -> list[str]:
    """Temporary files and slices that the collector ought to have taken."""
    found = [path for name in ("temporary", "uploads") for path in (folder / name).rglob("*") if path.is_file()]
    return [str(path.relative_to(folder)) for path in found if now - path.stat().st_mtime > older]
