"""The digits model as the tests use it: files, and one operation per fresh instance."""

import struct
from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver

FOLDER = Path(__file__).resolve().parents[2] / "reference_models" / "digits"
FORMAT = "digits-u8-v1"
CHUNKS = sorted(FOLDER.glob("data/train-*.bin"))
DEFAULTS = {"localEpochs": 5, "batchSize": 16}

ENGINE = Engine()
MODULE = Module.from_file(ENGINE, str(FOLDER / "digits.wasm"))


def instance() -> Driver:
    return Driver(ENGINE, MODULE)


def chunk(index: int) -> bytes:
    return CHUNKS[index].read_bytes()


def validation() -> bytes:
    return FOLDER.joinpath("data", "validation.bin").read_bytes()


def make_file(records: bytes) -> bytes:
    return b"DGU8" + struct.pack("<III", 1, len(records) // 65, 65) + records


def initial_weights(seed: int = 7) -> bytes:
    driver = instance()
    return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))


def data_of(driver: Driver, content: bytes, **selection: int) -> dict[str, Any]:
    return {**driver.put(content), "format": FORMAT, **selection}


def train(weights: bytes, content: bytes, seed: int = 3, settings: Any = None, **selection: int) -> dict[str, Any]:
    """The result of one assignment, with `weights` as bytes and `progress`."""
    driver = instance()
    driver.load(weights)
    request = {"data": data_of(driver, content, **selection), "settings": settings or DEFAULTS, "round": 1}
    result = driver.run("train", {**request, "seed": str(seed)})
    if "error" not in result:
        result["weights"] = bytes(driver.read(**result["weights"]))
    return {**result, "progress": driver.progress}


def evaluate(weights: bytes, content: bytes, **selection: int) -> dict[str, Any]:
    driver = instance()
    driver.load(weights)
    return driver.run("evaluate", {"data": data_of(driver, content, **selection), "settings": DEFAULTS})
