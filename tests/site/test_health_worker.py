"""What a worker writes down of itself, and what the health check makes of it."""

import pytest

from weei_site.health_worker import BEAT_SECONDS, CONSUMER_SECONDS, SILENT_SECONDS, Beat, file_of, main, verdict

NEVER = AssertionError


@pytest.fixture
def beat(tmp_path):
    found = Beat(file_of(tmp_path, "fast@here"))
    found.path = file_of(tmp_path, "fast@here")
    return found


@pytest.fixture
def now(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("weei_site.health_worker.time.monotonic", lambda: clock[0])
    return clock


def redis_is_away():
    return False


def redis_is_there():
    return True


def test_one_that_never_started_is_not_well(tmp_path):
    well, sentence = verdict(file_of(tmp_path, "fast@here"), redis_is_there)
    assert not well and "No worker has written" in sentence


def test_one_that_waits_is_well(now, tmp_path):
    beat = Beat(file_of(tmp_path, "fast@here"))
    beat.write()
    assert verdict(file_of(tmp_path, "fast@here"), redis_is_away) == (True, "Waits for tasks.")


def test_one_that_works_is_well_however_long_it_takes(now, tmp_path):
    """A solo worker's consumer has no turn while a module runs."""
    beat = Beat(file_of(tmp_path, "slow@here"))
    beat.begun("1", "evaluate")
    now[0] += 3600
    beat.write()
    assert verdict(file_of(tmp_path, "slow@here"), redis_is_there) == (True, "At work on evaluate for 3600 s.")
    assert beat.ended("1") == 3600
    beat.write()
    assert verdict(file_of(tmp_path, "slow@here"), redis_is_there) == (True, "Waits for tasks.")


def test_one_that_writes_nothing_any_more_is_not_well_even_at_work(now, tmp_path):
    beat = Beat(file_of(tmp_path, "fast@here"))
    beat.begun("1", "merge")
    beat.write()
    now[0] += SILENT_SECONDS + 1
    well, sentence = verdict(file_of(tmp_path, "fast@here"), redis_is_there)
    assert not well and "not been heard of for 31 s" in sentence
    assert SILENT_SECONDS > 3 * BEAT_SECONDS, "a machine under load would be taken for dead"


def test_a_silent_consumer_is_not_well_unless_redis_is_away(now, tmp_path):
    beat = Beat(file_of(tmp_path, "fast@here"))
    now[0] += CONSUMER_SECONDS + 1
    beat.write()
    well, sentence = verdict(file_of(tmp_path, "fast@here"), redis_is_there)
    assert not well and "Takes no tasks" in sentence
    assert verdict(file_of(tmp_path, "fast@here"), redis_is_away)[0]
    beat.consumer_heard()
    beat.write()
    assert verdict(file_of(tmp_path, "fast@here"), redis_is_there)[0]


def test_the_command_ends_with_what_it_found(now, tmp_path, settings, capsys, monkeypatch):
    settings.RUN_DIR = tmp_path
    monkeypatch.setattr("weei_site.health_worker.socket.gethostname", lambda: "here")
    assert main(["fast"]) == 1
    Beat(file_of(tmp_path, "fast@here")).write()
    assert main(["fast"]) == main(["fast@here"]) == 0
    assert main([]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "Waits for tasks."
