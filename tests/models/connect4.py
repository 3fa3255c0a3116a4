"""The Connect Four model as the tests use it: one operation per fresh instance, in the host's order of calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wasmtime import Engine, Module

from tests.models.driver import Driver

FOLDER = Path(__file__).resolve().parents[2] / "reference_models" / "connect4"
DEFAULTS = {"localEpochs": 3, "batchSize": 16}
WEIGHT_COUNT = 7_745

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


DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))  # across, up, rising, falling
LINES = [
    [[column + n * across, row + n * up] for n in range(4)]
    for across, up in DIRECTIONS
    for column in range(7)
    for row in range(6)
    if column + 3 * across < 7 and 0 <= row + 3 * up < 6
]


class PlainGame:
    """The rules once more, in the plainest way: columns of player numbers, and every line looked at."""

    def __init__(self, moves: str = "") -> None:
        self.columns: list[list[int]] = [[] for _ in range(7)]
        self.count = 0
        for move in moves:
            self.play(int(move))

    def copy(self) -> PlainGame:
        other = PlainGame()
        other.columns, other.count = [list(column) for column in self.columns], self.count
        return other

    def play(self, column: int) -> None:
        assert column in self.legal()
        self.columns[column].append(self.count % 2)
        self.count += 1

    def after(self, column: int) -> PlainGame:
        other = self.copy()
        other.play(column)
        return other

    def owner(self, column: int, row: int) -> int | None:
        stones = self.columns[column]
        return stones[row] if row < len(stones) else None

    def lines(self) -> list[list[list[int]]]:
        """Every four in a row of one player, by direction, column and row."""
        return [line for line in LINES if self._is_of_one(line)]

    def _is_of_one(self, line: list[list[int]]) -> bool:
        first = self.owner(*line[0])
        return first is not None and all(self.owner(*cell) == first for cell in line)

    def winner(self) -> int | None:
        """0 or 1; -1 after a draw, None while the game is on."""
        if self.lines():
            return (self.count - 1) % 2
        return -1 if self.count == 42 else None

    def legal(self) -> list[int]:
        return [] if self.winner() is not None else [c for c in range(7) if len(self.columns[c]) < 6]
