"""Writes `reward.bin`, `aux-echo.wasm` and `package.json`: `python -m tests.models.auxiliary.build`.

Run it after a change of `echo.c` or of what it uses of the reference models' library; a test compares.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from reference_models.build import COMPILE, LINK
from reference_models.build import HERE as MODELS
from reference_models.packaging import MIB, cpu_package, described, inline_text
from tests.models.driver import Driver

HERE = Path(__file__).resolve().parent
REWARD = struct.pack("<2f", 0.625, -3)
REWARD_FILE = described("reward.bin", REWARD)


def compile_to(target: Path) -> None:
    """With the reference models' compiler and flags."""
    own = [f'-DREWARD_SHA256="{REWARD_FILE["sha256"]}"', "-Ilib", f"-Wl,--max-memory={MIB}"]
    library = sorted(path.relative_to(MODELS).as_posix() for path in MODELS.glob("lib/*.c"))
    sources = [*library, os.path.relpath(HERE / "echo.c", MODELS)]
    command = [sys.executable, "-m", "ziglang", "cc", *COMPILE, *LINK, *own, *sources, "-o", str(target)]
    cache = str(target.with_name("cache"))
    environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": cache, "ZIG_GLOBAL_CACHE_DIR": cache}
    subprocess.run(command, cwd=MODELS, env=environment, check=True)


def package(module: Path) -> dict[str, Any]:
    """What the module says of itself, with the file of its first slot."""
    engine = Engine()
    info = Driver(engine, Module.from_file(engine, str(module))).run("getModelInfo", {})
    reward, *snapshots = info["auxiliaryWeights"]
    return cpu_package(
        module,
        info["id"],
        snapshots[0]["bytes"] // 4,
        chunks=[],
        extra={"workSource": info["workSource"], "auxiliaryWeights": [{**reward, **REWARD_FILE}, *snapshots]},
        working_bytes=MIB,
        progress_unit="step",
        optimizer_unit="step",
    )


def files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="weei-build-") as folder:
        module = Path(folder, "aux-echo.wasm")
        compile_to(module)
        return {
            "reward.bin": REWARD,
            "aux-echo.wasm": module.read_bytes(),
            "package.json": inline_text(package(module)),
        }


if __name__ == "__main__":
    for name, content in files().items():
        HERE.joinpath(name).write_bytes(content)
