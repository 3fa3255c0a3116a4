"""Write `data/package.json`: the module and the kind of experience it makes, as a `weei-model-package` manifest.

Run `python -m reference_models.cartpole.make_package` after `build.py` changed the module: the package states its size
and hash.
"""

from pathlib import Path
from typing import Any

from reference_models.packaging import MIB, cpu_package, inline_text

HERE = Path(__file__).resolve().parent

# What the module's ModelInfo says, in the same words.
WORK_SOURCE = {
    "kind": "experience",
    "inputs": "none",
    "unit": {"id": "episode", "label": "Episodes"},
    "unitsPerAssignment": {"default": 32, "minimum": 1, "maximum": 4096},
    "evaluationUnits": 32,
}


def package() -> dict[str, Any]:
    return cpu_package(
        HERE / "cartpole.wasm",
        "cartpole-reinforce",
        114,
        chunks=[],
        extra={"workSource": WORK_SOURCE, "auxiliaryWeights": []},
        working_bytes=4 * MIB,
        progress_unit="episode",
        optimizer_unit="update",
    )


if __name__ == "__main__":
    HERE.joinpath("data", "package.json").write_bytes(inline_text(package()))
