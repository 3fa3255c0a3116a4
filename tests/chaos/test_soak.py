"""A soak fails for what grows, and only for processes that were never killed."""

import pytest

from tests.chaos import report
from tests.chaos.soak import grown, slope, violations

MIB = 2**20


def samples(sizes, *, pids=(7, 7, 7), fds=(30, 30, 30)):
    return [
        {"at": 600.0 * index, "processes": {"web (spared)": {"pid": pid, "rss": int(size * MIB), "fds": fd}}}
        for index, (size, pid, fd) in enumerate(zip(sizes, pids, fds, strict=True))
    ]


def summary(**changed):
    message = {"p99": 12.5}
    found = {
        "kind": "soak",
        "begun": "2026-11-29 12:00",
        "machine": "2 cores",
        "seconds": 7200.0,
        "peers": 200,
        "kills": 360,
        "rounds": 900,
        "accepted": 9000,
        "processes": [grown(samples((100, 100.5, 101)), "web (spared)")],
        "temporary": [3, 3],
        "database_mib": [20.0, 31.5],
        "drops": {"spared": 0, "killed": 40},
        "message_ms": {"spared": message, "killed": message},
        "statuses": [{}, {"503": 4}],
    }
    return {**found, **changed}


def test_a_slope_is_that_of_the_line_of_least_squares():
    assert slope([(0, 1), (10, 3), (20, 5)]) == pytest.approx(0.2)
    assert slope([(0, 1), (10, 5), (20, 1)]) == pytest.approx(0.0)
    assert slope([(5, 1)]) == 0.0


def test_growth_is_told_in_mib_for_ten_minutes():
    assert grown(samples((100, 102, 104)), "web (spared)") == {
        "name": "web (spared)",
        "rss_mib": [100.0, 104.0],
        "most_mib": 104.0,
        "slope_mib": 2.0,
        "fds": [30, 30],
    }


def test_a_process_that_was_killed_has_no_slope():
    assert grown(samples((100, 150, 100), pids=(7, 8, 9)), "web (spared)")["slope_mib"] is None


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"processes": [grown(samples((100, 102, 104)), "web (spared)")]}, "grows by 2.0 MiB"),
        (
            {"processes": [grown(samples((9, 9, 9), fds=(30, 45, 60)), "web (spared)")]},
            "30 open descriptors and has 60",
        ),
        ({"temporary": [3, 90]}, "3 temporary files and are 90"),
        ({"drops": {"spared": 2, "killed": 40}}, "2 connections"),
        ({"statuses": [{"500": 1}, {}]}, "1 answers were 500"),
    ],
)
def test_a_soak_fails_for_what_grows_and_for_what_clients_saw(changed, words):
    found = summary(**changed)
    found["violations"] = violations(found)
    assert len(found["violations"]) == 1 and words in found["violations"][0]["told"]
    assert words in report.soak_page(found)


def test_a_soak_in_which_nothing_grows_passes_and_says_what_it_saw():
    found = summary()
    assert violations(found) == []
    page = report.soak_page({**found, "violations": []})
    assert "no violation" in page and "MINUTES=120 PEERS=200" in page
    assert "| web (spared) | 100.0 → 101.0 | 101.0 | 0.5 | 30 → 30 |" in page
