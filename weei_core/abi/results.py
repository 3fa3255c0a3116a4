"""Reading what a module returns. It is untrusted: each result is checked before anybody looks at it.

Standard library only.
"""

from __future__ import annotations

from weei_core import js_json, strict_json
from weei_core.abi.codes import refusal
from weei_core.abi.limits import MAX_REASON_CHARACTERS
from weei_core.errors import Invalid
from weei_core.strict_json import JsonValue

JsonObject = dict[str, JsonValue]

_EXACT = strict_json.EXACT_INT
_MAX_U32 = 2**32 - 1


def parse_result(data: bytes, operation: str, model_id: str = "") -> JsonObject:
    """The object in `data`. Raises `ModelError` invalid_result, or module_error when it is `{error}`."""
    try:
        value = strict_json.loads(data, what=f"{operation} result")
        if not isinstance(value, dict):
            raise Invalid(f"{operation} result must be an object; found {strict_json.shown(value)}.")
    except Invalid as error:
        raise invalid(operation, error) from error
    if "error" in value:
        raise refusal("module_error", _reason(operation, model_id, value["error"]), operation=operation)
    return value


def invalid(operation: str, error: Invalid) -> Exception:
    return refusal("invalid_result", error.message, operation=operation, field=error.field)


def _reason(operation: str, model_id: str, reason: JsonValue) -> str:
    """The module's own words as they stand; anything but words is quoted, so that the sentence is never empty."""
    if isinstance(reason, str) and reason.strip():
        return reason[:MAX_REASON_CHARACTERS]
    raw = js_json.dumps(reason)[:MAX_REASON_CHARACTERS]
    return f"{operation} was refused by module {model_id or '(not named yet)'} without a reason (error: {raw})."


def region_numbers(value: JsonValue, operation: str, field: str) -> tuple[int, int]:
    """`{pointer, bytes}`, both unsigned 32-bit."""
    try:
        members = strict_json.as_object(value, field)
        pointer = strict_json.as_int(members.get("pointer"), f"{field}.pointer", 0, _MAX_U32)
        return pointer, strict_json.as_int(members.get("bytes"), f"{field}.bytes", 0, _MAX_U32)
    except Invalid as error:
        raise invalid(operation, error) from error


def check_counts(value: JsonObject, operation: str) -> None:
    """Metrics and counts of `train` and `evaluate`. A metric may be null: a number that was not finite."""
    try:
        for name, metric in strict_json.as_object(value.get("metrics"), "metrics").items():
            if metric is not None:
                strict_json.as_number(metric, f"metrics.{name}"[:200])
        strict_json.as_int(value.get("examplesProcessed"), "examplesProcessed", 0, _EXACT)
        if operation == "train":
            strict_json.as_int(value.get("uniqueExamples"), "uniqueExamples", 0, _EXACT)
            if value.get("optimizerSteps") is not None:
                strict_json.as_int(value["optimizerSteps"], "optimizerSteps", 0, _EXACT)
    except Invalid as error:
        raise invalid(operation, error) from error


def example_count(value: JsonObject) -> int:
    try:
        return strict_json.as_int(value.get("exampleCount"), "exampleCount", 0, _EXACT)
    except Invalid as error:
        raise invalid("inspectData", error) from error


def output_of(value: JsonObject) -> JsonObject:
    try:
        return strict_json.as_object(value.get("output"), "output")
    except Invalid as error:
        raise invalid("predict", error) from error
