"""What an agent measures, under fake clocks. The scripts of tests/golden/diagnostics.json are played by browsers too
(tests/js/diagnostics.test.js)."""

import json
from pathlib import Path

import pytest

from weei_agent.snapshot import Measurements, environment
from weei_agent.state import Assignment, Job
from weei_client.clock import SystemClock

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "diagnostics.json").read_text())


class FakeClock:
    def __init__(self):
        self.mono, self.walled = 1000.0, 5000.0

    def monotonic(self):
        return self.mono

    def wall(self):
        return self.walled

    def elapsed(self):
        return self.mono

    def pass_(self, seconds):
        self.mono += seconds
        self.walled += seconds


class Script:
    """Plays the steps of a golden script; `expect` compares the members that it names."""

    def __init__(self):
        self.clock = FakeClock()
        self.clock.mono, self.clock.walled = 0.0, GOLDEN_START_MS / 1000
        self.measured = Measurements(self.clock, workers=2)
        self.job = Job.model_validate(JOB_FIELDS | GOLDEN["job"])

    def play(self, name, argument=None):
        measured = self.measured
        if name == "above":
            measured.continue_after(argument)
        elif name == "name":
            measured.model_loaded(GOLDEN["model"]["id"], GOLDEN["model"]["version"], self.job)
        elif name == "begin":
            measured.begin(Assignment.model_validate(GOLDEN["assignment"] | (argument or {})))
        elif name == "wait":
            self.clock.pass_(argument / 1000)
        elif name == "wall":
            self.clock.walled += argument / 1000
        elif name == "workers":
            measured.workers_active(argument)
        elif name == "progress":
            members = ("processedExamples", "totalExamples", "optimizerSteps", "metrics")
            measured.progress(*(argument.get(member) for member in members))
        elif name == "expect":
            whole = GOLDEN["whole"] | {"environment": environment()}
            assert_holds(measured.snapshot(), whole if argument == "whole" else argument)
        elif name != "job":  # an agent has one job from its start to its end
            getattr(measured, name)(*([] if name == "rest" else [argument]))


GOLDEN_START_MS = 1764421200000
JOB_FIELDS = {"name": "", "status": "running", "round": 4, "state": "assigned", "ready": True, "pausedByPeer": False}
JOB_FIELDS |= {"stallMinutes": 10}


def assert_holds(found, expected, path="snapshot"):
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_holds(found[name], value, f"{path}.{name}")
    elif isinstance(expected, int | float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-6), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("script", GOLDEN["scripts"], ids=lambda script: script["name"])
def test_measures_as_browsers_do(script):
    player = Script()
    for step in script["steps"]:
        player.play(*step)


def test_a_snapshot_has_exactly_the_golden_members():
    def names(value):
        return {name: names(member) for name, member in value.items()} if isinstance(value, dict) else None

    player = Script()
    for step in GOLDEN["scripts"][0]["steps"][:-1]:
        player.play(*step)
    assert names(player.measured.snapshot()) == names(GOLDEN["whole"])


@pytest.fixture
def clock():
    return FakeClock()


def assignment(**changes):
    fields = {
        "attemptId": "attempt",
        "assignmentId": "assignment",
        "jobId": "job",
        "round": 3,
        "chunkId": "chunk",
        "exampleCount": 128,
        "moduleSha256": "0" * 64,
        "weights": {"sha256": "0" * 64, "bytes": 4},
        "data": {"sha256": "0" * 64, "bytes": 512, "format": "raw"},
        "settings": '{"localEpochs":1,"batchSize":16}',
        "secondsLeft": 60,
    }
    return Assignment.model_validate(fields | changes)


@pytest.fixture
def measured(clock):
    measured = Measurements(clock, workers=2)
    measured.begin(assignment())
    return measured


def test_what_is_not_known_says_so(measured):
    snapshot = measured.snapshot()
    assert snapshot["model"] == "unknown"
    assert (snapshot["execution"]["actual"], snapshot["execution"]["backend"]) == ("unknown", "unknown")
    assert snapshot["assignment"]["learningRate"] == "unknown"
    assert snapshot["performance"] == {
        "processedExamples": 0,
        "totalExamples": "unknown",
        "optimizerSteps": "unknown",
        "currentExamplesPerSecond": None,
        "averageExamplesPerSecond": None,
        "lastProgressAt": None,
    }
    assert set(snapshot["timings"].values()) == {None}
    assert snapshot["gpu"]["webgpu"] == "unavailable"


def test_figures_belong_to_one_assignment(clock, measured):
    measured.enter("training")
    clock.pass_(1)
    measured.progress(10, 128, 4)
    measured.fail("It trapped. " * 100)
    assert len(measured.snapshot()["error"]) == 300
    measured.begin(assignment(round=4))
    snapshot = measured.snapshot()
    assert snapshot["error"] is None
    assert snapshot["performance"]["processedExamples"] == 0
    assert snapshot["timings"]["trainingMs"] is None


def test_sleep_of_the_machine_counts_as_time_gone(monkeypatch):
    now = FakeClock()
    monkeypatch.setattr("time.monotonic", now.monotonic)
    monkeypatch.setattr("time.time", now.wall)
    clock = SystemClock()
    now.pass_(1)
    now.walled += 3600
    assert clock.elapsed() == 3601
    now.walled -= 7200
    now.mono += 2
    assert clock.elapsed() == 3603
