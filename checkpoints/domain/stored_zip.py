"""A zip archive of stored (not compressed) files as a list of parts, so that it can be sent without being made first:
every byte that is not a file's own is known from names, sizes and CRCs. Layout by PKWARE's APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

LARGEST_FILE = 0xFFFFFFFE
"""Bytes; the archive may be larger."""
_MAX_32, _MAX_16 = 0xFFFFFFFF, 0xFFFF
_VERSION, _VERSION_64 = 20, 45
_UTF8 = 1 << 11
_DATE = (1980 - 1980) << 9 | 1 << 5 | 1
"""1 January 1980, so that the same files are the same archive."""
_MODE = 0o100644 << 16


class Member(NamedTuple):
    """A file of the archive; its bytes come where it stands among the parts."""

    name: str
    size: int
    crc32: int


def archive(members: Sequence[Member]) -> list[bytes | Member]:
    """The archive in order: bytes as they stand, and members. Raises `ValueError` for a file over `LARGEST_FILE`."""
    parts: list[bytes | Member] = []
    directory = []
    offset = 0
    for member in members:
        if member.size > LARGEST_FILE:
            raise ValueError(f"{member.name} has {member.size} bytes; at most {LARGEST_FILE} fit here")
        name = member.name.encode()
        header = struct.pack("<IHHHHHIIIHH", 0x04034B50, *_common(member, name, _VERSION), 0) + name
        directory.append(_entry(member, name, offset))
        parts += [header, member]
        offset += len(header) + member.size
    return [*parts, b"".join(directory) + _end(len(members), sum(map(len, directory)), offset)]


def archive_size(parts: Sequence[bytes | Member]) -> int:
    return sum(part.size if isinstance(part, Member) else len(part) for part in parts)


def _common(member: Member, name: bytes, version: int) -> tuple[int, ...]:
    """What a local header and an entry of the directory share, up to the length of the name."""
    return version, _UTF8, 0, 0, _DATE, member.crc32, member.size, member.size, len(name)


def _entry(member: Member, name: bytes, offset: int) -> bytes:
    extra = struct.pack("<HHQ", 1, 8, offset) if offset >= _MAX_32 else b""
    version = _VERSION_64 if extra else _VERSION
    made_by = 3 << 8 | version  # Unix, for the mode
    fields = (made_by, *_common(member, name, version), len(extra), 0, 0, 0, _MODE, min(offset, _MAX_32))
    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, *fields) + name + extra


def _end(count: int, size: int, offset: int) -> bytes:
    """The end of the archive, after one of 64 bits where the numbers need it."""
    end = struct.pack(
        "<IHHHHIIH",
        0x06054B50,
        *(0, 0),
        *(min(count, _MAX_16), min(count, _MAX_16)),
        *(min(size, _MAX_32), min(offset, _MAX_32)),
        0,
    )
    if count < _MAX_16 and offset + size < _MAX_32:
        return end
    fields = (44, 3 << 8 | _VERSION_64, _VERSION_64, 0, 0, count, count, size, offset)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, *fields)
    return end64 + struct.pack("<IIQI", 0x07064B50, 0, offset + size, 1) + end
