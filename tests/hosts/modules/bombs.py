"""Modules made to be expensive before any of their code runs. Generated, because they are megabytes long."""

from __future__ import annotations


def _number(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _section(kind: int, count: int, items: bytes) -> bytes:
    body = _number(count) + items
    return bytes([kind]) + _number(len(body)) + body


_HEAD = b"\0asm\1\0\0\0"
_ONE_TYPE = _section(1, 1, b"\x60\0\0")


def empty_functions(count: int) -> bytes:
    """`count` functions that do nothing: about 110 s and 4.7 GiB of compilation for 900,000."""
    return _HEAD + _ONE_TYPE + _section(3, count, bytes(count)) + _section(10, count, b"\2\0\x0b" * count)


def jump_tables(tables: int, targets: int, depth: int = 100) -> bytes:
    """One function with `tables` jump tables of `targets` entries each, over `depth` nested blocks."""
    spread = bytes(index % depth for index in range(targets))
    table = b"\x20\0" + b"\x0e" + _number(targets) + spread + b"\0"  # local.get 0, br_table
    body = b"\0" + (b"\x02\x40" * depth + table + b"\x0b" * depth) * tables + b"\x0b"
    takes_index = _section(1, 1, b"\x60\1\x7f\0")
    return _HEAD + takes_index + _section(3, 1, b"\0") + _section(10, 1, _number(len(body)) + body)


def types(count: int) -> bytes:
    return _HEAD + _section(1, count, b"\x60\0\0" * count)


def data_segments(count: int) -> bytes:
    return _HEAD + _section(5, 1, b"\1\1\1") + _section(11, count, b"\0\x41\0\x0b\0" * count)


BOMBS = {
    "900,000 functions": lambda: empty_functions(900_000),
    "jump tables": lambda: jump_tables(28, 65_000),
    "1,000,000 types": lambda: types(1_000_000),
    "1,000,000 data segments": lambda: data_segments(1_000_000),
}
