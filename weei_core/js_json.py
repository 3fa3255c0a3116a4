"""JSON text exactly as JavaScript's `JSON.stringify` writes it.

Hashes of inline package files and the bits a module computes depend on the bytes of JSON text, so that every host
must write the same ones. Standard library only: a jailed child imports this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from weei_core.errors import Invalid

_EXACT_INT = 2**53
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_ARRAY_INDEX = 2**32 - 2
# Lone surrogates are the only characters beyond what JSON itself demands that JavaScript escapes.
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


def dumps(value: object, indent: int | None = None) -> str:
    """`JSON.stringify(value, null, indent)` for None, bool, int, float, str, list, tuple and str-keyed mappings."""
    return _write(value, " " * min(indent or 0, 10), "\n")


def inline_text(value: object) -> bytes:
    """The bytes of an inline file of a model package: indented by two, with one line feed behind."""
    return (dumps(value, 2) + "\n").encode()


def _write(value: object, step: str, line: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    inner = line + step
    if isinstance(value, Mapping):
        colon = ": " if step else ":"
        members = [_text(key) + colon + _write(value[key], step, inner) for key in _javascript_order(value)]
        return _wrap("{", members, "}", step, line)
    if isinstance(value, (list, tuple)):
        return _wrap("[", [_write(item, step, inner) for item in value], "]", step, line)
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def _wrap(opening: str, items: list[str], closing: str, step: str, line: str) -> str:
    if not step or not items:
        return opening + ",".join(items) + closing
    inner = line + step
    return opening + inner + ("," + inner).join(items) + line + closing


def _javascript_order(members: Mapping[str, object]) -> list[str]:
    """Keys that are array indices come first, in numeric order; the others keep the order of their making."""
    indices = [key for key in members if _ARRAY_INDEX.fullmatch(key) and int(key) <= _MAX_ARRAY_INDEX]
    if not indices:
        return list(members)
    chosen = set(indices)
    return sorted(indices, key=int) + [key for key in members if key not in chosen]


def _text(text: str) -> str:
    return _SURROGATES.sub(_surrogates, json.dumps(text, ensure_ascii=False))


def _surrogates(found: re.Match[str]) -> str:
    units = found[0]
    if len(units) == 2:
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return f"\\u{ord(units):04x}"


def _number(number: int | float) -> str:
    if isinstance(number, int):
        if abs(number) <= _EXACT_INT:
            return str(int(number))
        return _number(_as_double(number))
    if not math.isfinite(number):
        raise Invalid(f"JSON has no form for the number {number}.", code="invalid_json")
    return _double(number) if number else "0"


def _as_double(number: int) -> float:
    try:
        double = float(number)
    except OverflowError:
        double = math.inf
    if double != number:
        raise Invalid("JSON numbers are doubles, and none holds this whole number exactly.", code="invalid_json")
    return double


def _double(number: float) -> str:
    """ECMA-262, Number::toString: the shortest digits that read back to `number`, placed by its own rules."""
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)  # where the decimal point stands, counted from the first digit
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"
