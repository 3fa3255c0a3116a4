"""The configured module `mlp` as the tests use it: architectures, chunks, and one operation per fresh instance."""

import struct
from functools import cache
from typing import Any

import numpy as np
from wasmtime import Engine, Module

from tests.models.driver import Driver
from weei_core.generator.architectures import MlpArchitecture
from weei_core.generator.configuration import configured_module, mlp_blob, model_info

FORMAT = "weei-rows"
DEFAULTS = {"localEpochs": 5, "batchSize": 16}
ENGINE = Engine()


def architecture(**changes: Any) -> MlpArchitecture:
    """Three numbers, two classes, one hidden layer of eight; the keys are those of the request."""
    return MlpArchitecture.parse({"inputs": 3, "outputs": 2, "hidden": [8], **changes})


def statistics(columns: int) -> list[tuple[float, float]]:
    """Exact in float32, so that NumPy normalises to the same bits."""
    return [(column / 4 - 1, 2.0 ** (column % 3 - 1)) for column in range(columns)]


def blob(network: MlpArchitecture) -> bytes:
    regression, numbers = network.task == "regression", network.input_kind == "float32"
    return mlp_blob(
        network,
        classes=[] if regression else [f"class {i}" for i in range(network.outputs)],
        input_statistics=statistics(network.inputs) if numbers else [],
        output_statistics=statistics(network.outputs) if regression else [],
    )


def info(network: MlpArchitecture, max_chunk_bytes: int = 1 << 20) -> dict[str, Any]:
    return model_info(
        network,
        id="rows",
        name="Rows",
        max_chunk_bytes=max_chunk_bytes,
        max_examples_per_chunk=100_000,
        inference={"input": {"kind": "row", "label": "Numbers", "columns": network.inputs}},
    )


@cache
def wasm(network: MlpArchitecture, max_chunk_bytes: int = 1 << 20) -> bytes:
    return configured_module(
        network, info(network, max_chunk_bytes), blob(network), batch_size=16, max_chunk_bytes=max_chunk_bytes
    )


@cache
def compiled(network: MlpArchitecture) -> Module:
    return Module(ENGINE, wasm(network))


def instance(network: MlpArchitecture) -> Driver:
    return Driver(ENGINE, compiled(network))


def chunk(network: MlpArchitecture, inputs: np.ndarray, targets: np.ndarray) -> bytes:
    """`inputs` (records, inputs), `targets` (records,) classes or (records, outputs) values."""
    regression, numbers = network.task == "regression", network.input_kind == "float32"
    kind = (0 if numbers else 2) + regression
    header = struct.pack("<6I", 0x574F5257, 1, len(inputs), network.inputs, network.outputs if regression else 1, kind)
    rows = inputs.astype("<f4" if numbers else "u1").tobytes()
    return header + rows + bytes(-len(rows) % 4) + targets.astype("<f4" if regression else "<u4").tobytes()


def sample(network: MlpArchitecture, records: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Records that can be learned: the class is where a sum falls, the values are smooth."""
    random = np.random.default_rng(seed)
    if network.input_kind == "float32":
        inputs = random.normal(size=(records, network.inputs)).astype("f4")
        place = inputs
    else:
        inputs = random.integers(0, 256, (records, network.inputs), dtype="u1")
        place = inputs / 128 - 1
    summed = np.sin(place).sum(axis=1)
    if network.task == "classification":
        cuts = np.quantile(summed, np.linspace(0, 1, network.outputs + 1)[1:-1])
        return inputs, np.searchsorted(cuts, summed).astype("u4")
    return inputs, np.stack([summed * (i + 1) for i in range(network.outputs)], axis=1).astype("f4")


def initial_weights(network: MlpArchitecture, seed: int = 7) -> bytes:
    driver = instance(network)
    return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))


def data_of(driver: Driver, content: bytes, **selection: int) -> dict[str, Any]:
    return {**driver.put(content), "format": FORMAT, **selection}


def train(
    network: MlpArchitecture, weights: bytes, content: bytes, seed: int = 3, settings: Any = None, **selection: int
) -> dict[str, Any]:
    """The result of one assignment, with `weights` as bytes and `progress`."""
    driver = instance(network)
    driver.load(weights)
    request = {"data": data_of(driver, content, **selection), "settings": settings or DEFAULTS, "round": 1}
    result = driver.run("train", {**request, "seed": str(seed)})
    if "error" not in result:
        result["weights"] = bytes(driver.read(**result["weights"]))
    return {**result, "progress": driver.progress}


def evaluate(network: MlpArchitecture, weights: bytes, content: bytes, **selection: int) -> dict[str, Any]:
    driver = instance(network)
    driver.load(weights)
    return driver.run("evaluate", {"data": data_of(driver, content, **selection), "settings": DEFAULTS})


def predict(network: MlpArchitecture, weights: bytes, values: Any) -> dict[str, Any]:
    driver = instance(network)
    driver.load(weights)
    return driver.run("predict", {"input": {"values": values}})
