"""Convert scikit-learn's handwritten digits to `digits-u8-v1` files: 12 training chunks and a validation file.

`python reference_models/digits/make_data.py` writes `data/`; the result is committed, so this runs only to check it.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

MAGIC, VERSION, RECORD_BYTES = b"DGU8", 1, 65
FORMAT = "digits-u8-v1"
CHUNKS, CHUNK_RECORDS = 12, 125
SHUFFLE_SEED = 20_250_101  # any fixed number: the source is sorted by writer, chunks should not be


def encode(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """One file: header (magic, version, record count, record size; u32le), then 64 pixels and the label each.

    pixels: (n, 64), whole numbers 0 to 16; labels: (n,), 0 to 9.
    """
    records = np.concatenate([pixels, labels[:, None]], axis=1).astype(np.uint8)
    return MAGIC + struct.pack("<III", VERSION, len(records), RECORD_BYTES) + records.tobytes()


def entry(identifier: str, file_name: str, content: bytes, count: int) -> dict[str, object]:
    return {
        "id": identifier,
        "fileName": file_name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "format": FORMAT,
        "exampleCount": count,
    }


def make(folder: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(SHUFFLE_SEED)).permutation(len(labels))
    manifest = []
    for chunk in range(CHUNKS):
        chosen = order[chunk * CHUNK_RECORDS : (chunk + 1) * CHUNK_RECORDS]
        content, name = encode(pixels[chosen], labels[chosen]), f"train-{chunk + 1:03}.bin"
        folder.joinpath(name).write_bytes(content)
        manifest.append(entry(f"train-{chunk + 1:03}", name, content, len(chosen)))
    held_out = order[CHUNKS * CHUNK_RECORDS :]
    folder.joinpath("validation.bin").write_bytes(encode(pixels[held_out], labels[held_out]))
    folder.joinpath("manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "data"
    target.mkdir(exist_ok=True)
    make(target)
