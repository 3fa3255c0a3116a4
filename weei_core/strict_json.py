"""The one reader for JSON that comes from outside, and typed accessors for what it holds.

Python's `json` takes NaN, repeated keys, lone surrogates, NUL and numbers that no double holds; other readers, and
the database, do not. Text that passes here means the same everywhere. Standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import TypeAlias

from weei_core import js_json
from weei_core.errors import Invalid

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"

EXACT_INT = 2**53
"""Every whole number up to this size is a double of its own."""

_BOM = "\ufeff"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_SHOWN_CHARACTERS = 60


class _Refused(ValueError):
    """Raised by the parser's hooks; `loads` puts the name of the text in front."""


def loads(data: bytes | str, *, what: str = "JSON", max_depth: int = 32) -> JsonValue:
    """Parse `data` (UTF-8 without BOM) or raise `Invalid` with code "invalid_json".

    Whole numbers within ±2**53 become int, all other numbers float. `max_depth` counts nested arrays and objects.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        if text.startswith(_BOM):
            raise _Refused("it starts with a byte order mark; save it as UTF-8 without BOM")
        value: JsonValue = _DECODER.decode(text)
        _check_depth_and_text(value, max_depth)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        reason = f"it is nested more than {max_depth} levels deep"
    except _Refused as error:
        reason = str(error)
    else:
        return value
    raise Invalid(f"{what} is not valid JSON: {reason}.", field=what, code="invalid_json")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {shown(key)} appears twice in one object")
            seen.add(key)
    return members


def _integer(literal: str) -> int | float:
    # 17 characters hold every number within ±2**53 and keep int() away from its limit on digits.
    if len(literal) <= 17 and abs(int(literal)) <= EXACT_INT:
        return int(literal)
    double = _float(literal)
    # JavaScript fills the shortest digits up with zeros, so that its own text for 2**64 is not 2**64 exactly.
    if int(double) != int(literal) and js_json.dumps(double) != literal:
        raise _Refused(f"no double holds the whole number {literal[:_SHOWN_CHARACTERS]} exactly")
    return double


def _float(literal: str) -> float:
    double = float(literal)
    if math.isinf(double):
        raise _Refused(f"the number {literal[:_SHOWN_CHARACTERS]} is too large for a double")
    return double


def _constant(name: str) -> JsonValue:
    raise _Refused(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant, strict=True
)


def _check_depth_and_text(value: JsonValue, max_depth: int) -> None:
    level = [value]
    depth = 0
    while level:
        deeper: list[JsonValue] = []
        containers = False
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                containers = True
                for key in item:
                    _check_text(key)
                deeper.extend(item.values())
            elif isinstance(item, list):
                containers = True
                deeper.extend(item)
        depth += containers
        if depth > max_depth:
            raise _Refused(f"it is nested more than {max_depth} levels deep")
        level = deeper


def _check_text(text: str) -> None:
    found = _UNSTORABLE.search(text)
    if found:
        raise _Refused(f"a text holds {_character_name(found[0])}")


def _character_name(character: str) -> str:
    return "a NUL character" if character == "\0" else f"the lone surrogate U+{ord(character):04X}"


def shown(value: object) -> str:
    """`value` as an error message shows it: JSON-like, one line, short, safe to encode."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return _UNSTORABLE.sub("\ufffd", json.dumps(cut, ensure_ascii=False))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**_SHOWN_CHARACTERS else "a number of more than 60 digits"
    return f"a value of type {type(value).__name__}"


def _wrong(field: str, allowed: str, value: object) -> Invalid:
    return Invalid(f"{field} must be {allowed}; found {shown(value)}.", field=field)


def as_int(value: object, field: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`. 3.0 is 3, as it is for JavaScript; true and "3" are not numbers."""
    # The range comes first: it keeps NaN and the infinities away from int().
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high and int(value) == value:
        return int(value)
    raise _wrong(field, f"a whole number from {low} to {high}", value)


def as_number(value: object, field: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number from `low` to `high`, both included."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and low <= number <= high:
            return number
    bounds = "" if low == -math.inf and high == math.inf else f" from {low:g} to {high:g}"
    raise _wrong(field, f"a finite number{bounds}", value)


def as_text(value: object, field: str, max_bytes: int, *, allow_empty: bool = False) -> str:
    """Text of at most `max_bytes` in UTF-8 that a database can hold."""
    if not isinstance(value, str):
        raise _wrong(field, "text", value)
    unstorable = _UNSTORABLE.search(value)
    if unstorable:
        raise Invalid(f"{field} must be plain text; found {_character_name(unstorable[0])} in it.", field=field)
    if not value and not allow_empty:
        raise _wrong(field, "text that is not empty", value)
    size = len(value.encode())
    if size > max_bytes:
        raise Invalid(f"{field} must be at most {max_bytes} bytes of text; found {size}.", field=field)
    return value


def as_bool(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, "true or false", value)
    return value


def as_object(value: object, field: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _wrong(field, "an object", value)
    return value


def as_list(value: object, field: str, max_items: int | None = None) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _wrong(field, "a list", value)
    if max_items is not None and len(value) > max_items:
        raise Invalid(f"{field} must hold at most {max_items} entries; found {len(value)}.", field=field)
    return value


def as_choice(value: object, field: str, choices: Collection[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _wrong(field, f"one of {', '.join(choices)}", value)
    return value


def as_sha256(value: object, field: str) -> str:
    """64 hexadecimal digits in any case, returned in lower case."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _wrong(field, "a SHA-256 of 64 hexadecimal digits", value)
    return value.lower()


def refuse_unknown(members: dict[str, JsonValue], field: str, allowed: Collection[str]) -> None:
    """For API bodies, settings and messages; files keep what they do not know, so that newer ones load."""
    for key in members:
        if key not in allowed:
            names = ", ".join(allowed) or "no fields"
            raise Invalid(f"{field} may hold {names}; found {shown(key)}.", field=f"{field}.{key}"[:200])
