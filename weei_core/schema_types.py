"""Field types for the pydantic models of files and module results, and their errors as sentences.

Nothing is guessed: true is not 1 and "3" is not 3, while 3.0 is 3 as in JavaScript.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from weei_core.errors import Invalid
from weei_core.seeds import parse_seed
from weei_core.strict_json import EXACT_INT, shown

MODEL = TypeVar("MODEL", bound=BaseModel)

MAX_FILE_NAME_BYTES = 255

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SHA256 = "^[0-9a-fA-F]{64}$"
_SEED = "^(0|[1-9][0-9]{0,19})$"


class Loose(BaseModel):
    """An object whose unknown fields are ignored, so that newer files and modules load. camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Exact(BaseModel):
    """An object that holds its fields and nothing else."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(text: str) -> str:
    found = _CONTROL.search(text)
    if found:
        raise ValueError(f"must be text without control characters; found U+{ord(found[0]):04X} in it")
    return text


def _bare_name(name: str) -> str:
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"must be a bare file name without a path; found {shown(name)}")
    size = len(name.encode())
    if size > MAX_FILE_NAME_BYTES:
        raise ValueError(f"must be at most {MAX_FILE_NAME_BYTES} bytes long; found {size}")
    return name


def _chunk_id(text: str) -> str:
    size = len(text.encode())
    if size > 64:
        raise ValueError(f"must be at most 64 bytes long; found {size}")
    return text


def _seed(text: str) -> str:
    parse_seed(text, "seed")
    return text


# Behind the bounds of a number: pydantic leaves bounds that follow a validator out of the JSON Schema.
WHOLE = BeforeValidator(_whole)

Count = Annotated[int, Strict(), Field(ge=0, le=EXACT_INT), WHOLE]
Positive = Annotated[int, Strict(), Field(ge=1, le=EXACT_INT), WHOLE]
Size = Annotated[int, Strict(), Field(ge=1, le=2**32 - 1), WHOLE]
"""Bytes of something that a module can address."""
Address = Annotated[int, Strict(), Field(ge=0, le=2**32 - 1), WHOLE]
One = Annotated[int, Strict(), Field(ge=1, le=1), WHOLE]
"""For `abiVersion` and `schemaVersion`."""
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]

Text = Annotated[str, Strict(), Field(min_length=1, max_length=200), AfterValidator(_plain)]
"""A name or label: shown escaped, never trusted."""
ShortId = Annotated[str, Strict(), Field(min_length=1), AfterValidator(_plain), AfterValidator(_chunk_id)]
"""At most 64 bytes."""
FileName = Annotated[str, Strict(), Field(min_length=1), AfterValidator(_plain), AfterValidator(_bare_name)]
Sha256 = Annotated[str, Strict(), Field(pattern=_SHA256), AfterValidator(str.lower)]
SeedText = Annotated[str, Strict(), Field(pattern=_SEED), AfterValidator(_seed)]


class FileRef(Loose):
    """A file as a package names it."""

    file_name: FileName
    bytes: Positive
    sha256: Sha256


_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "model_type": "an object",
    "dict_type": "an object",
    "tuple_type": "a list",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length} characters long",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
}
_PATTERNS = {
    _SHA256: "a SHA-256 of 64 hexadecimal digits",
    _SEED: "decimal digits from 0 to 18446744073709551615 without leading zeros",
}


def validate(model: type[MODEL], value: object, field: str) -> MODEL:
    """`value` as `model`, or `Invalid` with one sentence about the first field that does not fit.

    `field` stands in front of the path in the sentence ("" when the path says enough).
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    where = path_of(first["loc"], field)
    raise Invalid(f"{where or 'It'} {_reason(first)}.", field=where[:200])


def path_of(location: tuple[int | str, ...], field: str = "") -> str:
    """("metrics", 0, "id") as `field.metrics[0].id`."""
    path = field
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    return path


def _reason(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not a known field"
    if kind == "value_error":
        return str(context["error"])
    expected = _expected(kind, context, error["msg"])
    found = context["actual_length"] if kind in ("too_short", "too_long") else shown(error["input"])
    return f"must be {expected}; found {found}"


def _expected(kind: str, context: dict[str, Any], fallback: str) -> str:
    if kind == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    template = _EXPECTED.get(kind)
    return template.format(**context) if template else fallback
