"""Where what we compare with is installed: an environment of its own, for its packages want others than ours.

`make install-bench` makes it beside ours; WEEI_BENCH_PYTHON may name another Python that has the packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Absent(Exception):
    """What a peer needs and does not find, in one sentence."""


def peer_python(package: str, name: str) -> str:
    """The interpreter that can import `package`; `name` is what people call it."""
    own = Path(sys.prefix, "bench", "bin", "python")
    for python in (os.environ.get("WEEI_BENCH_PYTHON"), str(own), sys.executable):
        if python and Path(python).exists() and _imports(python, package):
            return python
    raise Absent(f"{name} is not installed: run `make install-bench`, or name its interpreter in WEEI_BENCH_PYTHON.")


def _imports(python: str, package: str) -> bool:
    return subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0
