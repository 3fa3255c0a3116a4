"""A look at a data file before anything is asked of it: what kind it is, how much it holds, and what to choose from.

Every file is read once, from its beginning to its end, in pieces: 1 GB costs time, not memory. That every record can be
used is not the question here; `package.make_package` asks that.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, TypeAlias

from weei_core.errors import Invalid
from weei_core.generator.inspection.archives import images_found, npz_found
from weei_core.generator.inspection.found import Found, Read
from weei_core.generator.inspection.tables import csv_found, json_lines_found
from weei_core.generator.inspection.text import text_found
from weei_core.generator.request import FORMATS
from weei_core.strict_json import as_choice

Report: TypeAlias = Callable[[int, int], None]
"""Called with the bytes that were read and all there are."""

_BY_NAME = {
    **{"csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "npz": "npz", "zip": "images"},
    **{"txt": "text", "text": "text", "md": "text"},
}
_ZIP_MAGIC = (b"PK\3\4", b"PK\5\6")
_ARCHIVES = {"npz": "NumPy arrays (NPZ)", "images": "a zip of pictures in class folders"}


def inspect(source: Path, name: str, data_format: str = "", report: Report | None = None) -> Found:
    """What the file holds. `data_format` is one of `FORMATS`, or "" to tell it from name and contents.

    Raises `Invalid` for a file that holds nothing, or is not of that format.
    """
    size = source.stat().st_size
    if size == 0:
        raise Invalid("The data file must hold records; it is empty.", field="data")
    with source.open("rb") as file:
        head = file.read(4)
        is_zip = head in _ZIP_MAGIC
        kind = as_choice(data_format, "data.format", FORMATS) if data_format else _told(source, name, is_zip)
        if (kind in _ARCHIVES) != is_zip:
            wanted = _ARCHIVES.get(kind, "text in UTF-8")
            found = "an archive" if is_zip else "none"
            raise Invalid(f"{kind} data must be {wanted}; the file is {found}.", field="data.format")
        file.seek(0)
        return _found(kind, file, Read(size, report or (lambda done, total: None)))


def _found(kind: str, file: BinaryIO, read: Read) -> Found:
    if kind == "text":
        return text_found(file, read)
    if kind == "csv":
        return csv_found(file, read)
    if kind == "jsonl":
        return json_lines_found(file, read)
    try:
        return npz_found(file) if kind == "npz" else images_found(file)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise Invalid(f"The archive cannot be read: {error}.", field="data") from None


def _told(source: Path, name: str, is_zip: bool) -> str:
    """By the ending of its name where that fits, else by what it begins with."""
    kind = _BY_NAME.get(name.rpartition(".")[2].lower(), "")
    if kind and (kind in _ARCHIVES) == is_zip:
        return kind
    if not is_zip:
        with source.open("rb") as file:
            return "jsonl" if file.read(64).lstrip().startswith(b"{") else "text"
    try:
        with zipfile.ZipFile(source) as archive:
            return "npz" if any(entry.endswith(".npy") for entry in archive.namelist()) else "images"
    except zipfile.BadZipFile:
        return "images"


def found_json(found: Found) -> dict[str, object]:
    return asdict(found)


__all__ = ["Found", "found_json", "inspect"]
