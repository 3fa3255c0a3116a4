"""A job's metrics as files of other programs: CSV for spreadsheets, event files for TensorBoard."""

from __future__ import annotations

import csv
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from checkpoints.models import Checkpoint
from jobs.models import Job, Round
from jobs.selectors.pages import metrics_of

Values = Mapping[str, float]
COLUMNS = ("round", "saved", "passes", "examples", "participants")
EVENT_FILE_VERSION = "brain.Event:2"
"""What TensorBoard's reader expects of the first event of a file."""
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Measured:
    """One checkpoint's metrics. What was not measured is not in the mappings."""

    round: int
    saved: datetime
    passes: float
    examples: int
    participants: int | None
    training: Values
    validation: Values


def measured(job: Job) -> Iterator[Measured]:
    """Every checkpoint, oldest first, a block of rows at a time."""
    merged = dict(Round.objects.filter(job=job, state=Round.State.DONE).values_list("number", "received"))
    columns = ("round", "created", "dataset_progress", "examples_processed", "metrics_text", "validation_text")
    rows = Checkpoint.objects.filter(job=job).order_by("round").values_list(*columns)
    for number, saved, passes, examples, metrics, validation in rows.iterator():
        validated = json.loads(validation)["metrics"] if validation else {}
        yield Measured(number, saved, passes, examples, merged.get(number), json.loads(metrics), validated)


def metrics_csv(job: Job) -> Iterator[str]:
    """Lines: one of names, then one for each checkpoint. An empty cell is a value that was not measured."""
    ids = [metric.id for metric in metrics_of(job)]
    names = [f"{kind}/{metric}" for kind in ("training", "validation") for metric in ids]
    yield _line([*COLUMNS, *map(harmless, names)])
    for row in measured(job):
        values = [found.get(metric, "") for found in (row.training, row.validation) for metric in ids]
        participants = "" if row.participants is None else row.participants
        saved = row.saved.astimezone(UTC).isoformat()
        yield _line([row.round, saved, row.passes, row.examples, participants, *values])


def harmless(text: str) -> str:
    """H16: a text from a module that a spreadsheet would take for a formula is marked as text."""
    return "'" + text if text.startswith(_STARTS_A_FORMULA) else text


def _line(cells: list[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def tensorboard_zip(job: Job) -> bytes:
    """A zip of a log folder with the runs `training` and `validation`: in each one scalar for each metric and
    checkpoint, the round as step. The same metrics give the same bytes."""
    with tempfile.TemporaryDirectory(prefix="weei-tensorboard-") as folder:
        rows = list(measured(job))
        name = f"events.out.tfevents.{_seconds(job.created):.0f}.weei"
        for run in ("training", "validation"):
            _write_events(Path(folder, run, name), job, [(row, getattr(row, run)) for row in rows])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(Path(folder).rglob("events.*")):
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(folder))), file.read_bytes())
        return packed.getvalue()


def _write_events(path: Path, job: Job, rows: list[tuple[Measured, Values]]) -> None:
    path.parent.mkdir()
    writer = RecordWriter(str(path))
    writer.write(Event(wall_time=_seconds(job.created), file_version=EVENT_FILE_VERSION).SerializeToString())
    for row, values in rows:
        scalars = [Summary.Value(tag=metric, simple_value=value) for metric, value in values.items()]
        if scalars:
            event = Event(wall_time=_seconds(row.saved), step=row.round, summary=Summary(value=scalars))
            writer.write(event.SerializeToString())
    writer.close()


def _seconds(at: datetime) -> float:
    return at.timestamp()
