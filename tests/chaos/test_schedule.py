"""The same seed makes the same faults; every kind comes early."""

from tests.chaos.schedule import EVERY, KILLS, OTHERS, draw

PINNED = ["kill web-a", "kill backend", "kill postgres", "link web-a half-open for 7 s"]


def test_a_seed_makes_the_same_faults_again_and_another_one_others():
    assert draw(7, 100) == draw(7, 100)
    assert draw(7, 100) != draw(8, 100)


def test_the_schedule_is_pinned_so_that_a_failing_seed_replays_on_another_version():
    first = draw(1, 8)
    assert [str(fault) for fault in first[:4]] == PINNED


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    short, long = draw(3, 20), draw(3, 100)
    assert long[: len(short)] == short


def test_a_run_has_as_many_kills_as_asked_for_and_others_between():
    faults = draw(5, 100)
    assert sum(fault.is_kill for fault in faults) == 100
    assert sum(not fault.is_kill for fault in faults) == 100 // EVERY
    assert [fault.step for fault in faults] == list(range(1, len(faults) + 1))


def test_every_process_is_killed_and_every_other_fault_comes_before_any_comes_twice():
    faults = draw(11, 120)
    first = [fault.target for fault in faults if fault.is_kill][: len(KILLS)]
    assert sorted(first) == sorted(KILLS)
    others = [(f.kind, f.target, f.toxic) for f in faults if not f.is_kill][: len(OTHERS)]
    assert len(set(others)) == len(OTHERS)


def test_a_hundred_kills_have_each_process_in_its_share():
    faults = [fault.target for fault in draw(2, len(KILLS) + 100) if fault.is_kill]
    assert {name: faults.count(name) - 1 for name in KILLS} == KILLS
