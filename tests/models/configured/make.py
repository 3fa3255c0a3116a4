"""The configured modules of the contract suite, which hosts fetch as files: small ones with a chunk each, if
they read any.

Run `python -m tests.models.configured.make` after a build of the base modules that changed them.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.models import mlp, text_policy, transformer
from weei_core.generator.configuration import configured_module
from weei_core.generator.text_policy import MAX_UNITS
from weei_core.generator.tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
TEXT = " ".join(hashlib.sha256(str(i).encode()).hexdigest()[: 3 + i % 5] for i in range(300))


def table(records: int, columns: int) -> np.ndarray:
    """Whole numbers from 0 to 250, from integer arithmetic: the same on every machine."""
    return np.arange(records * columns).reshape(records, columns) ** 2 % 251


def policy() -> tuple[bytes, None]:
    """Sums of 0 and 1, so that even weights that know nothing answer some of them. It makes its own data."""
    network = text_policy.architecture(groupSize=16, largestOperand=1, longestAnswer=3)
    info = text_policy.info(network)
    blob = text_policy.TOKENIZER.blob()
    return configured_module(network, info, blob, batch_size=MAX_UNITS, max_chunk_bytes=0), None


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


MADE: dict[str, Callable[[], tuple[bytes, bytes | None]]] = {
    "mlp-rows": rows,
    "mlp-images": images,
    "transformer": text,
    "text-policy": policy,
}


def files() -> dict[str, bytes]:
    """Every file of this folder that is made, by name."""
    found = {}
    for name, make in MADE.items():
        module, chunk = make()
        found[f"{name}.wasm"] = module
        if chunk is not None:
            found[f"{name}.bin"] = chunk
    return found


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_bytes(content)
