"""`benchmarks/latest.json`: the newest figures of each bench, and the machine they were measured on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measured import Figure

FILE = Path(__file__).with_name("latest.json")
PACKAGES = ("numpy", "django", "uvicorn", "starlette", "websockets", "celery", "wasmtime", "psycopg", "redis")
Results = dict[str, Any]
"""`machine`, `versions`, and `figures`: each the members of its line, with `moreIsBetter`, `missed`,
`bench`, `date` and `commit`."""


def read() -> Results:
    """What there is; nothing before the first run."""
    if not FILE.exists():
        return {"machine": None, "versions": {}, "figures": []}
    results: Results = json.loads(FILE.read_text(encoding="utf-8"))
    return results


def record(bench: str, figures: Sequence[Figure]) -> None:
    """Put a bench's figures in the place of its former ones. What another machine measured is dropped: figures stand
    beside each other only if they can be compared."""
    results = read()
    here = machine()
    kept = results["figures"] if results["machine"] == here else []
    about = {"bench": bench, "date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": _commit()}
    new = [{**f.members(), "moreIsBetter": f.more_is_better, "missed": f.missed, **about} for f in figures]
    all_figures = [figure for figure in kept if figure["bench"] != bench] + new
    _write({"machine": here, "versions": versions(), "figures": sorted(all_figures, key=lambda f: str(f["bench"]))})


def forget_all_but(benches: Sequence[str]) -> None:
    """Drop the figures of benches that there are no more."""
    results = read()
    results["figures"] = [figure for figure in results["figures"] if figure["bench"] in benches]
    _write(results)


def machine() -> dict[str, Any]:
    return {
        "cpu": _found(r"^model name\s*: (.+)$", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memoryGiB": round(int(_found(r"^MemTotal:\s+(\d+) kB$", "/proc/meminfo") or 0) / 2**20),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Of Python and of what the measured code stands on. A peer's version stands with its figure."""
    found = {"python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in PACKAGES}


def _found(pattern: str, path: str) -> str | None:
    try:
        match = re.search(pattern, Path(path).read_text(), re.M)
    except OSError:
        return None
    return match[1].strip() if match else None


def _commit() -> str | None:
    """None outside of a checkout."""
    command = ["git", "rev-parse", "--short=10", "HEAD"]
    try:
        done = subprocess.run(command, cwd=FILE.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _write(results: Results) -> None:
    """Aside, then renamed: a run that is broken off leaves the former file or the new one."""
    aside = FILE.with_suffix(".part")
    aside.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(aside, FILE)
