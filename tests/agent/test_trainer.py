"""The agent's children, with the digits model."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.agent.fake_server import FakeServer
from tests.agent.test_snapshot import assignment
from weei_agent.cli import main
from weei_agent.outcomes import Exit
from weei_agent.trainer import JailTrainer, Order, Progress, _Sum
from weei_core.errors import ModelError

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "reference_models" / "digits"
CHUNK = (DIGITS / "data" / "train-001.bin").read_bytes()
SETTINGS = '{"localEpochs":1,"batchSize":16,"learningRate":0.05}'


class Listener:
    def __init__(self):
        self.operations, self.reports, self.stages = [], [], []
        self.training = asyncio.Event()

    def entered(self, operation, workers):
        self.operations.append(operation)
        if operation == "train":
            self.training.set()

    def timed(self, stage):
        self.stages.append(stage)

    def progressed(self, progress):
        self.reports.append(progress)


@pytest.fixture
def trainer(tmp_path):
    return JailTrainer(tmp_path, tmp_path / "compiled", memory_bytes=512 * 2**20, workers=1)


def order(tmp_path, weights, *, settings=SETTINGS, count=125, data=CHUNK):
    (tmp_path / "start").write_bytes(weights)
    (tmp_path / "chunk").write_bytes(data)
    work = assignment(
        weights={"sha256": "0" * 64, "bytes": len(weights)},
        data={"sha256": "0" * 64, "bytes": len(data), "format": "digits-u8-v1"},
        exampleCount=count,
        settings=settings,
        seed="42",
    )
    return Order(work, DIGITS / "digits.wasm", tmp_path / "start", (), tmp_path / "chunk", tmp_path / "out")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Start weights of the model."""
    from weei_core.jail.parent import run_in_child

    path = tmp_path_factory.mktemp("weights") / "weights"
    with path.open("w+b") as out:
        run_in_child(DIGITS / "digits.wasm", {"operation": "describe", "seed": "1"}, {}, {"weightsOut": out})
    return path.read_bytes()


def test_a_model_is_loaded_and_trained_in_children(trainer, tmp_path, weights):
    async def scenario():
        listener = Listener()
        info = await trainer.load(DIGITS / "digits.wasm")
        result = await trainer.train(order(tmp_path, weights), listener)
        again = order(tmp_path, weights)
        first = again.weights_out.read_bytes()
        await trainer.train(again, listener)
        await trainer.close()
        return info, result, listener, first

    info, result, listener, first = asyncio.run(scenario())
    assert info.id == "digits"
    assert (result.unique_examples, result.bytes) == (125, len(weights))
    assert set(result.metrics) <= info.metric_ids
    assert listener.operations[:4] == ["start", "getModelInfo", "loadModel", "train"]
    assert listener.stages == 2 * ["preparing", "training", None]
    assert len(first) == len(weights)
    assert first != weights
    assert (tmp_path / "out").read_bytes() == first


def test_a_module_that_refuses_says_why_and_the_next_work_goes_on(trainer, tmp_path, weights):
    """C57."""

    async def scenario():
        await trainer.load(DIGITS / "digits.wasm")
        with pytest.raises(ModelError) as refused:
            await trainer.train(order(tmp_path, weights, data=b"no digits"), Listener())
        result = await trainer.train(order(tmp_path, weights), Listener())
        await trainer.close()
        return refused.value, result

    error, result = asyncio.run(scenario())
    assert error.message
    assert result.unique_examples == 125


def test_cancelling_ends_the_child_and_the_next_work_gets_a_new_one(trainer, tmp_path, weights):
    """C30, C58."""

    async def scenario():
        await trainer.load(DIGITS / "digits.wasm")
        listener = Listener()
        endless = SETTINGS.replace('"localEpochs":1,', '"localEpochs":100000,')
        training = asyncio.create_task(trainer.train(order(tmp_path, weights, settings=endless), listener))
        await listener.training.wait()
        training.cancel()
        with pytest.raises(asyncio.CancelledError):
            await training
        result = await trainer.train(order(tmp_path, weights), Listener())
        await trainer.close()
        return result

    assert asyncio.run(scenario()).unique_examples == 125


def test_a_dead_child_is_replaced_and_its_work_played_again(trainer, tmp_path, weights):
    """C63, and "a dead Worker's range is played again": once, then the attempt fails."""

    class Killer(Listener):
        def __init__(self, times):
            super().__init__()
            self.left = times

        def entered(self, operation, workers):
            super().entered(operation, workers)
            if operation == "train" and self.left:
                self.left -= 1
                (jail,) = trainer._running
                jail._process.kill()

    async def scenario():
        await trainer.load(DIGITS / "digits.wasm")
        long = SETTINGS.replace('"localEpochs":1,', '"localEpochs":1000,')
        result = await trainer.train(order(tmp_path, weights, settings=long), Killer(1))
        with pytest.raises(ModelError) as failed:
            await trainer.train(order(tmp_path, weights, settings=long), Killer(2))
        await trainer.close()
        return result, failed.value

    result, error = asyncio.run(scenario())
    assert result.unique_examples == 125
    assert error.code == "crash"
    assert "SIGKILL" in error.message


