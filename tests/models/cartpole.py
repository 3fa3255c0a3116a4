"""The CartPole model as the tests use it: one operation per fresh instance."""

from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver

FOLDER = Path(__file__).resolve().parents[2] / "reference_models" / "cartpole"
DEFAULTS = {"localEpochs": 1, "batchSize": 16}

ENGINE = Engine()
MODULE = Module.from_file(ENGINE, str(FOLDER / "cartpole.wasm"))


def instance(weights: bytes | None = None) -> Driver:
    driver = Driver(ENGINE, MODULE)
    if weights is not None:
        driver.load(weights)
    return driver


def initial_weights(seed: int = 7) -> bytes:
    driver = instance()
    return bytes(driver.read(**driver.run("createInitialWeights", {"seed": str(seed)})))


def units(seed: int, start: int, count: int) -> dict[str, Any]:
    return {"seed": str(seed), "unitStart": start, "unitCount": count}


def train(weights: bytes, seed: int = 3, start: int = 0, count: int = 32, settings: Any = None) -> dict[str, Any]:
    """The result of one assignment, with `weights` as bytes and `progress`."""
    driver = instance(weights)
    request = {"experience": units(seed, start, count), "settings": settings or DEFAULTS, "round": 1}
    result = driver.run("train", request)
    if "error" not in result:
        result["weights"] = bytes(driver.read(**result["weights"]))
    return {**result, "progress": driver.progress}


def evaluate(weights: bytes, seed: int = 5, start: int = 0, count: int = 32) -> dict[str, Any]:
    return instance(weights).run("evaluate", {"experience": units(seed, start, count), "settings": DEFAULTS})


def predict(weights: bytes, seed: int) -> dict[str, Any]:
    output = instance(weights).run("predict", {"input": {"seed": str(seed)}})["output"]
    assert isinstance(output, dict)
    return output
