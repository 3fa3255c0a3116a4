"""`training_hosts`: the training of `training_browser` in each host, beside a native build of the same C.

All of them return the same weights bit for bit, or the bench ends with an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measured import Measured
from benchmarks.training_browser import in_chromium
from benchmarks.training_load import REPEATS, STEPS, WARM_UP, Assignments, NotTheSame, load, rate, settings

HERE = Path(__file__).parent
MODELS = HERE.parent / "reference_models"
NATIVE = ("-std=c17", "-O3", "-march=native", "-ffp-contract=off", "-fno-sanitize=undefined", "-no-pie", "-fno-pie")
"""With the compiler that builds the modules, which does better here than gcc. Without PIE static data lies below 4 GiB,
where the ABI's addresses reach."""
GOALS = {"chromium": 0.5}
"""Of the native build's speed; the other hosts are just told."""

Timed = tuple[list[float], str]
"""Tokens per second of each assignment, and the SHA-256 of the weights."""


def measure() -> Iterator[Measured]:
    """Each figure is a median of whole assignments, from instance to weights."""
    native, expected = in_native()
    peer = statistics.median(native)
    hosts = {"chromium": in_chromium, "node": in_node, "wasmtime": in_wasmtime}
    for name, run in hosts.items():
        rates, weights = run()
        if weights != expected:
            raise NotTheSame(f"The weights that {name} returns differ from those of the native build.")
        yield Measured(
            f"training_{name}", statistics.median(rates), "tokens/s", "clang -O3 -march=native", peer, GOALS.get(name)
        )


def in_native() -> Timed:
    with tempfile.TemporaryDirectory(prefix="weei-bench-") as name:
        folder = Path(name)
        program, out = folder / "training_native", folder / "out.bin"
        sources = [HERE / "training_native.c", *sorted(MODELS.glob("lib/*.c")), *sorted(MODELS.glob("transformer/*.c"))]
        compiler = [sys.executable, "-m", "ziglang", "cc", *NATIVE, *map(str, sources)]
        cache = {"ZIG_LOCAL_CACHE_DIR": str(folder / "cache"), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
        subprocess.run([*compiler, "-lm", "-o", str(program)], env={**os.environ, **cache}, check=True)
        files = {"segment": load().segment, "weights": load().weights, "chunk": load().chunk}
        for part, content in files.items():
            (folder / part).write_bytes(content)
        paths = [str(folder / part) for part in files]
        command = [str(program), *paths, str(WARM_UP + REPEATS), settings(STEPS), str(out)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return _rates([float(line) for line in printed.split()]), hashlib.sha256(out.read_bytes()).hexdigest()


def in_node() -> Timed:
    with tempfile.TemporaryDirectory(prefix="weei-bench-") as folder:
        task, joined = Path(folder, "task.json"), Path(folder, "joined.bin")
        task.write_text(json.dumps(load().task))
        joined.write_bytes(load().joined)
        command = ["node", str(HERE / "training_node.js"), str(task), str(joined)]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return _rates(answer["seconds"]), answer["weights"]


def in_wasmtime() -> Timed:
    assignments = Assignments(load().module)
    rates = assignments.rates(load())
    return rates, hashlib.sha256(assignments.train(load())[0]).hexdigest()


def _rates(seconds: list[float]) -> list[float]:
    return [rate(value) for value in seconds[WARM_UP:]]