def test_what_is_no_module_cannot_be_loaded(trainer, tmp_path):
    (tmp_path / "module").write_bytes(b"\0asm, not really")
    with pytest.raises(ModelError) as refused:
        asyncio.run(trainer.load(tmp_path / "module"))
    assert refused.value.code == "not_wasm"


def test_the_command_trains_a_job_to_its_end(tmp_path, weights, capsys):
    """Everything real but the server; --json is one object per line."""
    with FakeServer(module=(DIGITS / "digits.wasm").read_bytes(), chunks=[CHUNK], weights=weights) as server:
        server.format, server.examples = "digits-u8-v1", 125
        code = main([server.link, "--yes", "--json", "--state-dir", str(tmp_path), "--workers", "1"])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [event["event"] for event in events if event["event"] != "round"] == [
        "invitation", "accepted", "ready",
        "assigned", "trained", "uploaded", "assigned", "trained", "uploaded", "completed", "stopped",
    ]  # fmt: skip
    trained = next(event for event in events if event["event"] == "trained")
    assert {"at", "round", "attemptId", "seconds", "metrics", "uniqueExamples", "examplesProcessed"} < set(trained)
    assert np.isfinite(np.frombuffer(server.files[server.weights_sha], "<f4")).all()
    assert server.files[server.weights_sha] != weights


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_child_and_frees_the_work(tmp_path, weights, sent):
    """C25: nobody waits for a lease to run out."""
    module = (DIGITS / "digits.wasm").read_bytes()
    with FakeServer(module=module, chunks=[CHUNK], weights=weights) as server:
        server.format, server.examples = "digits-u8-v1", 125
        server.settings = SETTINGS.replace('"localEpochs":1,', '"localEpochs":100000,')
        training = threading.Event()
        server.on("stage training", training.set)
        command = [sys.executable, "-m", "weei_agent", server.link, "--yes", "--json", "--state-dir", str(tmp_path)]
        # Whoever runs the tests in the background has interruptions ignored.
        heard = partial(signal.signal, sent, signal.SIG_DFL)
        agent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heard)
        assert training.wait(20)
        agent.send_signal(sent)
        out, _ = agent.communicate(timeout=20)
    assert agent.returncode == Exit.INTERRUPTED
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["code"], last["message"]) == ("error", 130, "Interrupted. Updates delivered: 0.")
    assert server.paused


class SeemsFull(list):
    """Another thread took the last one between this one's look and its grasp."""

    def __bool__(self):
        return True


def test_a_child_that_another_range_took_first_is_made_anew(trainer):
    trainer._idle = SeemsFull()

    async def scenario():
        info = await trainer.load(DIGITS / "digits.wasm")
        trainer._idle = list(trainer._idle)
        await trainer.close()
        return info

    assert asyncio.run(scenario()).id == "digits"


def test_a_split_assignment_is_played_by_several_children_and_merged(tmp_path):
    module = Path(__file__).parents[1] / "hosts" / "modules" / "binaries" / "plus_one.wasm"
    trainer = JailTrainer(tmp_path, tmp_path / "compiled", memory_bytes=64 * 2**20, workers=2)
    start = np.array([1, -2, 0.5, 0], "<f4")
    (tmp_path / "start").write_bytes(start.tobytes())
    work = assignment(
        weights={"sha256": "0" * 64, "bytes": 16},
        data=None,
        experience={"seed": "7", "unitStart": 100, "unitCount": 8},
        exampleCount=8,
        split=3,
    )

    async def scenario():
        listener = Listener()
        await trainer.load(module)
        result = await trainer.train(Order(work, module, tmp_path / "start", (), None, tmp_path / "out"), listener)
        await trainer.close()
        return result, listener

    result, listener = asyncio.run(scenario())
    assert (tmp_path / "out").read_bytes() == (start + 1).tobytes()
    assert (result.unique_examples, result.examples_processed, result.metrics) == (8, 8, {"loss": 0.5})
    assert listener.operations.count("train") == 3
    assert (listener.stages[0], listener.stages[-1]) == ("preparing", None) and "training" in listener.stages
    assert not list(tmp_path.glob("out.*"))


def test_the_device_trains_while_one_of_its_workers_does():
    listener = Listener()
    together = _Sum(2, listener)
    for index, stage in [
        *((0, "preparing"), (1, "preparing"), (0, "training"), (1, "training"), (0, None)),
        *((0, "preparing"), (1, None), (0, "training"), (0, None)),
    ]:
        together.enter(index, stage)
    assert listener.stages == ["preparing", "training", "preparing", "training", None]


def test_what_the_workers_report_is_one_progress():
    listener = Listener()
    together = _Sum(2, listener)
    together.add(0, {"processedExamples": 10, "totalExamples": 20, "metrics": {"loss": 1.0}})
    together.add(1, {"processedExamples": 30, "totalExamples": 40, "metrics": {"loss": 2.0, "other": -5}})
    assert listener.reports == [
        Progress(10, None, None, {"loss": 1.0}),
        Progress(40, 60, None, {"loss": 1.75, "other": -5}),
    ]
    alone = _Sum(1, listener)
    alone.add(0, {"processedExamples": 0, "metrics": {"loss": 3.0}})
    alone.add(0, {"processedExamples": 1})
    assert listener.reports[2:] == [Progress(0, None, None, {"loss": 3.0}), Progress(1, None, None, None)]
