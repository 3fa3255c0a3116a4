"""A job's metrics as CSV, and as event files that TensorBoard's own reader reads."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from checkpoints.models import Checkpoint
from jobs.models import Round
from jobs.selectors.metric_files import COLUMNS, harmless, metrics_csv, tensorboard_zip
from tests.jobs.world import make_job

pytestmark = [pytest.mark.django_db, pytest.mark.db]
SAVED = timezone.now().replace(microsecond=250_000)
TRAINING = [{}, {"loss": 0.75, "accuracy": 0.5}, {"loss": 0.5}, {"loss": 1e-7, "accuracy": 0.0}]
VALIDATION = [None, {"loss": 0.8}, None, {"loss": 0.25, "accuracy": 1.0}]


@pytest.fixture
def job():
    job = make_job()
    first = job.checkpoints.get()
    info = json.loads(job.model_info_text)
    info["metrics"] = [{"id": m, "label": m, "direction": "minimize"} for m in ("loss", "accuracy", "=SUM(A1)")]
    job.model_info_text = json.dumps(info)
    job.save()
    rows = []
    for number, (training, validated) in enumerate(zip(TRAINING, VALIDATION, strict=True)):
        row = first if number == 0 else Checkpoint(job=job, weights=first.weights)
        row.round, row.created, row.dataset_progress = number, SAVED + timedelta(seconds=number), number / 4
        row.metrics_text, row.settings_text, row.ledger_text = json.dumps(training), "{}", "{}"
        row.progress_text, row.examples_processed = first.progress_text, 10 * number
        row.validation_text = json.dumps({"metrics": validated, "examplesProcessed": 5}) if validated else ""
        rows.append(row)
    rows[0].save()
    Checkpoint.objects.bulk_create(rows[1:])
    return job


def lines(job):
    return list(csv.reader(io.StringIO("".join(metrics_csv(job)))))


def test_csv_has_a_line_for_each_checkpoint_and_nothing_where_nothing_was_measured(job):
    names, *rows = lines(job)
    metrics = ("loss", "accuracy", "=SUM(A1)")
    assert names == [*COLUMNS, *[f"{kind}/{m}" for kind in ("training", "validation") for m in metrics]]
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    assert datetime.fromisoformat(rows[2][1]) == SAVED + timedelta(seconds=2)
    assert [row[5:] for row in rows] == [
        ["", "", "", "", "", ""],
        ["0.75", "0.5", "", "0.8", "", ""],
        ["0.5", "", "", "", "", ""],
        ["1e-07", "0.0", "", "0.25", "1.0", ""],
    ]


def test_csv_says_how_many_took_part_only_where_a_round_made_the_checkpoint(job):
    Round.objects.filter(job=job).delete()
    start = job.checkpoints.get(round=0).weights
    Round.objects.create(job=job, number=2, state=Round.State.DONE, received=7, start_weights=start, opened_at=SAVED)
    assert [row[4] for row in lines(job)[1:]] == ["", "", "7", ""]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_name_that_is_a_formula_is_marked_as_text(text):
    """H16."""
    assert harmless(text) == "'" + text and harmless("loss") == "loss"


def runs(packed, folder):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(folder)
    found = {}
    for run in ("training", "validation"):
        found[run] = EventAccumulator(str(folder / run))
        found[run].Reload()
    return found


def test_tensorboard_reads_every_value_at_its_round_and_time(job, tmp_path):
    found = runs(tensorboard_zip(job), tmp_path)
    for run, measured in (("training", TRAINING), ("validation", VALIDATION)):
        expected = [(n, name, value) for n, row in enumerate(measured) for name, value in (row or {}).items()]
        tags = found[run].Tags()["scalars"]
        read = [(event.step, tag, event.value) for tag in tags for event in found[run].Scalars(tag)]
        assert sorted(read) == sorted((n, name, pytest.approx(value, rel=1e-7)) for n, name, value in expected)
    saved = [event.wall_time for event in found["training"].Scalars("loss")]
    assert saved == [(SAVED + timedelta(seconds=n)).timestamp() for n in (1, 2, 3)]


def test_the_same_metrics_are_the_same_bytes(job):
    assert tensorboard_zip(job) == tensorboard_zip(job)


def test_a_job_that_measured_nothing_has_files_without_values(job, tmp_path):
    Checkpoint.objects.filter(job=job).update(metrics_text="{}", validation_text="")
    assert runs(tensorboard_zip(job), tmp_path)["training"].Tags()["scalars"] == []
