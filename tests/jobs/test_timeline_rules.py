"""Where the time of a round went, as plain arithmetic."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.domain.timeline import attempt_spans, ticks, waiting

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return None if seconds is None else BEGUN + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("dealt", "training", "uploading", "ended", "until", "spans"),
    [
        (0, 2, 8, 9, 12, [("prepare", 0, 2), ("train", 2, 8), ("upload", 8, 9), ("wait", 9, 12)]),
        (0, None, 8, 9, 9, [("work", 0, 8), ("upload", 8, 9)]),
        (0, None, None, 9, 12, [("work", 0, 9), ("wait", 9, 12)]),
        (3, 2, None, 9, 9, [("train", 3, 9)]),
        (0, 7, 5, 9, 9, [("prepare", 0, 5), ("upload", 5, 9)]),
        (0, None, 11, 9, 9, [("work", 0, 9)]),
        (4, None, None, 4, 4, []),
    ],
    ids=[
        "all known",
        "not heard training",
        "nothing known",
        "heard too early",
        "heard too late",
        "late clock",
        "empty",
    ],
)
def test_parts_of_an_attempt_follow_each_other_whatever_was_recorded(dealt, training, uploading, ended, until, spans):
    found = attempt_spans(at(dealt), at(training), at(uploading), at(ended), until=at(until))
    assert [(span.kind, span.start, span.end) for span in found] == [(kind, at(a), at(b)) for kind, a, b in spans]


def test_everybody_else_waits_from_the_last_but_one_to_the_last():
    found = waiting(BEGUN, [at(10), at(40), at(20)])
    assert (found.alone, found.total, found.last) == (20, 40, 1)
    assert found.idle == pytest.approx((30 + 0 + 20) / 3 / 40)
    assert (found.alone_percent, found.idle_percent) == (50, 42)


@pytest.mark.parametrize("ends", [[], [5], [0, 0]], ids=["nobody", "alone", "no time"])
def test_nobody_waits_without_others_or_time(ends):
    assert waiting(BEGUN, [at(end) for end in ends]) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.004, [0, 0.001, 0.002, 0.003, 0.004]), (52, [0, 10, 20, 30, 40, 50]), (7200, [0, 1800, 3600, 5400, 7200])],
)
def test_an_axis_has_round_times(seconds, expected):
    assert ticks(seconds) == pytest.approx(expected)


@pytest.mark.parametrize("seconds", [0.0001, 1, 59, 3601, 86_400 * 400])
def test_an_axis_has_few_marks_whatever_its_length(seconds):
    assert 1 <= len(ticks(seconds)) <= 7
