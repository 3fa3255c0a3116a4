"""Compares JSON with the founding text's interfaces (tests/golden/state.json). Twin of tests/js/interfaces.js."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "state.json").read_text(encoding="utf-8"))


def fields_of(name: str) -> dict[str, Any]:
    """Of one interface on the wire: field → type; what may be absent ends in `?`."""
    found = {**GOLDEN["founding"].get(name, {}), **GOLDEN["ours"].get(name, {}), **GOLDEN["wire"].get(name, {})}
    return {field: kind for field, kind in found.items() if kind is not None}


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


SCALARS = {
    "text": lambda v: isinstance(v, str),
    "flag": lambda v: isinstance(v, bool),
    "true": lambda v: v is True,
    "number": _number,
    "count": _count,
    "bytes": _count,
    "ms": lambda v: _number(v) and v >= 0,
    "seconds": lambda v: _number(v) and v >= 0,
    "epochMs": lambda v: _number(v) and 10**12 <= v < 10**13,
    "sha256": lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) is not None,
}


def differences(value: Any, kind: Any, at: str = "") -> list[str]:
    """What does not fit, as sentences."""
    if isinstance(kind, str):
        if kind in SCALARS:
            return [] if SCALARS[kind](value) else [f"{at}: {value!r} is no {kind}"]
        return [] if kind in GOLDEN["elsewhere"] else _object(value, kind, at)
    ((rule, inner),) = kind.items()
    if rule == "oneOf":
        return [] if value in inner else [f"{at}: {value!r} is none of {inner}"]
    if rule == "maybe":
        return [] if value is None else differences(value, inner, at)
    if not isinstance(value, dict if rule == "byKey" else list):
        return [f"{at}: {value!r} is no {rule}"]
    items: Iterable[tuple[Any, Any]] = value.items() if rule == "byKey" else enumerate(value)
    return [found for key, item in items for found in differences(item, inner, f"{at}[{key}]")]


def _object(value: Any, name: str, at: str) -> list[str]:
    fields = fields_of(name)
    if not isinstance(value, dict):
        return [f"{at}: {value!r} is no {name}"]
    known = {field.rstrip("?"): kind for field, kind in fields.items()}
    missing = [f"{at}.{field}: missing" for field in fields if field not in value and not field.endswith("?")]
    unknown = [f"{at}.{field}: not in {name}" for field in value if field not in known]
    return [
        *missing,
        *unknown,
        *(d for field, v in value.items() if field in known for d in differences(v, known[field], f"{at}.{field}")),
    ]
