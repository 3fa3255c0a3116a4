"""Write `data/package.json`: the module, its games and its opponent's slot, as a `weei-model-package` manifest.

Run `python -m reference_models.connect4.make_package` after `build.py` changed the module: the package states its size
and hash.
"""

from pathlib import Path
from typing import Any

from reference_models.packaging import MIB, cpu_package, inline_text

HERE = Path(__file__).resolve().parent
WEIGHT_COUNT = 7_745

# What the module's ModelInfo says, in the same words.
WORK_SOURCE = {
    "kind": "experience",
    "inputs": "none",
    "unit": {"id": "game", "label": "Games"},
    "unitsPerAssignment": {"default": 64, "minimum": 2, "maximum": 4096},
    "evaluationUnits": 400,
}
AUXILIARY_WEIGHTS = [
    {
        "id": "opponent",
        "role": "opponent",
        "bytes": 4 * WEIGHT_COUNT,
        "source": {"kind": "checkpoint", "roundsAgo": 3},
    }
]


def package() -> dict[str, Any]:
    return cpu_package(
        HERE / "connect4.wasm",
        "connect-four",
        WEIGHT_COUNT,
        chunks=[],
        extra={"workSource": WORK_SOURCE, "auxiliaryWeights": AUXILIARY_WEIGHTS},
        working_bytes=2 * MIB,
        progress_unit="game",
        optimizer_unit="update",
    )


if __name__ == "__main__":
    HERE.joinpath("data", "package.json").write_bytes(inline_text(package()))
