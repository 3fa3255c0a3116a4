"""What `training_browser` and `training_hosts` measure: training the transformer of 2.3 MB, always on the same batch.

One assignment is `STEPS` steps on 16 records, so that every program sees the same batch whatever its order of records.
An assignment is timed whole, from instance to weights; peers, which have no assignments, time their steps only.
"""

from __future__ import annotations

import json
import random
import struct
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from weei_core.abi.limits import Limits
from weei_core.abi.memory import FileSlice
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.tasks import Outcome, Task, TaskRunner
from weei_core.generator.architectures import TransformerArchitecture
from weei_core.generator.configuration import TOKENS_FORMAT, configured_module, model_info, segment
from weei_core.generator.tokenizers import Tokenizer

BATCH, CONTEXT = 16, 64
ARCHITECTURE = TransformerArchitecture.parse(
    {"vocabSize": 256, "context": CONTEXT, "layers": 3, "heads": 4, "width": 128, "hidden": 432}
)
"""That of `reproduce methods`: 574,352 parameters."""
STEPS = 16
REPEATS = 5
WARM_UP = 1
SAME_LOSS = 1e-3
"""How far the losses of two programs may lie apart, as a share of the loss: rounding grows with each step."""
_BATCH_BYTES = 1 << 16


class NotTheSame(Exception):
    """Two programs that should compute the same do not, in one sentence."""


@dataclass(frozen=True)
class Load:
    """What every program gets: the module, its initial weights, and 16 records of 65 tokens. `segment` is the module's
    configuration, for a build without one."""

    module: bytes
    segment: bytes
    weights: bytes
    chunk: bytes

    @property
    def joined(self) -> bytes:
        return self.module + self.weights + self.chunk

    @property
    def task(self) -> dict[str, Any]:
        """How `joined` is divided, and the work."""
        parts = {"module": len(self.module), "weights": len(self.weights), "chunk": len(self.chunk)}
        work = {"settings": settings(STEPS), "round": 1, "seed": "1", "format": TOKENS_FORMAT}
        return {"parts": parts, "work": work, "repeats": WARM_UP + REPEATS}


@cache
def load() -> Load:
    info = model_info(
        ARCHITECTURE,
        id="bench",
        name="Bench",
        max_chunk_bytes=_BATCH_BYTES,
        max_examples_per_chunk=BATCH,
        inference={},
    )
    blob = Tokenizer.train([], "bytes").blob()
    module = configured_module(ARCHITECTURE, info, blob, batch_size=BATCH, max_chunk_bytes=_BATCH_BYTES)
    weights, _ = Assignments(module).run({"operation": "describe", "seed": "1"}, {})
    written = segment(ARCHITECTURE.config_kind, info, ARCHITECTURE.values(), blob)
    return Load(module, written, weights, _chunk())


def tokens() -> list[list[int]]:
    """The records: bytes of words, so that there is something to learn."""
    source = random.Random(1)
    words = [bytes(source.choices(range(97, 123), k=source.randint(2, 7))) for _ in range(50)]
    text = b" ".join(source.choices(words, k=BATCH * CONTEXT))
    return [list(text[at : at + CONTEXT + 1]) for at in range(0, BATCH * CONTEXT, CONTEXT)]


def _chunk() -> bytes:
    records = tokens()
    table = b"".join(struct.pack("<IHH", at * (CONTEXT + 1), CONTEXT + 1, 0) for at in range(BATCH))
    written = b"".join(struct.pack(f"<{len(record)}H", *record) for record in records)
    header = struct.pack("<4sIII", b"WTOK", 1, BATCH, ARCHITECTURE.vocab_size)
    return header + table + written + bytes(-len(written) % 4)


def settings(steps: int) -> str:
    return json.dumps({"localEpochs": steps, "batchSize": BATCH}, separators=(",", ":"))


def description() -> dict[str, Any]:
    """Sizes, defaults and records, for a peer that builds the network itself."""
    return {"sizes": ARCHITECTURE.to_json(), "training": asdict(ARCHITECTURE.training), "tokens": tokens()}


def rate(seconds: float, steps: int = STEPS) -> float:
    """Tokens per second."""
    return steps * BATCH * CONTEXT / seconds


class Assignments:
    """The module in wasmtime, one fresh instance for each assignment, as the agent runs it."""

    def __init__(self, module: bytes) -> None:
        engine = make_engine()
        self._runner = TaskRunner(engine, compile_module(engine, module), Limits(), on_progress=lambda report: None)

    def train(self, load: Load, steps: int = STEPS) -> tuple[bytes, float]:
        """The new weights, and the loss of the last step."""
        work = {"settings": settings(steps), "round": 1, "seed": "1", "data": {"format": TOKENS_FORMAT}}
        task = {"operation": "train", "auxiliary": [], "work": work}
        weights, outcome = self.run(task, {"weights": load.weights, "data": load.chunk})
        return weights, float(json.loads(str(outcome["result"]))["metrics"]["loss"])

    def rates(self, load: Load) -> list[float]:
        found = []
        for _ in range(WARM_UP + REPEATS):
            begun = time.perf_counter()
            self.train(load)
            found.append(rate(time.perf_counter() - begun))
        return found[WARM_UP:]

    def run(self, task: Task, files: dict[str, bytes]) -> tuple[bytes, Outcome]:
        """The weights it wrote and its outcome."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as written:
            inputs, at = {}, 0
            for name, content in files.items():
                given.write(content)
                inputs[name] = FileSlice(given.fileno(), at, len(content))
                at += len(content)
            given.flush()
            outcome = self._runner.run(task, inputs, {"weightsOut": written.fileno()})
            return written.read(), outcome


def check_losses(peer: str, losses: list[float]) -> None:
    """`losses` are a peer's, step by step. `NotTheSame` when its first or its last one is not the module's."""
    module = Assignments(load().module)
    for step in (1, len(losses)):
        _, ours = module.train(load(), step)
        if abs(losses[step - 1] - ours) > SAME_LOSS * ours:
            raise NotTheSame(
                f"The loss of step {step} is {ours:.6f} in the module and {losses[step - 1]:.6f} in {peer}."
            )
