"""The base module `transformer` as the tests use it: configured, with chunks, one operation per fresh instance."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver
from weei_core.generator.architectures import TransformerArchitecture
from weei_core.generator.configuration import BASE_MODULES, model_info, segment
from weei_core.generator.tokenizers import Tokenizer
from weei_core.generator.wasm_edit import configured

ENGINE = Engine()
BASE = BASE_MODULES / "transformer" / "transformer.wasm"
FORMAT = "weei-tokens"
PAGE_BYTES = 65_536

Record = tuple[Sequence[int], int]
"""Tokens, and the index of the first that is a target (0: all but the first)."""


@cache
def bytes_tokenizer() -> Tokenizer:
    return Tokenizer.train([], "bytes")


def architecture(**sizes: Any) -> TransformerArchitecture:
    """A small one; `sizes` are those of the JSON form."""
    small = {"vocabSize": 256, "context": 16, "layers": 2, "heads": 2, "width": 12, "hidden": 20}
    return TransformerArchitecture.parse({**small, **sizes})


def info(of: TransformerArchitecture) -> dict[str, Any]:
    return model_info(
        of,
        id="tiny",
        name="Tiny",
        max_chunk_bytes=1 << 20,
        max_examples_per_chunk=1 << 16,
        inference={"kind": "text"},
        whole_answers=True,
    )


def module_bytes(of: TransformerArchitecture, blob: bytes | None = None, *, pages: int = 1024) -> bytes:
    """Configured with this vocabulary (that of bytes when there is none); `pages` is its memory's maximum."""
    vocabulary = bytes_tokenizer().blob() if blob is None else blob
    written = segment(of.config_kind, info(of), of.values(), vocabulary)
    return configured(BASE.read_bytes(), written, section=b"{}", initial_pages=66, maximum_pages=pages)


class Model:
    """One configured module; each call of `instance` is a fresh one."""

    def __init__(self, of: TransformerArchitecture, blob: bytes | None = None, *, pages: int = 1024) -> None:
        self.architecture = of
        self.module = Module(ENGINE, module_bytes(of, blob, pages=pages))

    def instance(self, weights: bytes | None = None) -> Driver:
        driver = Driver(ENGINE, self.module)
        if weights is not None:
            driver.load(weights)
        return driver

    def initial_weights(self, seed: int = 7) -> bytes:
        driver = self.instance()
        return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))

    def train(self, weights: bytes, chunk: bytes, seed: int = 3, selection: Any = None, **settings: Any) -> Any:
        """The result of one assignment, with `weights` as bytes and `progress`."""
        driver = self.instance(weights)
        chosen = {"localEpochs": 1, "batchSize": 4, **settings}
        request = {"data": data_of(driver, chunk, **(selection or {})), "settings": chosen, "round": 1}
        result = driver.run("train", {**request, "seed": str(seed)})
        if "error" not in result:
            result["weights"] = bytes(driver.read(**result["weights"]))
        return {**result, "progress": driver.progress}

    def evaluate(self, weights: bytes, chunk: bytes, **selection: int) -> Any:
        driver = self.instance(weights)
        settings = {"localEpochs": 1, "batchSize": 4}
        return driver.run("evaluate", {"data": data_of(driver, chunk, **selection), "settings": settings})

    def predict(self, weights: bytes, text: str, **options: Any) -> Any:
        return self.instance(weights).run("predict", {"input": {"text": text, **options}})


def data_of(driver: Driver, content: bytes, **selection: int) -> dict[str, Any]:
    return {**driver.put(content), "format": FORMAT, **selection}


def chunk_of(records: Sequence[Record], vocabulary: int = 256) -> bytes:
    """Records one behind the other."""
    table, tokens = b"", b""
    for own, loss_from in records:
        table += struct.pack("<IHH", len(tokens) // 2, len(own), loss_from)
        tokens += struct.pack(f"<{len(own)}H", *own)
    header = struct.pack("<4sIII", b"WTOK", 1, len(records), vocabulary)
    return header + table + tokens + bytes(-len(tokens) % 4)


def windows(text: bytes, context: int) -> bytes:
    """A text of bytes cut as the generator cuts it: windows of context + 1 tokens, `context` apart."""
    starts = range(0, len(text) - 1, context)
    entries = [struct.pack("<IHH", at, min(context + 1, len(text) - at), 0) for at in starts]
    tokens = struct.pack(f"<{len(text)}H", *text)
    return struct.pack("<4sIII", b"WTOK", 1, len(entries), 256) + b"".join(entries) + tokens + bytes(-len(tokens) % 4)
