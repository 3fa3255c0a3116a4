"""What modules return and what participants report, read without trust."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weei_core import abi_schema
from weei_core.errors import Invalid, ModelError
from weei_core.schema_types import MODEL, validate
from weei_core.strict_json import EXACT_INT, JsonValue, as_int, as_number, as_object, refuse_unknown

MAX_ERROR_CHARACTERS = 500
MAX_METRIC_KEYS = 64

# What JavaScript makes of a thrown value that is no error, and other texts that tell nothing.
_NO_REASON = re.compile(r"\s*(\[object \w+\]|undefined|null|unknown|[-+]?[0-9.]+)?\s*", re.IGNORECASE)
_UNSHOWABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class TrainResult:
    """`unique_examples` weighs the update in the average; 0, in experience jobs only, keeps it out."""

    pointer: int
    bytes: int
    metrics: dict[str, float]
    examples_processed: int
    unique_examples: int
    optimizer_steps: int | None


@dataclass(frozen=True)
class Evaluation:
    metrics: dict[str, float]
    examples_processed: int


@dataclass(frozen=True)
class UpdateReport:
    """What a participant tells about its update. `round` is None when the report names none."""

    round: int | None
    metrics: dict[str, float]
    examples_processed: int
    unique_examples: int
    optimizer_steps: int | None


def parse_train_result(
    value: object, *, assigned: int, experience: bool, declared_metrics: Collection[str]
) -> TrainResult:
    """`assigned`: records or units of the assignment, which no result can exceed."""
    found = _result(abi_schema.TrainResult, value, "train")
    try:
        unique = _unique_examples(found.unique_examples, "train.uniqueExamples", assigned, experience)
    except Invalid as error:
        raise _broken("train", error) from None
    return TrainResult(
        pointer=found.weights.pointer,
        bytes=found.weights.bytes,
        metrics=usable_metrics(found.metrics, declared_metrics),
        examples_processed=found.examples_processed,
        unique_examples=unique,
        optimizer_steps=found.optimizer_steps,
    )


def parse_evaluation(value: object, declared_metrics: Collection[str]) -> Evaluation:
    found = _result(abi_schema.EvaluateResult, value, "evaluate")
    return Evaluation(usable_metrics(found.metrics, declared_metrics), found.examples_processed)


def parse_inspection(value: object) -> int:
    """The number of examples that the module finds in a chunk."""
    return _result(abi_schema.InspectDataResult, value, "inspectData").example_count


def parse_prediction(value: object) -> dict[str, JsonValue]:
    return _result(abi_schema.PredictResult, value, "predict").output


def parse_report(value: object, *, assigned: int, experience: bool, declared_metrics: Collection[str]) -> UpdateReport:
    """The report that comes with an uploaded update; `Invalid` with code "invalid_report" for what is refused."""
    try:
        return _report(as_object(value, "report"), assigned, experience, declared_metrics)
    except Invalid as error:
        raise Invalid(error.message, field=error.field, code="invalid_report") from None


def _report(
    members: dict[str, JsonValue], assigned: int, experience: bool, declared_metrics: Collection[str]
) -> UpdateReport:
    refuse_unknown(members, "report", ("round", "examplesProcessed", "uniqueExamples", "metrics", "optimizerSteps"))
    metrics = as_object(members.get("metrics"), "report.metrics")
    if len(metrics) > MAX_METRIC_KEYS:
        raise Invalid(
            f"report.metrics must hold at most {MAX_METRIC_KEYS} values; found {len(metrics)}.", field="report.metrics"
        )
    round_, steps = members.get("round"), members.get("optimizerSteps")
    return UpdateReport(
        round=None if round_ is None else as_int(round_, "report.round", 1, EXACT_INT),
        metrics=usable_metrics({name: _metric(metrics[name], name) for name in metrics}, declared_metrics),
        examples_processed=as_int(members.get("examplesProcessed"), "report.examplesProcessed", 0, EXACT_INT),
        unique_examples=_unique_examples(members.get("uniqueExamples"), "report.uniqueExamples", assigned, experience),
        optimizer_steps=None if steps is None else as_int(steps, "report.optimizerSteps", 0, EXACT_INT),
    )


def _metric(value: object, name: str) -> float | None:
    """null is what JSON.stringify makes of a number that is not finite; such numbers themselves pass here too."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return as_number(value, f"report.metrics.{name}"[:200])


def _unique_examples(value: object, field: str, assigned: int, experience: bool) -> int:
    return as_int(value, field, 0 if experience else 1, assigned)


def usable_metrics(metrics: Mapping[str, float | None], declared: Collection[str]) -> dict[str, float]:
    """Values of declared ids that are finite; the others are left out, never shown as 0."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if name in declared and value is not None and math.isfinite(value)
    }


def _result(model: type[MODEL], value: object, operation: str) -> MODEL:
    """`value` as the operation's result, or `ModelError`: the module's own refusal, or what does not fit."""
    if isinstance(value, dict) and "error" in value:
        raise ModelError(module_error_text(value, operation=operation), operation=operation)
    try:
        return validate(model, value, operation)
    except Invalid as error:
        raise _broken(operation, error) from None


def _broken(operation: str, error: Invalid) -> ModelError:
    return ModelError(
        f"The module's answer to {operation} does not fit: {error.message}", operation=operation, field=error.field
    )


def module_error_text(value: object, *, operation: str = "", model_id: str = "") -> str:
    """The reason out of a module's `{error}`, or out of whatever it threw, as text that can be stored and shown.

    A reason in words stands as the module gave it. Anything else becomes a sentence with the place and the raw value.
    """
    reason = value.get("error") if isinstance(value, Mapping) and "error" in value else value
    if isinstance(reason, str) and not _NO_REASON.fullmatch(reason):
        return _shortened(reason.strip())
    place = f" in {operation}" if operation else ""
    model = f"Model {model_id}" if model_id else "The model"
    return _shortened(f"{model} failed{place} without a reason in words; it gave {_raw(reason)}.")


def _raw(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str) and value.strip().startswith("[object "):
        return "an object"
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"


def _shortened(text: str) -> str:
    clean = _UNSHOWABLE.sub("\ufffd", text)
    return clean if len(clean) <= MAX_ERROR_CHARACTERS else clean[: MAX_ERROR_CHARACTERS - 1] + "…"
