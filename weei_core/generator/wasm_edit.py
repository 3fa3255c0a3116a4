"""A configured copy of a base module: one more data segment, other memory limits, and a section for people.

Pure functions of bytes. Only the sections that change are read and written anew; the code stays as it was compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weei_core.errors import Invalid

CONFIG_ADDRESS = 65_536
CONFIG_LIMIT = 4_194_304
"""The stack of a base module ends at the first and its static data begin at the second; between them is room."""
CONFIG_SECTION = "weei.config"
PAGE_BYTES = 65_536
MAX_PAGES = 65_536
MAX_BASE_MODULE_BYTES = 16 * 2**20

_HEADER = b"\0asm\1\0\0\0"
_CUSTOM, _MEMORY, _CODE, _DATA, _DATA_COUNT = 0, 5, 10, 11, 12
_ORDER = (1, 2, 3, 4, _MEMORY, 6, 7, 8, 9, _DATA_COUNT, _CODE, _DATA)
_I32_CONST, _END = 0x41, 0x0B


@dataclass(frozen=True)
class _Section:
    id: int
    content: bytes


@dataclass(frozen=True)
class _Placed:
    """An active data segment: the bytes [start, end) of memory that it fills, and how it is written."""

    start: int
    end: int
    encoded: bytes


@dataclass(frozen=True)
class MemoryLimits:
    """Pages of 65,536 bytes. `maximum` is None where a module declares none."""

    initial: int
    maximum: int | None


def memory_limits(module: bytes) -> MemoryLimits:
    """What the module declares; `Invalid` when it is no base module."""
    return _memory(_only(_sections(module), _MEMORY, "memory"))


def config_section(module: bytes) -> bytes | None:
    """What `configured` was given as `section`; None for a module that has no such section."""
    for section in _sections(module):
        if section.id == _CUSTOM and _custom_name(section) == CONFIG_SECTION.encode():
            return section.content[1 + len(CONFIG_SECTION) :]
    return None


def config_segment(module: bytes) -> bytes | None:
    """What `configured` was given as `segment`; None for a module that was not configured."""
    if config_section(module) is None:
        return None
    placed = _placed(_only(_sections(module), _DATA, "data"))
    found = next((part for part in placed if part.start == CONFIG_ADDRESS), None)
    return None if found is None else found.encoded[found.start - found.end :]


def configured(module: bytes, segment: bytes, *, section: bytes, initial_pages: int, maximum_pages: int) -> bytes:
    """`module` with `segment` at address 65,536, memory of these pages and the custom section `weei.config`.

    The same input gives the same bytes. `Invalid` when the module is malformed or no base module (one own memory, not
    shared; active data segments at constant addresses, none where the configuration goes), or when the sizes do not
    fit each other.
    """
    sections = _sections(module)
    memory = _memory(_only(sections, _MEMORY, "memory"))
    placed = _placed(_only(sections, _DATA, "data"))
    if config_section(module) is not None:
        raise _refused("has a section weei.config already: configure the base module itself")
    _check_segment(segment, placed)
    _check_pages(memory, initial_pages, maximum_pages)
    changed = {
        _MEMORY: b"\1\1" + _u32(initial_pages) + _u32(maximum_pages),
        _DATA_COUNT: _u32(len(placed) + 1),
        _DATA: _data([*placed, _segment(segment)]),
    }
    written = [_encoded(part.id, changed.get(part.id, part.content)) for part in sections]
    name = CONFIG_SECTION.encode()
    return b"".join([_HEADER, *written, _encoded(_CUSTOM, _u32(len(name)) + name + section)])


def _check_segment(segment: bytes, placed: Sequence[_Placed]) -> None:
    end = CONFIG_ADDRESS + len(segment)
    if not segment or end > CONFIG_LIMIT:
        most = CONFIG_LIMIT - CONFIG_ADDRESS
        raise Invalid(
            f"The configuration must be 1 to {most} bytes long; found {len(segment)}. Fewer names, columns or tokens "
            "make it shorter.",
            field="configuration",
            code="too_large",
        )
    for other in placed:
        if other.start < end and other.end > CONFIG_ADDRESS:
            raise _refused(f"has data from byte {other.start} to {other.end}, where the configuration goes")


def _check_pages(memory: MemoryLimits, initial: int, maximum: int) -> None:
    least = max(memory.initial, CONFIG_LIMIT // PAGE_BYTES)
    if not least <= initial <= maximum <= MAX_PAGES:
        raise Invalid(
            f"The memory must have {least} initial pages or more, no fewer maximum pages, and at most {MAX_PAGES}; "
            f"found {initial} and {maximum}.",
            field="memory",
        )


def _segment(content: bytes) -> _Placed:
    encoded = b"\0" + bytes([_I32_CONST]) + _s32(CONFIG_ADDRESS) + bytes([_END]) + _u32(len(content)) + content
    return _Placed(CONFIG_ADDRESS, CONFIG_ADDRESS + len(content), encoded)


def _data(segments: Sequence[_Placed]) -> bytes:
    return _u32(len(segments)) + b"".join(segment.encoded for segment in segments)


def _encoded(section_id: int, content: bytes) -> bytes:
    return bytes([section_id]) + _u32(len(content)) + content


# Reading


class _Reader:
    """A cursor over bytes that refuses to leave them. `what` names them in the sentence."""

    def __init__(self, content: bytes, what: str) -> None:
        self.content, self.what, self.at = content, what, 0

    @property
    def done(self) -> bool:
        return self.at == len(self.content)

    def take(self, count: int) -> bytes:
        if count > len(self.content) - self.at:
            raise _refused(f"ends within its {self.what}")
        self.at += count
        return self.content[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        """Unsigned LEB128 of at most five bytes and 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise _refused(f"has a number of more than five bytes in its {self.what}")
        if value >= 2**32:
            raise _refused(f"has a number above 32 bits in its {self.what}")
        return value

    def s32(self) -> int:
        """Signed LEB128 of at most five bytes and 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise _refused(f"has a number of more than five bytes in its {self.what}")
        bits = shift + 7
        value -= (value >> (bits - 1)) << bits
        if not -(2**31) <= value < 2**31:
            raise _refused(f"has a number above 32 bits in its {self.what}")
        return value

    def finish(self) -> None:
        if not self.done:
            raise _refused(f"has {len(self.content) - self.at} bytes too many in its {self.what}")


def _sections(module: bytes) -> list[_Section]:
    """Every section once and in the order of the specification; custom sections may stand anywhere."""
    if len(module) > MAX_BASE_MODULE_BYTES:
        raise _refused(f"has {len(module)} bytes, allowed: {MAX_BASE_MODULE_BYTES}")
    if not module.startswith(_HEADER):
        raise _refused(f"does not start with {_HEADER.hex(' ')} (WebAssembly 1)")
    reader = _Reader(module, "sections")
    reader.take(len(_HEADER))
    found: list[_Section] = []
    left = list(_ORDER)
    while not reader.done:
        section = _Section(reader.byte(), reader.take(reader.u32()))
        found.append(section)
        if section.id == _CUSTOM:
            _custom_name(section)
        elif section.id in left:
            left = left[left.index(section.id) + 1 :]
        else:
            raise _refused(f"has a section of id {section.id} that is unknown, doubled or in the wrong place")
    _check_data_count(found)
    return found


def _custom_name(section: _Section) -> bytes:
    reader = _Reader(section.content, "custom section")
    return reader.take(reader.u32())


def _check_data_count(sections: Sequence[_Section]) -> None:
    for section in sections:
        if section.id == _DATA_COUNT:
            reader = _Reader(section.content, "data-count section")
            count = reader.u32()
            reader.finish()
            found = len(_placed(_only(sections, _DATA, "data")))
            if count != found:
                raise _refused(f"has {found} data segments, and a data-count section of {count}")


def _only(sections: Sequence[_Section], section_id: int, name: str) -> _Section:
    for section in sections:
        if section.id == section_id:
            return section
    raise _refused(f"has no {name} section")


def _memory(section: _Section) -> MemoryLimits:
    reader = _Reader(section.content, "memory section")
    if (count := reader.u32()) != 1:
        raise _refused(f"has {count} memories, allowed: 1")
    if (flags := reader.byte()) not in (0, 1):
        raise _refused(f"has a shared or 64-bit memory (flags {flags})")
    limits = MemoryLimits(reader.u32(), reader.u32() if flags else None)
    reader.finish()
    if not limits.initial <= (MAX_PAGES if limits.maximum is None else limits.maximum) <= MAX_PAGES:
        raise _refused(f"has a memory of {limits.initial} to {limits.maximum} pages, allowed: up to {MAX_PAGES}")
    return limits


def _placed(section: _Section) -> list[_Placed]:
    reader = _Reader(section.content, "data section")
    found = []
    for _ in range(reader.u32()):
        begin = reader.at
        if reader.u32() != 0 or reader.byte() != _I32_CONST:
            raise _refused("has a data segment that is not active at a constant address of its memory")
        start = reader.s32() & 0xFFFFFFFF
        if reader.byte() != _END:
            raise _refused("has a data segment that is not active at a constant address of its memory")
        size = len(reader.take(reader.u32()))
        found.append(_Placed(start, start + size, section.content[begin : reader.at]))
    reader.finish()
    return found


def _refused(what: str) -> Invalid:
    return Invalid(f"The base module {what}.", field="module", code="invalid_module")


def _u32(value: int) -> bytes:
    """The shortest unsigned LEB128."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _s32(value: int) -> bytes:
    """The shortest signed LEB128 of a number that is not negative."""
    written = _u32(value)
    return written[:-1] + bytes([written[-1] | 0x80, 0]) if written[-1] & 0x40 else written
