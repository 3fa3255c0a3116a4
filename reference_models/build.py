"""Build the reference models and the server's merge to WebAssembly, bit for bit the same on every machine.

`python reference_models/build.py [ID …]` writes `<model>/<model>.wasm`; with `--check` it builds aside and compares
with the committed files instead. The compiler is the pinned `ziglang` wheel (requirements-dev.txt).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Module:
    id: str
    max_memory: int  # bytes, a multiple of 65,536: room for the largest chunk the module declares, and little more
    link: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # sources of another model that it shares, as globs
    folder: str = ""  # where its sources are, if it is no model: those share reference_models/lib

    @property
    def globs(self) -> tuple[str, ...]:
        return (f"{self.folder}/*.c",) if self.folder else ("lib/*.c", f"{self.id}/*.c", *self.also)

    @property
    def committed(self) -> Path:
        return HERE / (self.folder or self.id) / f"{self.id}.wasm"


# Base modules of weei_core/generator, which writes a configuration behind the stack, in [65,536, 4,194,304), and sets
# the memory's maximum. Until then they only say that they have none, for which their static data is enough.
CONFIGURED = ("-Wl,--global-base=4194304",)
TRANSFORMER_PARTS = tuple(f"transformer/{part}.c" for part in ("generate", "model", "network", "prediction", "text"))

MODELS = (
    Module("digits", 8 << 20),
    Module("cartpole", 40 << 20),
    Module("bandit", 1 << 20),
    Module("connect4", 12 << 20),
    Module("mlp", 8 << 20, CONFIGURED),
    Module("transformer", 8 << 20, CONFIGURED),
    Module("text_policy", 8 << 20, CONFIGURED, also=TRANSFORMER_PARTS),
)
MODULES = (*MODELS, Module("merge", 8 << 20, folder="../weei_core/aggregation"))

# No fast-math, no contraction to FMA, no relaxed SIMD: equal bits on every engine. Features are listed one by one, so
# that a newer compiler cannot add one silently.
COMPILE = (
    "--target=wasm32-freestanding",
    "-mcpu=mvp+bulk_memory+nontrapping_fptoint+sign_ext+simd128",
    "-std=c17",
    "-O2",
    "-g0",
    "-ffp-contract=off",
    "-fno-sanitize=undefined",
    "-Wall",
    "-Wextra",
    "-Werror",
)
# The stack lies below the static data: running over it leaves the memory and traps instead of changing values.
LINK = ("-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536")


def sources(module: Module) -> list[str]:
    """Paths relative to this folder, in one order everywhere: the compiler sees no machine's own path."""
    found = [path for pattern in module.globs for path in HERE.glob(pattern)]
    return sorted(Path(os.path.relpath(path, HERE)).as_posix() for path in found)


def build(module: Module, target: Path, cache: Path) -> None:
    """Compile and link one module to `target`; the compiler's own output goes to this process's stderr."""
    command = [sys.executable, "-m", "ziglang", "cc", *COMPILE, *LINK, f"-Wl,--max-memory={module.max_memory}"]
    command += module.link
    environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": str(cache), "ZIG_GLOBAL_CACHE_DIR": str(cache)}
    subprocess.run([*command, *sources(module), "-o", str(target)], cwd=HERE, env=environment, check=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("modules", nargs="*", metavar="ID", help="only these; none: all of them")
    options = parser.parse_args(arguments)
    check: bool = options.check
    chosen: list[str] = options.modules
    if unknown := set(chosen) - {module.id for module in MODULES}:
        parser.error(f"there is no module {', '.join(sorted(unknown))}")
    different = []
    with tempfile.TemporaryDirectory(prefix="weei-build-") as folder:
        for module in (module for module in MODULES if not chosen or module.id in chosen):
            built, committed = Path(folder, f"{module.id}.wasm"), module.committed
            build(module, built, Path(folder, "cache"))
            if not check:
                committed.write_bytes(built.read_bytes())
            elif not committed.exists() or committed.read_bytes() != built.read_bytes():
                different.append(committed.name)
    if different:
        print(f"Not what the sources build: {', '.join(different)}. Run reference_models/build.py and commit.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
