import pytest

from tests.load.counting import Counters, Histogram


def test_a_percentile_is_at_most_five_percent_above_what_was_measured():
    kept = Histogram()
    for ms in range(1, 1001):
        kept.add(ms / 1000)
    for share, true in ((0.5, 500), (0.99, 990), (1.0, 1000)):
        assert true <= kept.percentile(share) <= 1.05 * true + 0.001
    assert kept.told()["max"] == 1000


def test_where_nothing_was_measured_nothing_is_told():
    assert Histogram().told() == {"count": 0, "p50": None, "p95": None, "p99": None, "max": None}


def test_cleared_counters_are_as_new_ones():
    counters = Counters(accepted=3)
    counters.refused["stale_attempt"] += 1
    counters.latency["upload"].add(0.1)
    counters.clear()
    assert counters.told() == Counters().told()
    assert counters.accepted == 0


@pytest.mark.parametrize("name", ["accepted", "refused", "latency"])
def test_what_is_counted_is_told(name):
    assert name in Counters().told()
