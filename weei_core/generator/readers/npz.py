"""NumPy archives: the arrays x and y, read in blocks and never unpickled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from weei_core.errors import Invalid
from weei_core.generator.readers import archive
from weei_core.generator.readers.classes import ClassNumbers
from weei_core.generator.records import SHOWN_COLUMNS, BadRows, Head, Rows
from weei_core.generator.request import MAX_COLUMNS, NpzData, Task
from weei_core.strict_json import shown

BLOCK_BYTES = 2**20
MAX_TARGETS = 4_096

_KINDS = {"b": "whole numbers", "i": "whole numbers", "u": "whole numbers", "f": "numbers", "U": "text"}


class Header(NamedTuple):
    """`width`: values of one record."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])


class NpzTable:
    """The records of two arrays. uint8 inputs stay bytes. `classes.names` is complete after a walk."""

    def __init__(self, path: Path, data: NpzData, bad: BadRows) -> None:
        """Reads the headers. Raises Invalid if the arrays do not fit one another or the task."""
        self.path = path
        self.classes = ClassNumbers()
        self.records_read = 0
        bad.unit = "record"
        self._bad = bad
        self._data = data
        with archive.opened(path) as opened:
            self.x, self.y = _header(opened, data.x), _header(opened, data.y)
        self._check()
        self.task: Task = data.task or ("regression" if self.y.dtype.kind == "f" else "classification")
        if self.task == "classification" and (self.y.dtype.kind == "f" or self.y.width != 1):
            raise Invalid(
                f"{data.y} must hold one whole number or text for each record of a classification; found "
                f"{_described(self.y)}.",
                field="data",
            )
        if self.task == "regression" and self.y.dtype.kind == "U":
            raise Invalid(f"{data.y} must hold numbers for a regression; found text.", field="data")
        self.input_kind = "uint8" if self.x.dtype == np.uint8 else "float32"
        self.columns = tuple(f"{data.x}[{index}]" for index in range(self.x.width))
        self.outputs = tuple(f"{data.y}[{i}]" for i in range(self.y.width)) if self.y.width > 1 else (data.y,)

    @property
    def record_count(self) -> int:
        return self.x.shape[0]

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """(height, width, channels) of records that look like pictures."""
        sizes = self.x.shape[1:]
        if self.input_kind == "uint8" and len(sizes) in (2, 3) and (len(sizes) == 2 or sizes[2] in (1, 3)):
            return (sizes[0], sizes[1], sizes[2] if len(sizes) == 3 else 1)
        return None

    def __iter__(self) -> Iterator[Rows]:
        self.classes = ClassNumbers()
        self.records_read = 0
        count = max(1, BLOCK_BYTES // (self.x.dtype.itemsize * self.x.width + self.y.dtype.itemsize * self.y.width))
        with archive.opened(self.path) as opened, _array(opened, self._data.x) as x, _array(opened, self._data.y) as y:
            while self.records_read < self.record_count:
                many = min(count, self.record_count - self.records_read)
                rows = self._rows(_block(x, self.x, many), _block(y, self.y, many))
                self.records_read += many
                if rows is not None:
                    yield rows

    def progress(self) -> tuple[int, int]:
        """Records of the walk, and all there are."""
        return self.records_read, self.record_count

    def first(self, count: int) -> Head:
        with archive.opened(self.path) as opened, _array(opened, self._data.x) as x, _array(opened, self._data.y) as y:
            many = min(count, self.record_count)
            inputs, targets = _block(x, self.x, many), _block(y, self.y, many)
        rows = tuple(
            (*map(str, row[:SHOWN_COLUMNS]), " ".join(map(str, target[:SHOWN_COLUMNS])))
            for row, target in zip(inputs, targets, strict=True)
        )
        return Head((*self.columns[:SHOWN_COLUMNS], self._data.y), rows)

    def _check(self) -> None:
        data = self._data
        for name, header in ((data.x, self.x), (data.y, self.y)):
            if header.dtype.kind not in _KINDS or (name == data.x and header.dtype.kind == "U"):
                raise Invalid(f"{name} must hold numbers; found {_described(header)}.", field="data")
            if not header.shape or not header.width:
                raise Invalid(f"{name} must have a value for each record; found {_described(header)}.", field="data")
        if self.x.shape[0] != self.y.shape[0] or not self.x.shape[0]:
            raise Invalid(
                f"{data.x} and {data.y} must have as many records, at least one; found {self.x.shape[0]} and "
                f"{self.y.shape[0]}.",
                field="data",
            )
        for name, header, most in ((data.x, self.x, MAX_COLUMNS), (data.y, self.y, MAX_TARGETS)):
            if header.width > most:
                raise Invalid(
                    f"{name} must have at most {most} values for each record; found {header.width}.", field="data"
                )

    def _rows(self, x: NDArray[Any], y: NDArray[Any]) -> Rows | None:
        good = np.ones(len(x), bool)
        inputs = x if self.input_kind == "uint8" else self._floats(x, self._data.x, good)
        if self.task == "regression":
            rows = Rows(inputs, self._floats(y, self._data.y, good))
        else:
            rows = Rows(inputs, self._numbers(y[:, 0], good))
        return Rows(rows.inputs[good], rows.targets[good]) if good.any() else None

    def _floats(self, values: NDArray[Any], name: str, good: NDArray[np.bool_]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            floats = values.astype(np.float32)
        for index in np.flatnonzero(~np.isfinite(floats).all(axis=1) & good).tolist():
            good[index] = False
            found = values[index][~np.isfinite(floats[index])][0]
            self._bad.add(self.records_read + index + 1, f"must have finite 32-bit numbers in {name}; found {found}")
        return floats

    def _numbers(self, labels: NDArray[Any], good: NDArray[np.bool_]) -> NDArray[np.uint32]:
        numbers = np.zeros(len(labels), np.uint32)
        for index, label in enumerate(labels.tolist()):
            try:
                if label == "":
                    raise Invalid(f"has no class in {self._data.y}")
                numbers[index] = self.classes.number(str(int(label) if isinstance(label, bool) else label))
            except Invalid as error:
                good[index] = False
                self._bad.add(self.records_read + index + 1, error.message)
        return numbers


@contextmanager
def _array(opened: ZipFile, name: str) -> Iterator[IO[bytes]]:
    """The values of an array, behind its header."""
    with opened.open(_member(opened, name)) as file:
        _read_header(file, name)
        yield file


def _member(opened: ZipFile, name: str) -> str:
    known = [member.removesuffix(".npy") for member in opened.namelist() if member.endswith(".npy")]
    if name not in known:
        raise Invalid(
            f"The archive must hold an array {shown(name)}; found {', '.join(map(shown, known[:20])) or 'none'}.",
            field="data",
        )
    return f"{name}.npy"


def _header(opened: ZipFile, name: str) -> Header:
    member = opened.getinfo(_member(opened, name))
    with opened.open(member) as file:
        header = _read_header(file, name)
        expected = file.tell() + header.dtype.itemsize * math.prod(header.shape)
    if member.file_size != expected:
        raise Invalid(
            f"{name} must have {expected} bytes for {_described(header)}; found {member.file_size}.", field="data"
        )
    return header


def _read_header(file: IO[bytes], name: str) -> Header:
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise Invalid(f"{name} must be a NumPy array; found that it is not: {error}.", field="data") from None
    if dtype.hasobject:
        raise Invalid(f"{name} must hold numbers or text; found Python objects, which are never loaded.", field="data")
    if fortran and len(shape) > 1:
        raise Invalid(
            f"{name} must be saved row by row (C order); found Fortran order. Save numpy.ascontiguousarray({name}).",
            field="data",
        )
    return Header(dtype, shape)


def _block(file: IO[bytes], header: Header, count: int) -> NDArray[Any]:
    """The next records, (count, width)."""
    size = count * header.dtype.itemsize * header.width
    data = file.read(size)
    if len(data) < size:
        raise Invalid("The arrays must be whole; found that the archive ends before them.", field="data")
    return np.frombuffer(data, header.dtype).reshape(count, header.width)


def _described(header: Header) -> str:
    sizes = " × ".join(map(str, header.shape)) or "a single value"
    return f"{_KINDS.get(header.dtype.kind, 'values')} of type {header.dtype}, {sizes}"
