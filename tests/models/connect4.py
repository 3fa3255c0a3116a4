"""The Connect Four model as the tests use it: one operation per fresh instance, in the host's order of calls."""

from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver

FOLDER = Path(__file__).resolve().parents[2] / "reference_models" / "connect4"
DEFAULTS = {"localEpochs": 2, "batchSize": 16}
WEIGHT_COUNT = 13_921

ENGINE = Engine()
MODULE = Module.from_file(ENGINE, str(FOLDER / "connect4.wasm"))


def instance(weights: bytes | None = None, opponent: bytes | None = None) -> Driver:
    driver = Driver(ENGINE, MODULE)
    if weights is not None:
        driver.load(weights)
        slot = {"id": "opponent", "weights": driver.put(weights if opponent is None else opponent)}
        assert driver.run("loadAuxiliary", slot) == {}
    return driver


def initial_weights(seed: int = 7) -> bytes:
    driver = instance()
    return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))


def units(seed: int, start: int, count: int) -> dict[str, Any]:
    return {"seed": str(seed), "unitStart": start, "unitCount": count}


def train(
    weights: bytes,
    opponent: bytes | None = None,
    seed: int = 3,
    start: int = 0,
    count: int = 8,
    settings: Any = None,
) -> dict[str, Any]:
    """The result of one assignment, with `weights` as bytes and `progress`. Without an opponent it is itself."""
    driver = instance(weights, opponent)
    request = {"experience": units(seed, start, count), "settings": settings or DEFAULTS, "round": 1}
    result = driver.run("train", request)
    if "error" not in result:
        result["weights"] = bytes(driver.read(**result["weights"]))
    return {**result, "progress": driver.progress}


def evaluate(weights: bytes, seed: int = 5, start: int = 0, count: int = 40) -> dict[str, Any]:
    return instance(weights).run("evaluate", {"experience": units(seed, start, count), "settings": DEFAULTS})


def predict(driver: Driver, moves: str) -> dict[str, Any]:
    output = driver.run("predict", {"input": {"moves": moves}})["output"]
    assert isinstance(output, dict)
    return output
