"""The look at archives: NumPy arrays, and pictures in class folders. Only headers and names are read."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from pathlib import PurePosixPath
from typing import IO, BinaryIO

from numpy.lib import format as npy

from weei_core.errors import Invalid
from weei_core.generator.inspection.found import SHOWN_ROWS, Column, Found
from weei_core.generator.inspection.tables import MOST_CLASSES

MAX_MEMBERS = 2_000_000
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".tif", ".tiff")


def npz_found(file: BinaryIO) -> Found:
    """Names, shapes and types of the arrays."""
    columns, records = [], 0
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        for name in names[:MAX_MEMBERS]:
            with archive.open(name) as member:
                shape, kind = _header(member, name)
            array = name.removesuffix(".npy")
            whole = kind.startswith(("uint", "int"))
            numbers = whole or kind.startswith("float")
            columns.append(Column(array, numbers=numbers, whole=whole, distinct=0, shape=shape, type=kind))
            if array == "x" or (shape and not records):
                records = shape[0] if shape else 0
    if not columns:
        raise Invalid("The archive must hold NumPy arrays (.npy); found none.", field="data")
    label = next((column.name for column in columns if column.name in ("y", "labels", "label")), columns[-1].name)
    return Found("npz", records=records, bytes=_size(file), columns=tuple(columns), label=label)


def _header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], str]:
    try:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(member)
    except ValueError as error:
        raise Invalid(f"{name} is not a NumPy array: {error}.", field="data") from None
    if dtype.hasobject:
        raise Invalid(f"{name} must hold numbers or text; it holds Python objects.", field="data")
    return shape, str(dtype)


def images_found(file: BinaryIO) -> Found:
    """Folders as classes, and how many pictures each has. The class is the folder that a picture lies in."""
    classes: Counter[str] = Counter()
    rows: list[tuple[str, ...]] = []
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            path = PurePosixPath(entry.filename)
            if entry.is_dir() or path.suffix.lower() not in _PICTURES or path.name.startswith("."):
                continue
            if len(path.parts) < 2:
                raise Invalid(
                    f"Every picture must lie in the folder of its class; {path.name} lies in none.", field="data"
                )
            classes[path.parent.name] += 1
            if classes[path.parent.name] == 1 and len(rows) < SHOWN_ROWS:
                rows.append((path.name, path.parent.name))
    if len(classes) < 2:
        raise Invalid(
            "The zip must hold pictures (PNG, JPEG …) in at least two folders, one for each class; "
            f"found {sum(classes.values())} in {len(classes)}.",
            field="data",
        )
    if len(classes) > MOST_CLASSES:
        raise Invalid(f"There may be at most {MOST_CLASSES} classes; found {len(classes)} folders.", field="data")
    return Found(
        "images",
        records=sum(classes.values()),
        bytes=_size(file),
        rows=tuple(rows),
        classes=tuple(classes.most_common()),
    )


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
