"""Settings as they are typed: `--set key=value` over a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weei_cli.outcomes import usage
from weei_core import strict_json
from weei_core.errors import WeeiError

MAX_SETTINGS_BYTES = 64 * 1024
TEXTS = frozenset({"seed"})
"""Settings whose digits are text, because JSON's numbers do not hold them."""


def changes(pairs: Sequence[str], into: dict[str, Any] | None = None) -> dict[str, Any]:
    """`epochs=3` and `aggregation.method=fedadam`, set in `into`. A value is JSON where it reads as such, else text."""
    settings = into if into is not None else {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise usage(f"--set must be KEY=VALUE, such as epochs=3; found {pair!r}.")
        place = settings
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise usage(f"--set {pair}: {name} has no parts.")
        place[names[-1]] = text if path.strip() in TEXTS else _value(text)
    return settings


def _value(text: str) -> Any:
    try:
        return strict_json.loads(text.encode(), what="value")
    except WeeiError:
        return text


def settings_file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    if len(data) > MAX_SETTINGS_BYTES:
        raise usage(f"{path} has {len(data)} bytes; a file of settings has at most {MAX_SETTINGS_BYTES}.")
    try:
        found: dict[str, Any] = dict(strict_json.as_object(strict_json.loads(data, what=str(path)), str(path)))
    except WeeiError as error:
        raise usage(error.message) from None
    return found
