"""Write `data/package.json`: module, chunk list and validation file in one `weei-model-package` manifest.

Run `python -m reference_models.digits.make_package` after `build.py` or `make_data.py` changed something: the package
states sizes and hashes of both.
"""

import json
from pathlib import Path
from typing import Any

from reference_models.packaging import MIB, cpu_package, described, inline_text

HERE = Path(__file__).resolve().parent


def package() -> dict[str, Any]:
    chunks = json.loads(HERE.joinpath("data", "manifest.json").read_text())
    validation = HERE.joinpath("data", "validation.bin").read_bytes()
    count = int.from_bytes(validation[8:12], "little")
    described_validation = described("validation.bin", validation)
    return cpu_package(
        HERE / "digits.wasm",
        "digits",
        2410,
        chunks=chunks,
        extra={"validation": {**described_validation, "format": chunks[0]["format"], "exampleCount": count}},
        working_bytes=8 * MIB,
        progress_unit="record",
        optimizer_unit="batch",
    )


if __name__ == "__main__":
    HERE.joinpath("data", "package.json").write_bytes(inline_text(package()))
