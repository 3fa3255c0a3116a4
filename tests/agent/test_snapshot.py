"""Clock and rate logic under fake clocks (C74, C75)."""

import pytest

from weei_agent.clock import SystemClock
from weei_agent.snapshot import Measurements, Rate, Stopwatch
from weei_agent.state import Assignment


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


def test_speed_is_unknown_until_two_samples_of_different_times(clock):
    """C74."""
    rate = Rate(clock)
    assert rate.per_second() is None
    rate.add(10)
    assert rate.per_second() is None
    rate.add(20)
    assert rate.per_second() is None
    clock.pass_(2)
    rate.add(50)
    assert rate.per_second() == 20


def test_speed_is_unknown_again_after_five_seconds_without_progress(clock):
    """C74."""
    rate = Rate(clock)
    rate.add(0)
    clock.pass_(1)
    rate.add(10)
    clock.pass_(3)
    assert rate.per_second() == 10
    clock.pass_(1.5)
    assert rate.per_second() is None
    clock.pass_(1)
    assert rate.per_second() is None


def test_a_stage_counts_only_once_it_is_over_and_sums_its_visits(clock):
    watch = Stopwatch(clock)
    watch.enter("training")
    clock.pass_(1)
    assert watch.finished_ms("training") is None
    assert watch.seconds("training") == 1
    watch.enter("uploading")
    clock.pass_(5)
    watch.enter("training")
    clock.pass_(2)
    watch.enter("waiting")
    assert watch.finished_ms("training") == 3000


def test_a_jump_of_the_wall_clock_changes_no_duration(clock, measured):
    """C75: Linux, where the monotonic clock stands still while the machine sleeps."""
    measured.enter("training")
    measured.progress(10)
    clock.pass_(1)
    clock.walled += 3600
    measured.progress(20)
    assert measured.per_second() == 10
    measured.enter("uploading")
    snapshot = measured.snapshot()
    assert snapshot["timings"]["trainingMs"] == 1000
    assert snapshot["performance"]["averageExamplesPerSecond"] == 20
    assert snapshot["performance"]["lastProgressAt"] == 8_601_000


def test_when_both_clocks_jump_no_speed_is_made_up(clock, measured):
    """C75: Windows."""
    measured.enter("training")
    measured.progress(10)
    clock.pass_(3600)
    measured.progress(20)
    assert measured.per_second() is None
    measured.enter("uploading")
    assert measured.snapshot()["timings"]["trainingMs"] == 3_600_000


def test_a_wall_clock_set_back_makes_nothing_negative(clock, measured):
    """C75."""
    measured.enter("training")
    clock.pass_(1)
    clock.walled -= 7200
    measured.progress(5)
    measured.enter("uploading")
    assert measured.snapshot()["timings"]["trainingMs"] == 1000


def test_progress_never_falls_and_never_passes_its_total(measured):
    """C61."""
    measured.enter("training")
    measured.progress(50, total=128)
    measured.progress(40)
    assert measured.processed == 50
    measured.progress(500)
    assert measured.processed == 128


def test_what_is_not_known_says_so(measured):
    snapshot = measured.snapshot()
    assert snapshot["model"] == "unknown"
    assert snapshot["execution"]["actual"] == "unknown"
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
    assert len(measured.snapshot()["error"]) == 500
    measured.begin(assignment(round=4))
    snapshot = measured.snapshot()
    assert snapshot["error"] is None
    assert snapshot["performance"]["processedExamples"] == 0
    assert snapshot["timings"]["trainingMs"] is None


def test_each_snapshot_is_one_further_also_above_the_servers_last(measured):
    assert [measured.snapshot()["sequence"] for _ in range(2)] == [1, 2]
    measured.continue_after(40)
    measured.continue_after(7)
    assert measured.snapshot()["sequence"] == 41


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
