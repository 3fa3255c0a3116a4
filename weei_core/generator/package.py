"""From a request and a data file to a model package: what it would be (`preview`), and the package (`make_package`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from weei_core.advice import Advice
from weei_core.dataset_manifest import ChunkEntry
from weei_core.generator.request import PackageRequest
from weei_core.strict_json import JsonValue

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage ("read", "chunks", "module"), what is done and what there is to do, in bytes or records."""


@dataclass(frozen=True)
class ShownRecord:
    """A record of text as the model will see it. `trained_from`: the first token that is a target, None for all."""

    line: int | None
    text: str
    tokens: tuple[str, ...]
    trained_from: int | None


@dataclass(frozen=True)
class ShownTable:
    """The first rows of a table, or the first pictures by name and class. Every cell is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """What would be made. `exact` False: the file is large, so that counts rest on its size and a sample.

    `records` for text, `table` for tables and pictures. Sizes are bytes.
    """

    records: tuple[ShownRecord, ...]
    table: ShownTable | None
    exact: bool
    record_count: int
    validation_count: int
    chunk_count: int
    chunk_bytes: int
    vocabulary_size: int | None
    parameter_count: int
    weight_bytes: int
    memory_bytes: int
    warnings: tuple[Advice, ...]


@dataclass(frozen=True)
class MadePackage:
    """The files of a package, in manifest order. `settings` are job settings as the API takes them."""

    folder: Path
    module: Path
    manifest: Path
    chunks: tuple[Path, ...]
    validation: Path | None
    entries: tuple[ChunkEntry, ...]
    settings: dict[str, JsonValue]
    warnings: tuple[Advice, ...]


def preview(request: PackageRequest, source: Path) -> Preview:
    """Read as much of `source` as is needed to show what `make_package` would do. Writes nothing.

    Raises Invalid for a source that does not fit the request.
    """
    raise NotImplementedError("in work")


def make_package(request: PackageRequest, source: Path, folder: Path, progress: Progress | None = None) -> MadePackage:
    """Write the package of `source` into `folder`, which must not exist yet or be empty.

    The same request and data give the same bytes. Files are written aside and renamed, so that nothing half-made is
    left. Raises Invalid, with the first bad lines by number, and Conflict when the folder holds something.
    """
    raise NotImplementedError("in work")


def write_zip(made: MadePackage, target: Path) -> None:
    """All files of the package in one zip, stored as they are; equal packages give equal bytes."""
    raise NotImplementedError("in work")
