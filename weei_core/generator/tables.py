"""From tables, arrays and pictures to rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weei_core.errors import Invalid
from weei_core.generator.advice import class_warnings
from weei_core.generator.architectures import MlpArchitecture
from weei_core.generator.bpe import Ids
from weei_core.generator.chunking import Plan, planned, rows_file
from weei_core.generator.configuration import ROWS_FORMAT, Statistics, mlp_blob
from weei_core.generator.forms import row_form
from weei_core.generator.material import Look, Material, Progress, ShownTable
from weei_core.generator.readers.classes import ClassNumbers
from weei_core.generator.readers.csv import CsvTable
from weei_core.generator.readers.images import ImageTable
from weei_core.generator.readers.npz import NpzTable
from weei_core.generator.records import BadRows, Head, Rows, RowSpool, normalisation
from weei_core.generator.request import CsvData, ImagesData, NpzData, PackageRequest, Task

SHOWN_ROWS = 10
LOOK_BYTES = 8 * 2**20
"""Of a table's rows, as the module reads them: as far as a preview walks."""


class Table(Protocol):
    """A file of rows. `classes` is complete after a walk."""

    task: Task
    classes: ClassNumbers

    @property
    def input_kind(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def shape(self) -> tuple[int, int, int] | None: ...
    def __iter__(self) -> Iterator[Rows]: ...
    def progress(self) -> tuple[int, int]: ...
    def first(self, count: int) -> Head: ...


@dataclass(frozen=True)
class TableMaterial(Material):
    """`classes`: the final number of each class by its number in the spool; None for a regression."""

    spool: RowSpool
    classes: NDArray[np.uint32] | None

    def file(self, records: Ids) -> bytes:
        return rows_file(self.spool, records, self.classes)


def table_material(request: PackageRequest, path: Path, folder: Path, progress: Progress) -> TableMaterial:
    """Reads the whole file once. `folder` takes the spool. Raises Invalid with the rows that cannot be used."""
    bad = BadRows()
    table = _table(request, path, bad)
    spool = RowSpool(folder)
    for rows in table:
        spool.append(rows)
        progress("read", *table.progress())
    spool.finish()
    bad.refuse()
    names, places = _classes(table, spool.record_count)
    architecture = _architecture(request, table, len(names))
    plan = planned(request.chunking, spool.record_count, spool.mean_record_bytes)
    inputs, outputs = _statistics(table, spool, plan)
    return TableMaterial(
        plan=plan,
        architecture=architecture,
        blob=mlp_blob(architecture, classes=names, input_statistics=inputs, output_statistics=outputs),
        format=ROWS_FORMAT,
        inference=row_form(table.columns, table.shape, regression=table.task == "regression"),
        record_bytes=spool.mean_record_bytes,
        whole_answers=False,
        warnings=class_warnings(len(names), spool.record_count),
        spool=spool,
        classes=places if table.task == "classification" else None,
    )


def look_at_table(request: PackageRequest, path: Path, progress: Progress) -> Look:
    """What the first rows show; all of a small file."""
    bad = BadRows()
    table = _table(request, path, bad)
    read, records, exact = 0, 0, True
    for rows in table:
        records += len(rows.inputs)
        read += rows.inputs.nbytes + rows.targets.nbytes
        done, total = table.progress()
        progress("look", min(1000, round(1000 * max(read / LOOK_BYTES, done / max(1, total)))), 1000)
        if read >= LOOK_BYTES and done < total:
            exact = False
            break
    bad.refuse()
    done, total = table.progress()
    names, _ = _classes(table, records)
    all_records = records if exact else round(records * total / max(1, done))
    return Look(
        architecture=_architecture(request, table, len(names)),
        record_count=all_records,
        record_bytes=read / records,
        exact=exact,
        records=(),
        table=ShownTable(*table.first(SHOWN_ROWS), tuple(names)),
        vocabulary_size=None,
        whole_answers=False,
        warnings=class_warnings(len(names), records),
    )


def _table(request: PackageRequest, path: Path, bad: BadRows) -> Table:
    if isinstance(request.data, CsvData):
        return CsvTable(path, request.data, bad)
    if isinstance(request.data, NpzData):
        return NpzTable(path, request.data, bad)
    assert isinstance(request.data, ImagesData)
    return ImageTable(path, request.data, bad)


def _classes(table: Table, records: int) -> tuple[list[str], NDArray[np.uint32]]:
    """Their names and places; none for a regression. Raises Invalid when there is nothing to learn from."""
    if not records:
        raise Invalid("The data must hold at least one row; found none.", field="data")
    names, places = table.classes.ordered()
    if table.task == "classification" and len(names) < 2:
        raise Invalid(
            f"The label must have at least two different values; found {len(names)} in {records} records.",
            field="data",
        )
    return names, places


def _architecture(request: PackageRequest, table: Table, classes: int) -> MlpArchitecture:
    built = request.built(
        inputs=len(table.columns),
        outputs=classes if table.task == "classification" else len(table.outputs),
        task=table.task,
        inputKind=table.input_kind,
    )
    assert isinstance(built, MlpArchitecture)
    return built


def _statistics(table: Table, spool: RowSpool, plan: Plan) -> tuple[Statistics, Statistics]:
    """Mean and scale of inputs and targets, where the module normalises them, from the training part alone."""
    training = np.ones(spool.record_count, bool)
    training[plan.held_out()] = False
    inputs = normalisation(spool, 0, training).pairs() if table.input_kind == "float32" else []
    outputs = normalisation(spool, 1, training).pairs() if table.task == "regression" else []
    return inputs, outputs
