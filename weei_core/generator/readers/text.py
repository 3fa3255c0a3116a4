"""UTF-8 text: by lines with their numbers, in large pieces, or as an even sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from weei_core.errors import Invalid
from weei_core.generator.records import BadRows, TextRecord

MAX_LINE_BYTES = 2**20
PIECE_BYTES = 2**20
SAMPLE_BYTES = 2 * 2**20
"""What merges are learned from, and what a preview reads."""
SAMPLE_PARTS = 16

_BOM = b"\xef\xbb\xbf"


class Lines:
    """The lines of a text, numbered from 1, without their ends. `bytes_read` follows the walk."""

    def __init__(self, path: Path, bad: BadRows) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.bytes_read = 0
        self._bad = bad

    def __iter__(self) -> Iterator[tuple[int, str]]:
        self.bytes_read = 0
        with self.path.open("rb") as file:
            for number, raw in enumerate(_raw_lines(file), 1):
                self.bytes_read += len(raw)
                line = self._decoded(number, raw.removeprefix(_BOM) if number == 1 else raw)
                if line is not None:
                    yield number, line

    def sampled(self) -> Iterator[tuple[int | None, str]]:
        """Lines from places spread evenly over the file, all of a small one. Only the first place knows numbers."""
        if self.size <= SAMPLE_BYTES:
            yield from self
            return
        self.bytes_read = 0
        with self.path.open("rb") as file:
            for part in range(SAMPLE_PARTS):
                file.seek(part * self.size // SAMPLE_PARTS)
                if part:
                    file.readline(MAX_LINE_BYTES)  # The place lies within this line.
                room = SAMPLE_BYTES // SAMPLE_PARTS
                for number, raw in enumerate(_raw_lines(file), 1):
                    first = raw.removeprefix(_BOM) if part == 0 and number == 1 else raw
                    line = self._decoded(number if part == 0 else "in a sample", first)
                    room -= len(raw)
                    self.bytes_read += len(raw)
                    if line is not None:
                        yield (number if part == 0 else None), line
                    if room <= 0:
                        break

    def progress(self) -> tuple[int, int]:
        """Bytes of the walk, and of the file."""
        return self.bytes_read, self.size

    def _decoded(self, where: int | str, raw: bytes) -> str | None:
        if len(raw) > MAX_LINE_BYTES:
            self._bad.add(where, f"has more than {MAX_LINE_BYTES} bytes")
            self._bad.refuse()
        try:
            return raw.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            self._bad.add(where, f"is not UTF-8 at its byte {error.start + 1}")
            return None


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    while raw := file.readline(MAX_LINE_BYTES + 1):
        yield raw


class LineRecords:
    """Every line that is not blank is a record."""

    def __init__(self, path: Path, bad: BadRows) -> None:
        self.lines = Lines(path, bad)

    def __iter__(self) -> Iterator[TextRecord]:
        return (TextRecord(number, (line,)) for number, line in self.lines if line.strip())

    def sampled(self) -> Iterator[TextRecord]:
        return (TextRecord(number, (line,)) for number, line in self.lines.sampled() if line.strip())

    def progress(self) -> tuple[int, int]:
        return self.lines.progress()


class Pieces:
    """A whole text in pieces of about a mebibyte: cut behind a line where there is one, and never within a special
    token. `bytes_read` follows the walk.
    """

    def __init__(self, path: Path, specials: Sequence[str]) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.bytes_read = 0
        longest_first = sorted((text.encode() for text in specials), key=len, reverse=True)
        self._longest = len(longest_first[0]) if specials else 0
        self._specials = re.compile(b"|".join(map(re.escape, longest_first)))

    def __iter__(self) -> Iterator[TextRecord]:
        self.bytes_read = 0
        kept, line = b"", 1
        with self.path.open("rb") as file:
            while True:
                block = file.read(PIECE_BYTES)
                if self.bytes_read == 0:
                    block = block.removeprefix(_BOM)
                self.bytes_read = file.tell()
                kept += block
                cut = self._cut(kept) if block else len(kept)
                if cut:
                    yield TextRecord(None, (_decoded(kept[:cut], line),))
                    line += kept.count(b"\n", 0, cut)
                    kept = kept[cut:]
                if not block:
                    return

    def sampled(self) -> Iterator[TextRecord]:
        """Pieces from places spread evenly over the file; all of a small one."""
        if self.size <= SAMPLE_BYTES:
            yield from self
            return
        self.bytes_read = 0
        with self.path.open("rb") as file:
            for part in range(SAMPLE_PARTS):
                file.seek(part * self.size // SAMPLE_PARTS)
                raw = file.read(SAMPLE_BYTES // SAMPLE_PARTS)
                self.bytes_read += len(raw)
                raw = raw.removeprefix(_BOM) if part == 0 else raw.lstrip(bytes(range(0x80, 0xC0)))
                yield TextRecord(None, (_decoded(raw[: _whole(raw)], None),))

    def progress(self) -> tuple[int, int]:
        return self.bytes_read, self.size

    def _cut(self, text: bytes) -> int:
        """How much of `text`, behind which more may follow, is a piece of its own."""
        longest = self._longest
        cut = text.rfind(b"\n", 0, len(text) - longest) + 1
        if not cut and len(text) < 2 * PIECE_BYTES:
            return 0
        cut = cut or _whole(text[: len(text) - longest])
        within = (found for found in self._specials.finditer(text) if found.start() < cut < found.end())
        split = next(within, None) if longest else None
        return split.start() if split else cut


def _whole(text: bytes) -> int:
    """The length of `text` without a character that is cut at its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            needed = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return len(text) - back if back < needed else len(text)
        if byte < 0x80:
            break
    return len(text)


def _decoded(piece: bytes, line: int | None) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError as error:
        newlines = piece.count(b"\n", 0, error.start)
        place = "" if line is None else f" in line {line + newlines}"
        raise Invalid(
            f"The text must be UTF-8; found a byte{place} that is not: {piece[error.start]:#04x}.",
            field="data",
            code="bad_rows",
        ) from None
