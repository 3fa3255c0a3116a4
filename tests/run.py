"""`make test`: every stage in order, each with its time against its budget. `python -m tests.run --only NAME`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
PYTEST = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider")
# Stages of many small tests use all cores; the others measure, or start several processes themselves.
PARALLEL = (*PYTEST, "-n", "auto", "--maxprocesses", "4", "--dist", "loadfile")

# What the stages need beside Python's packages: a program, and the Debian packages that bring it.
PROGRAMS = {
    "node": ("nodejs",),
    "npm": ("npm",),
    "gcc": ("gcc", "libc6-dev"),
    "chromium": ("chromium",),
    "firefox-esr": ("firefox-esr",),
}


@dataclass(frozen=True)
class Stage:
    name: str
    budget_minutes: float
    commands: tuple[Sequence[str], ...]


def stages(full: bool) -> list[Stage]:
    slow = () if full else ("-m", "not full")
    return [
        Stage(
            "static",
            2,
            (
                (PYTHON, "-m", "ruff", "check", "."),
                (PYTHON, "-m", "ruff", "format", "--check", "."),
                (PYTHON, "-m", "mypy", "."),
                (PYTHON, "manage.py", "makemigrations", "--check", "--dry-run"),
                ("npm", "run", "--silent", "check"),
                ("npm", "run", "--silent", "lint"),
            ),
        ),
        Stage("core", 3, ((*PARALLEL, *slow, "tests/core", "tests/models", "tests/simulation", "tests/c"),)),
        Stage("node", 2, (("npm", "test", "--silent"),)),
        Stage("hosts", 2, ((*PYTEST, *slow, "tests/hosts"),)),
        Stage("server", 5, ((*PARALLEL, *slow, *SERVER),)),
        Stage("postgresql", 4, ((PYTHON, "-m", "tests.pg.server", "--", *PARALLEL, "-m", "db", *SERVER),)),
        Stage("stack", 6, ((*PYTEST, *slow, "tests/stack", "tests/launch"),)),
        Stage("browser", 8, ((*PYTEST, *slow, "-p", "no:randomly", "tests/browser"),)),
    ]


SERVER = tuple(
    f"tests/{name}"
    for name in (
        "jobs",
        "checkpoints",
        "creation",
        "peers",
        "api",
        "security",
        "site",
        "pages",
        "agent",
        "cli",
        "pg",
        "chaos",
        "load",
    )
) + ("tests/test_architecture.py", "tests/test_docs.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run")
    parser.add_argument("--only", action="append", help="a stage's name; may be given several times")
    parser.add_argument("--full", action="store_true", help="with the long tests too")
    options = parser.parse_args()
    chosen = [stage for stage in stages(options.full) if not options.only or stage.name in options.only]
    if not chosen:
        parser.error(f"the stages are {', '.join(stage.name for stage in stages(False))}")
    begun = time.monotonic()
    if not install_programs() or not install_node_modules():
        return 1
    print(f"install: {minutes(begun)} of 2 minutes", flush=True)
    results = [(stage, *run(stage)) for stage in chosen]
    print("\nStages:")
    for stage, ok, took in results:
        print(
            f"  {'passed' if ok else 'FAILED'}  {stage.name:<11} {took / 60:4.1f} of {stage.budget_minutes:g} minutes"
        )
    failed = sum(not ok for _, ok, _ in results)
    print(f"All of it took {minutes(begun)} minutes.\nstages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def minutes(since: float) -> str:
    return f"{(time.monotonic() - since) / 60:.1f}"


def run(stage: Stage) -> tuple[bool, float]:
    """All commands of a stage, also after one failed, so that one run shows everything that is wrong."""
    begun = time.monotonic()
    ok = True
    for command in stage.commands:
        print(f"\n=== {stage.name}: {' '.join(command).replace(PYTHON, 'python')}", flush=True)
        ok = subprocess.run(command, cwd=ROOT, check=False).returncode == 0 and ok
    return ok, time.monotonic() - begun


def install_programs() -> bool:
    """Debian's packages are installed by root in CI only; anybody else is told the command."""
    missing = [name for program, names in PROGRAMS.items() if not shutil.which(program) for name in names]
    if not missing:
        return True
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.environ.get("CI") != "true" or os.geteuid() != 0:
        print(f"The tests need more programs. Type:\n  sudo apt-get update && sudo {' '.join(command)}")
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return all(
        subprocess.run(c, env=environment, check=False).returncode == 0 for c in (["apt-get", "update"], command)
    )


def install_node_modules() -> bool:
    stamp = ROOT / "node_modules" / ".installed"
    wanted = (ROOT / "package-lock.json").read_bytes()
    if stamp.is_file() and stamp.read_bytes() == wanted:
        return True
    if subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=ROOT, check=False).returncode != 0:
        return False
    stamp.write_bytes(wanted)
    return True


if __name__ == "__main__":
    sys.exit(main())
