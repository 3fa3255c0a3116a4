"""Zip archives from outside, opened with care: nothing is ever unpacked to a path that the archive names."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weei_core.errors import Invalid
from weei_core.strict_json import shown

MAX_DIRECTORY_BYTES = 64 * 2**20
"""Of the archive's table of contents, which is read into memory: some hundred thousand files."""
MAX_UNPACKED_BYTES = 8 * 2**30

_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\x05\x06"
_ENCRYPTED = 1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Raises Invalid for what is no zip, is encrypted, names paths that lead out, or unpacks to too much."""
    try:
        _check_directory(path)
        with zipfile.ZipFile(path) as archive:
            _check_members(archive)
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, zlib.error) as error:
        raise Invalid(f"The data must be a zip archive that can be read; found: {error}.", field="data") from None


def _check_directory(path: Path) -> None:
    """Before `zipfile` makes an object of each entry."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END.size - 2**16))
        tail = file.read()
    at = tail.rfind(_END_MAGIC)
    if at < 0 or len(tail) - at < _END.size:
        raise zipfile.BadZipFile("it is no zip file")
    directory_bytes = _END.unpack_from(tail, at)[5]
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise Invalid(
            f"The archive's table of contents must have at most {MAX_DIRECTORY_BYTES} bytes; found {directory_bytes}.",
            field="data",
        )


def _check_members(archive: zipfile.ZipFile) -> None:
    unpacked = 0
    for member in archive.infolist():
        name = member.filename
        if name.startswith("/") or "\\" in name or ":" in name.split("/")[0] or ".." in name.split("/"):
            raise Invalid(f"Files in the archive must have plain relative paths; found {shown(name)}.", field="data")
        if member.flag_bits & _ENCRYPTED:
            raise Invalid(f"The archive must not be encrypted; found {shown(name)}.", field="data")
        if member.compress_type not in _METHODS:
            raise Invalid(
                f"Files in the archive must be stored or deflated; {shown(name)} is packed otherwise.", field="data"
            )
        unpacked += member.file_size
        if unpacked > MAX_UNPACKED_BYTES:
            raise Invalid(f"The archive must unpack to at most {MAX_UNPACKED_BYTES} bytes; found more.", field="data")
