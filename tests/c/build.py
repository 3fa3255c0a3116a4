"""Compile the native test programs: the models' own sources with gcc, AddressSanitizer and UBSan.

A program is linked with the model that its name holds, else with digits.
"""

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "reference_models"

# Without PIE static data lies below 4 GiB, so that its addresses fit the ABI's 32 bits (see native.c).
WARNINGS = ("-Wall", "-Wextra", "-Werror")
LOW_ADDRESSES = ("-no-pie", "-fno-pie")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=c17", "-O1", "-ffp-contract=off", *WARNINGS, *LOW_ADDRESSES, *SANITIZERS)


def sources(program: str) -> list[Path]:
    """The program, its machine, the library and all of the model."""
    model = next((name for name in ("cartpole", "connect4", "mlp", "transformer") if name in program), "digits")
    own = [HERE / f"{program}.c", HERE / "native.c"]
    return own + sorted(MODELS.glob("lib/*.c")) + sorted(MODELS.glob(f"{model}/*.c"))


def compile_program(program: str, folder: Path) -> Path:
    target = folder / program
    subprocess.run(["gcc", *FLAGS, *map(str, sources(program)), "-lm", "-o", str(target)], check=True)
    return target
