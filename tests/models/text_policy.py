"""The base module `text_policy` as the tests use it: configured over a tiny network."""

from __future__ import annotations

from typing import Any

from wasmtime import Module

from tests.models import transformer
from tests.models.driver import Driver
from weei_core.generator.configuration import BASE_MODULES, segment
from weei_core.generator.text_policy import PolicySettings, TextPolicyArchitecture, policy_info
from weei_core.generator.tokenizers import Tokenizer
from weei_core.generator.wasm_edit import configured

BASE = BASE_MODULES / "text_policy" / "text_policy.wasm"
DEFAULTS = {"localEpochs": 1, "batchSize": 8}
TOKENIZER = Tokenizer.train(["0123456789+="], "characters", end_token="<end>")


def architecture(sizes: Any = None, **policy: Any) -> TextPolicyArchitecture:
    """A small one that adds digits; `policy` are settings in their JSON form."""
    network = transformer.architecture(
        vocabSize=TOKENIZER.size, endToken=TOKENIZER.end_token, width=16, hidden=32, **(sizes or {})
    )
    small = {"groupSize": 4, "largestOperand": 9, "longestAnswer": 4, "learningRate": 0.001, **policy}
    return TextPolicyArchitecture.of(network, PolicySettings.parse(small))


def info(of: TextPolicyArchitecture) -> dict[str, Any]:
    return policy_info(of, transformer.info(of.transformer))


def module_bytes(
    of: TextPolicyArchitecture, values: Any = None, blob: bytes | None = None, *, pages: int = 1024
) -> bytes:
    """`values` and `blob` in place of the architecture's own and the tokenizer's."""
    written = segment(of.config_kind, info(of), values or of.values(), TOKENIZER.blob() if blob is None else blob)
    return configured(BASE.read_bytes(), written, section=b"{}", initial_pages=66, maximum_pages=pages)


class Model:
    """One configured module; each call of `instance` is a fresh one."""

    def __init__(self, of: TextPolicyArchitecture, **options: Any) -> None:
        self.architecture = of
        self.module = Module(transformer.ENGINE, module_bytes(of, **options))

    def instance(self, weights: bytes | None = None, reference: bytes | None = None) -> Driver:
        """Without a reference it is the weights themselves."""
        driver = Driver(transformer.ENGINE, self.module)
        if weights is not None:
            driver.load(weights)
            slot = {"id": "reference", "weights": driver.put(weights if reference is None else reference)}
            assert driver.run("loadAuxiliary", slot) == {}
        return driver

    def initial_weights(self, seed: int = 7) -> bytes:
        driver = self.instance()
        return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))

    def train(self, weights: bytes, reference: bytes | None = None, units: Any = None, **settings: Any) -> Any:
        """The result of one assignment, with `weights` as bytes and `progress`."""
        driver = self.instance(weights, reference)
        request = {"experience": units or units_of(), "settings": {**DEFAULTS, **settings}, "round": 1}
        result = driver.run("train", request)
        if "error" not in result:
            result["weights"] = bytes(driver.read(**result["weights"]))
        return {**result, "progress": driver.progress}

    def evaluate(self, weights: bytes, units: Any = None) -> Any:
        request = {"experience": units or units_of(count=100), "settings": DEFAULTS}
        return self.instance(weights).run("evaluate", request)


def units_of(seed: int = 3, start: int = 0, count: int = 16) -> dict[str, Any]:
    return {"seed": str(seed), "unitStart": start, "unitCount": count}


def supervised(of: TextPolicyArchitecture, epochs: int, seed: int = 7, **settings: Any) -> bytes:
    """Weights of the transformer that saw every sum of this policy so many times."""
    model = transformer.Model(of.transformer, TOKENIZER.blob())
    sums = range(of.policy.largest_operand + 1)
    records = [(TOKENIZER.encode(f"{a}+{b}={a + b}<end>"), 0) for a in sums for b in sums]
    chunk = transformer.chunk_of(records, TOKENIZER.size)
    result = model.train(model.initial_weights(seed), chunk, localEpochs=epochs, batchSize=16, **settings)
    return bytes(result["weights"])
