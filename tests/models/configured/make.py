"""The configured modules of the contract suite, which hosts fetch as files: small ones with a chunk each.

Run `python -m tests.models.configured.make` after a build of the base modules that changed them.
"""

import hashlib
from pathlib import Path

import numpy as np

from tests.models import mlp, transformer
from weei_core.generator.configuration import configured_module
from weei_core.generator.tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
TEXT = " ".join(hashlib.sha256(str(i).encode()).hexdigest()[: 3 + i % 5] for i in range(300))


def table(records: int, columns: int) -> np.ndarray:
    """Whole numbers from 0 to 250, from integer arithmetic: the same on every machine."""
    return np.arange(records * columns).reshape(records, columns) ** 2 % 251


def rows() -> tuple[bytes, bytes]:
    """Classes of numbers through GELU, with AdamW: every function of the module that is not plain arithmetic."""
    network = mlp.architecture(inputs=7, outputs=3, hidden=[21, 10], activation="gelu")
    inputs = table(150, 7)
    return mlp.wasm(network), mlp.chunk(network, inputs / 128 - 1, inputs.sum(axis=1) % 3)


def images() -> tuple[bytes, bytes]:
    """Values of bytes through tanh, with SGD."""
    network = mlp.architecture(
        inputs=25, outputs=2, hidden=[13], activation="tanh", task="regression", inputKind="uint8", optimizer="sgd"
    )
    inputs = table(150, 25)
    return mlp.wasm(network), mlp.chunk(network, inputs, inputs[:, :2] / 64 - inputs[:, 2:4] / 128)


def text() -> tuple[bytes, bytes]:
    """A small decoder over merged tokens."""
    tokenizer = Tokenizer.train([TEXT], "bpe", 40)
    network = transformer.architecture(vocabSize=len(tokenizer.tokens), context=24)
    made = configured_module(
        network, transformer.info(network), tokenizer.blob(), batch_size=4, max_chunk_bytes=1 << 16
    )
    tokens = tokenizer.encode(TEXT)
    records = [(tokens[at : at + 25], 0) for at in range(0, 24 * 20, 24)]
    return made, transformer.chunk_of(records, network.vocab_size)


MADE = {"mlp-rows": rows, "mlp-images": images, "transformer": text}


def files() -> dict[str, bytes]:
    """Every file of this folder that is made, by name."""
    found = {}
    for name, make in MADE.items():
        found[f"{name}.wasm"], found[f"{name}.bin"] = make()
    return found


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_bytes(content)
