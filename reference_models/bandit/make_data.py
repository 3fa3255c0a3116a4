"""Draw the records of `record-bandit`: four training chunks of different sizes and a validation file.

`python reference_models/bandit/make_data.py` writes `data/`; the result is committed, so this runs only to check it.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

MAGIC, VERSION = b"BNDT", 1
FORMAT = "bandit-f32-v1"
CHUNKS = (40, 64, 25, 71)  # records; no two alike, so that a chunk shows in every count
VALIDATION = 120
SEED = 20_250_102
RECORD = np.dtype([("context", "<f4", 4), ("best", "<u4")])
# Scores of the three actions are linear in the context. Whole numbers keep them exact on every machine.
HIDDEN = np.array([[3, -1, -2], [-2, 3, 0], [1, -2, 3], [0, 2, -3]])
MARGIN = 64  # of 128: the best action is clearly the best


def draw(count: int) -> np.ndarray:
    random = np.random.Generator(np.random.PCG64(SEED))
    kept: list[tuple[np.ndarray, int]] = []
    while len(kept) < count:
        context = random.integers(-128, 129, size=4)
        scores = context @ HIDDEN
        ranked = np.sort(scores)
        if ranked[-1] - ranked[-2] >= MARGIN:
            kept.append((context / 128, int(scores.argmax())))
    return np.array(kept, RECORD)


def encode(records: np.ndarray) -> bytes:
    """One file: header (magic, version, record count, record size; u32le), then the records."""
    return MAGIC + struct.pack("<III", VERSION, len(records), RECORD.itemsize) + records.tobytes()


def entry(identifier: str, file_name: str, content: bytes, count: int) -> dict[str, Any]:
    return {
        "id": identifier,
        "fileName": file_name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "format": FORMAT,
        "exampleCount": count,
    }


def make(folder: Path) -> None:
    *chunks, validation, _ = np.split(draw(sum(CHUNKS) + VALIDATION), np.cumsum([*CHUNKS, VALIDATION]))
    manifest = []
    for number, records in enumerate(chunks, start=1):
        content, name = encode(records), f"train-{number}.bin"
        folder.joinpath(name).write_bytes(content)
        manifest.append(entry(f"train-{number}", name, content, len(records)))
    folder.joinpath("validation.bin").write_bytes(encode(validation))
    folder.joinpath("manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "data"
    target.mkdir(exist_ok=True)
    make(target)
