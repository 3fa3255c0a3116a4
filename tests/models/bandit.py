"""The bandit module as the tests use it: files, and one operation per fresh instance."""

import struct
from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver

FOLDER = Path(__file__).resolve().parents[2] / "reference_models" / "bandit"
FORMAT = "bandit-f32-v1"
RECORD_BYTES = 20
CHUNKS = sorted(FOLDER.glob("data/train-*.bin"))
DEFAULTS = {"localEpochs": 1, "batchSize": 8}

ENGINE = Engine()
MODULE = Module.from_file(ENGINE, str(FOLDER / "bandit.wasm"))


def instance() -> Driver:
    return Driver(ENGINE, MODULE)


def chunk(index: int) -> bytes:
    return CHUNKS[index].read_bytes()


def validation() -> bytes:
    return FOLDER.joinpath("data", "validation.bin").read_bytes()


def record_count(content: bytes) -> int:
    return (len(content) - 16) // RECORD_BYTES


def make_file(records: bytes) -> bytes:
    return b"BNDT" + struct.pack("<III", 1, len(records) // RECORD_BYTES, RECORD_BYTES) + records


def initial_weights(seed: int = 7) -> bytes:
    driver = instance()
    return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))


def request(driver: Driver, content: bytes, seed: int, unit_start: int, **selection: int) -> dict[str, Any]:
    """Data and experience of one assignment: as many units as records are selected."""
    units = selection.get("recordCount", record_count(content))
    return {
        "data": {**driver.put(content), "format": FORMAT, **selection},
        "experience": {"seed": str(seed), "unitStart": unit_start, "unitCount": units},
    }


def train(
    weights: bytes, content: bytes, seed: int = 3, unit_start: int = 0, settings: Any = None, **selection: int
) -> dict[str, Any]:
    """The result of one assignment, with `weights` as bytes and `progress`."""
    driver = instance()
    driver.load(weights)
    whole = request(driver, content, seed, unit_start, **selection)
    result = driver.run("train", {**whole, "settings": settings or DEFAULTS, "round": 1})
    if "error" not in result:
        result["weights"] = bytes(driver.read(**result["weights"]))
    return {**result, "progress": driver.progress}


def evaluate(weights: bytes, content: bytes, **selection: int) -> dict[str, Any]:
    driver = instance()
    driver.load(weights)
    return driver.run("evaluate", {**request(driver, content, 3, 0, **selection), "settings": DEFAULTS})
