import asyncio
from collections import deque

import numpy as np
import pytest

from tests.agent.fake_server import MODEL_INFO, FakeServer
from weei_agent.cli import Session
from weei_agent.connection import Timing
from weei_agent.options import parse_options
from weei_agent.trainer import Progress
from weei_core.errors import ModelError
from weei_core.model_info import parse_model_info
from weei_core.results import TrainResult

QUICK = Timing(poll=0.3, snapshot=0.1, snapshot_gap=0.01, first_retry=0.02, last_retry=0.1)


class FakeTrainer:
    """Adds one to every weight. `script` holds what the next calls of `train` do instead of succeeding at once."""

    def __init__(self, *script, load_error=None):
        self.script = deque(script)
        self.load_error = load_error
        self.trained, self.cancelled = [], []

    async def load(self, module):
        if self.load_error == "hang":
            await asyncio.Event().wait()
        if self.load_error:
            raise self.load_error
        return parse_model_info(MODEL_INFO)

    async def train(self, order, listener):
        attempt = order.assignment.attemptId
        step = self.script.popleft() if self.script else "ok"
        listener.entered("train", 1)
        try:
            if step == "trap":
                raise ModelError("train trapped: unreachable.", operation="train", code="trap")
            if step == "hang":
                await asyncio.Event().wait()
            if step == "slow":
                for done in range(10):
                    listener.progressed(Progress(done * 10, 128, done))
                    await asyncio.sleep(0.03)
        except asyncio.CancelledError:
            self.cancelled.append(attempt)
            raise
        start = np.frombuffer(order.weights.read_bytes(), "<f4")
        order.weights_out.write_bytes((start + (np.nan if step == "nan" else 1)).astype("<f4").tobytes())
        self.trained.append(attempt)
        return TrainResult(0, start.nbytes, {"loss": 0.5}, 128, 128, None)

    async def close(self):
        pass


class Recorder:
    def __init__(self):
        self.events = []

    def event(self, name, **fields):
        self.events.append((name, fields))

    def live(self, moment):
        pass

    def close(self):
        pass

    def names(self):
        return [name for name, _ in self.events if name != "retrying"]

    def last(self, wanted):
        return [fields for name, fields in self.events if name == wanted][-1]


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture
def run(server, tmp_path):
    """Runs one agent to its end: how it stopped, what it reported, its trainer."""

    def run(*arguments, trainer=None, timing=QUICK, link=None):
        options = parse_options([link or server.link, "--yes", "--state-dir", str(tmp_path), *arguments])
        recorder, trainer = Recorder(), trainer or FakeTrainer()
        session = Session(options, recorder, timing=timing, make_trainer=lambda *_: trainer)
        return session.run(), recorder, trainer

    return run
