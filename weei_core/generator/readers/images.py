"""A zip of pictures in class folders, each brought to one size."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from weei_core.errors import Invalid
from weei_core.generator.readers import archive
from weei_core.generator.readers.classes import ClassNumbers
from weei_core.generator.records import BadRows, Head, Rows
from weei_core.generator.request import ImagesData, Task
from weei_core.strict_json import shown

MAX_FILE_BYTES = 64 * 2**20
MAX_PIXELS = 25_000_000
"""Of one picture: it is decoded in memory."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
BLOCK_BYTES = 2**20

_UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError)
_NOT_DATA = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")


class ImageTable:
    """Pictures as rows of bytes, height × width × channels. The class of each is the folder that it lies in."""

    input_kind = "uint8"
    task: Task = "classification"
    outputs = ("class",)

    def __init__(self, path: Path, data: ImagesData, bad: BadRows) -> None:
        """Reads the table of contents. Raises Invalid for an archive that is not safe or has no class folders."""
        self.path = path
        self.classes = ClassNumbers()
        self.records_read = 0
        self.shape = (data.height, data.width, data.channels)
        bad.unit = "file"
        self._bad = bad
        self._data = data
        self._mode = "L" if data.channels == 1 else "RGB"
        with archive.opened(path) as opened:
            self._members = _pictures(opened)
        self.record_count = len(self._members)
        self.columns = tuple(f"byte {index}" for index in range(data.height * data.width * data.channels))

    def __iter__(self) -> Iterator[Rows]:
        self.classes = ClassNumbers()
        self.records_read = 0
        block = max(1, BLOCK_BYTES // len(self.columns))
        with archive.opened(self.path) as opened:
            for at in range(0, len(self._members), block):
                good = [row for name, path in self._members[at : at + block] if (row := self._row(opened, name, path))]
                if good:
                    yield Rows(np.stack([pixels for pixels, _ in good]), np.array([n for _, n in good], np.uint32))

    def progress(self) -> tuple[int, int]:
        """Pictures of the walk, and all there are."""
        return self.records_read, self.record_count

    def first(self, count: int) -> Head:
        return Head(("file", "class"), tuple((name, folder) for folder, name in self._members[:count]))

    def _row(self, opened: zipfile.ZipFile, folder: str, name: str) -> tuple[NDArray[np.uint8], int] | None:
        self.records_read += 1
        try:
            return self._pixels(opened, opened.getinfo(name)), self.classes.number(folder)
        except Invalid as error:
            self._bad.add(shown(name), error.message)
            return None

    def _pixels(self, opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[np.uint8]:
        """Raises Invalid with what follows the file's name in a sentence."""
        if member.file_size > MAX_FILE_BYTES:
            raise Invalid(f"must have at most {MAX_FILE_BYTES} bytes; found {member.file_size}")
        try:
            content = opened.read(member)
            with warnings.catch_warnings(), Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                warnings.simplefilter("ignore")
                if picture.width * picture.height > MAX_PIXELS:
                    raise Invalid(f"must have at most {MAX_PIXELS} pixels; found {picture.width} × {picture.height}")
                size = (self._data.width, self._data.height)
                resized = _opaque(picture).convert(self._mode).resize(size, Image.Resampling.BILINEAR)
        except UnidentifiedImageError:
            raise Invalid(f"must be a picture ({', '.join(FORMATS)}); found something else") from None
        except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
            raise Invalid(f"must be a picture that can be read; found: {error}") from None
        return np.asarray(resized, np.uint8).reshape(-1)


def _opaque(picture: Image.Image) -> Image.Image:
    """On white where it is transparent."""
    if not picture.has_transparency_data:
        return picture
    drawn = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn)


def _pictures(opened: zipfile.ZipFile) -> list[tuple[str, str]]:
    """(folder, path) of each, by path. A folder around all class folders is looked through."""
    members = [
        (PurePosixPath(member.filename).parts, member.filename) for member in opened.infolist() if not member.is_dir()
    ]
    members = [(parts, name) for parts, name in members if not set(parts) & set(_NOT_DATA)]
    is_wrapped = {len(parts) for parts, _ in members} == {3} and len({parts[0] for parts, _ in members}) == 1
    for parts, name in members:
        if len(parts) != (3 if is_wrapped else 2):
            raise Invalid(
                f"Pictures must lie in one folder for each class, as in cats/1.png; found {shown(name)}.", field="data"
            )
    if not members:
        raise Invalid("The archive must hold pictures in class folders; found none.", field="data")
    if len({name for _, name in members}) < len(members):
        raise Invalid("Files in the archive must have different paths; found one twice.", field="data")
    return sorted((parts[-2], name) for parts, name in members)
