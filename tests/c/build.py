"""Compile the native test programs: the models' own sources with gcc, AddressSanitizer and UBSan.

A program is linked with the model that its name holds, else with digits.
"""

import subprocess
from pathlib import Path

from reference_models.build import HERE as FOLDER
from reference_models.build import MODELS
from reference_models.build import sources as model_sources

HERE = Path(__file__).resolve().parent

# Without PIE static data lies below 4 GiB, so that its addresses fit the ABI's 32 bits (see native.c).
WARNINGS = ("-Wall", "-Wextra", "-Werror")
LOW_ADDRESSES = ("-no-pie", "-fno-pie")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=c17", "-O1", "-ffp-contract=off", *WARNINGS, *LOW_ADDRESSES, *SANITIZERS)


def sources(program: str) -> list[Path]:
    """The program, its machine, the library and all of the model, with what that shares of another."""
    model = next((model for model in MODELS if model.id in program), next(m for m in MODELS if m.id == "digits"))
    own = [HERE / f"{program}.c", HERE / "native.c"]
    return own + [FOLDER / path for path in model_sources(model)]


def compile_program(program: str, folder: Path) -> Path:
    target = folder / program
    subprocess.run(["gcc", *FLAGS, *map(str, sources(program)), "-lm", "-o", str(target)], check=True)
    return target
