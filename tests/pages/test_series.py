"""What the charts are given: thinning, ranges of rounds, and what belongs to every point."""

import json
import random
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, Round
from jobs.selectors.series import MAX_POINTS, chart_data, thinned
from tests.pages import factories


def test_few_rows_are_kept_as_they_are():
    assert thinned(5, [[1.0, None, 2.0, 3.0, 4.0]]) == [0, 1, 2, 3, 4]
    assert thinned(0, []) == []


def test_ten_thousand_rows_keep_their_ends_their_peaks_their_dips_and_their_gaps():
    chance = random.Random(7)
    loss = [chance.uniform(1, 2) for _ in range(10_001)]
    accuracy: list[float | None] = [chance.uniform(0, 1) for _ in range(10_001)]
    loss[4_321], loss[7_777], accuracy[5_000] = 9.0, 0.1, None
    kept = thinned(10_001, [loss, accuracy])
    assert len(kept) <= MAX_POINTS
    assert kept == sorted(set(kept))
    assert {0, 4_321, 5_000, 7_777, 10_000} <= set(kept)


def test_what_is_measured_now_and_then_is_not_lost():
    every_hundredth = [1.0 if row % 100 == 0 else None for row in range(10_000)]
    kept = set(thinned(10_000, [[float(row) for row in range(10_000)], every_hundredth]))
    assert set(range(0, 10_000, 100)) <= kept


def test_rows_without_any_series_are_thinned_too():
    assert thinned(9_000, []) == [0, 8_999]


@pytest.fixture
def trained(job):
    """Six checkpoints, a minute apart; three participants made round 2, and round 4 told no accuracy."""
    begun = timezone.now()
    Job.objects.filter(pk=job.pk).update(started_at=begun)
    for number in range(1, 6):
        metrics = {"loss": 1 / number} if number == 4 else {"loss": 1 / number, "accuracy": 0.1 * number}
        made_at = begun + timedelta(minutes=number)
        factories.make_checkpoint(job, number, metrics_text=json.dumps(metrics), created=made_at, validated=False)
    texts = {"settings_text": "{}", "start_weights": "0" * 64}
    Round.objects.create(job=job, number=2, state="done", received=3, opened_at=begun, **texts)
    job.refresh_from_db()
    return job


def test_every_point_has_its_time_its_examples_and_its_participants(trained):
    data = chart_data(trained)
    assert data.rounds == [0, 1, 2, 3, 4, 5]
    assert data.examples == [0, 500, 1000, 1500, 2000, 2500]
    assert data.participants == [None, None, 3, None, None, None]
    assert [time - data.started for time in data.times[1:]] == [60_000, 120_000, 180_000, 240_000, 300_000]
    accuracy = next(s for s in data.series if (s.metric, s.kind) == ("accuracy", "training"))
    assert accuracy.values == pytest.approx([None, 0.1, 0.2, 0.3, None, 0.5], nan_ok=False)
    assert (data.unit, data.found) == ("examples", 6)


def test_a_range_counts_the_examples_before_it(trained, owner_client):
    address = reverse("job-chart", args=[trained.pk])
    part = owner_client.get(address, {"first": 2, "last": 3}).json()
    assert (part["rounds"], part["examples"], part["found"]) == ([2, 3], [1000, 1500], 2)
    assert owner_client.get(address, {"first": "x", "last": "-1"}).json()["rounds"] == [0, 1, 2, 3, 4, 5]


def test_a_long_range_says_how_many_points_it_has(trained, monkeypatch):
    monkeypatch.setattr("jobs.selectors.series.thinned.__defaults__", (4,))
    data = chart_data(trained)
    assert len(data.rounds) <= 4 + 8 and data.found == 6
    assert {len(data.times), len(data.examples), len(data.participants)} == {len(data.rounds)}
