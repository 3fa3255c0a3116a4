"""`cartpole`: steps of policy and environment per second, in wasmtime and in a Worker of Chromium, beside Gymnasium.

The module trains: it plays episodes and also learns from each step. The peer only plays, one environment with a NumPy
policy of the same weights, so the ratio is on the safe side.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np

from benchmarks.chromium import answer_of_page
from benchmarks.measured import Measured
from weei_core.abi.limits import Limits
from weei_core.abi.memory import FileSlice
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.tasks import Outcome, Task, TaskRunner

MODULE = Path(__file__).parent.parent / "reference_models" / "cartpole" / "cartpole.wasm"
PEER = f"Gymnasium {gymnasium.__version__} CartPole-v1 with a NumPy {np.__version__} policy"
SETTINGS = '{"localEpochs":1,"batchSize":16}'
GOAL = 50
EPISODES = 1024
"""Of one measured assignment: about half a million steps."""
REPEATS = 7
WARM_UP = 3
PEER_SECONDS = 0.7


def measure() -> Iterator[Measured]:
    """Each figure is a median; the peer is measured before and after, so that a machine that slows down shows."""
    module = CartPole()
    weights = module.trained_weights()
    peer = Peer(weights)
    before = peer.rates()
    rates = {
        "cartpole_wasmtime": module.rates(weights),
        "cartpole_chromium": rates_in_chromium(weights),
    }
    peer_value = statistics.median([*before, *peer.rates()])
    for name, measured in rates.items():
        yield Measured(name, statistics.median(measured), "steps/s", PEER, peer_value, GOAL)


class CartPole:
    """The module in wasmtime, one fresh instance for each assignment, as the agent runs it."""

    def __init__(self) -> None:
        engine = make_engine()
        module = compile_module(engine, MODULE.read_bytes())
        self._runner = TaskRunner(engine, module, Limits(), on_progress=lambda report: None)

    def initial_weights(self) -> bytes:
        return self._run({"operation": "describe", "seed": "1"}, b"")[0]

    def train(self, weights: bytes, unit_start: int, unit_count: int) -> tuple[bytes, float]:
        """The new weights and how many steps were played."""
        units = {"seed": "1", "unit_start": unit_start, "unit_count": unit_count}
        task = {"operation": "train", "auxiliary": [], "work": {"settings": SETTINGS, "round": 1, "units": units}}
        trained, outcome = self._run(task, weights)
        return trained, json.loads(str(outcome["result"]))["metrics"]["episodeReturn"] * unit_count

    def trained_weights(self) -> bytes:
        """A policy that balances: its episodes are long, so that the peer's `reset` costs next to nothing."""
        weights = self.initial_weights()
        for assignment in range(20):
            weights, _ = self.train(weights, 32 * assignment, 32)
        return weights

    def rates(self, weights: bytes) -> list[float]:
        """Steps per second of whole assignments, from instance to weights."""
        found = []
        for repeat in range(WARM_UP + REPEATS):
            begun = time.perf_counter()
            _, steps = self.train(weights, EPISODES * repeat, EPISODES)
            found.append(steps / (time.perf_counter() - begun))
        return found[WARM_UP:]

    def _run(self, task: Task, weights: bytes) -> tuple[bytes, Outcome]:
        """The weights it wrote and its outcome; without weights the task makes its own."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as written:
            given.write(weights)
            given.flush()
            inputs = {"weights": FileSlice(given.fileno(), 0, len(weights))} if weights else {}
            outcome = self._runner.run(task, inputs, {"weightsOut": written.fileno()})
            return written.read(), outcome


def rates_in_chromium(weights: bytes) -> list[float]:
    """The same assignments in a training Worker's host."""
    task = {
        "module": "/reference_models/cartpole/cartpole.wasm",
        "settings": SETTINGS,
        "episodes": EPISODES,
        "repeats": WARM_UP + REPEATS,
    }
    found: list[float] = answer_of_page("/benchmarks/cartpole_worker.js", task, weights)
    return found[WARM_UP:]


class Peer:
    """Gymnasium's environment under a NumPy policy with the module's weights: one environment, plain `step`."""

    def __init__(self, weights: bytes) -> None:
        w1, self._b1, w2, self._b2 = np.split(np.frombuffer(weights, "<f4"), [64, 80, 112])
        self._w1, self._w2 = w1.reshape(4, 16), w2.reshape(16, 2)
        self._environment = gymnasium.make("CartPole-v1", disable_env_checker=True)
        self._environment.reset(seed=1)
        self._generator = np.random.default_rng(1)

    def episode(self) -> int:
        """How many steps it had. Actions are drawn by their probability."""
        observation, _ = self._environment.reset()
        steps, ended = 0, False
        while not ended:
            logits = np.tanh(observation @ self._w1 + self._b1) @ self._w2 + self._b2
            powers = np.exp(logits - logits.max())
            action = int(self._generator.random() * powers.sum() >= powers[0])
            observation, _, terminated, truncated, _ = self._environment.step(action)
            ended = terminated or truncated
            steps += 1
        return steps

    def rates(self) -> list[float]:
        """Steps per second of three stretches."""
        found = []
        for _ in range(3):
            begun, steps = time.perf_counter(), 0
            while time.perf_counter() - begun < PEER_SECONDS:
                steps += self.episode()
            found.append(steps / (time.perf_counter() - begun))
        return found
