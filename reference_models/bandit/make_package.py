"""Write `data/package.json`: module, kind of experience, chunk list and validation file in one `weei-model-package`.

Run `python -m reference_models.bandit.make_package` after `build.py` or `make_data.py` changed something: the package
states sizes and hashes of both.
"""

import json
from pathlib import Path
from typing import Any

from reference_models.packaging import MIB, cpu_package, described, inline_text

HERE = Path(__file__).resolve().parent

# What the module's ModelInfo says, in the same words.
WORK_SOURCE = {
    "kind": "experience",
    "inputs": "dataset",
    "unit": {"id": "record", "label": "Records"},
    "unitsPerAssignment": {"default": 64, "minimum": 1, "maximum": 10000},
    "evaluationUnits": 0,
}


def package() -> dict[str, Any]:
    chunks = json.loads(HERE.joinpath("data", "manifest.json").read_text())
    content = HERE.joinpath("data", "validation.bin").read_bytes()
    validation = {
        **described("validation.bin", content),
        "format": chunks[0]["format"],
        "exampleCount": int.from_bytes(content[8:12], "little"),
    }
    return cpu_package(
        HERE / "bandit.wasm",
        "record-bandit",
        15,
        chunks=chunks,
        extra={"validation": validation, "workSource": WORK_SOURCE, "auxiliaryWeights": []},
        working_bytes=MIB,
        progress_unit="record",
        optimizer_unit="batch",
    )


if __name__ == "__main__":
    HERE.joinpath("data", "package.json").write_bytes(inline_text(package()))
