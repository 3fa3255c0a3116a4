"""The look at plain text."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from weei_core.errors import Invalid
from weei_core.generator.inspection.found import BLOCK_BYTES, SHOWN_ROWS, Found, Read, shortened

MOST_CHARACTERS = 65_536
"""Different characters that are counted at most."""


def text_found(file: BinaryIO, read: Read) -> Found:
    """Lines, different characters, and the first lines."""
    decode = codecs.getincrementaldecoder("utf-8")()
    lines, seen, first, last = 0, set[str](), "", ""
    while block := file.read(BLOCK_BYTES):
        try:
            text = decode.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(lines, error) from None
        read.more(len(block))
        lines += text.count("\n")
        if len(seen) < MOST_CHARACTERS:
            seen |= set(text)
        first += text[: max(0, 4_000 - len(first))]
        last = text[-1:] or last
    try:
        decode.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(lines, error) from None
    if not first.strip():
        raise Invalid("The text must hold something besides spaces; found none.", field="data")
    shown = [shortened(line) for line in first.splitlines() if line.strip()][:SHOWN_ROWS]
    return Found(
        "text",
        records=lines + (last != "\n"),
        bytes=read.size,
        rows=tuple((line,) for line in shown),
        characters=len(seen),
    )


def _not_utf8(lines: int, error: UnicodeDecodeError) -> Invalid:
    line = lines + 1 + error.object[: error.start].count(b"\n")
    return Invalid(f"The text must be UTF-8; line {line} holds a byte that is none. Save it as UTF-8.", field="data")
