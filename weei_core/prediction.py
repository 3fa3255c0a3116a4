"""Asking a trained model: its `predict` with one checkpoint loaded, on a fresh instance each time.

The command of a server and that of an agent say the same, so both are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weei_core import js_json, strict_json
from weei_core.assignment import loaded_files
from weei_core.errors import Conflict, Invalid
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo
from weei_core.results import parse_prediction
from weei_core.strict_json import JsonValue

JsonObject = dict[str, JsonValue]


def prediction_input(text: str | None, words: str | None) -> JsonObject:
    """The `input` of `predict` as a person gives it: JSON, or the text to continue as a shorthand for
    `{"text": …, "temperature": 0}`. Both together: the text goes into the JSON."""
    given: JsonObject = {} if text is None else strict_json.as_object(strict_json.loads(text, what="input"), "input")
    if words is None:
        if text is None:
            raise Invalid("The input must be given, as JSON or as a text; found neither.", field="input")
        return given
    if "text" in given:
        raise Invalid("The text must be given once; found one in the input's JSON too.", field="input.text")
    return {"text": words, **({"temperature": 0} if text is None else given)}


def check_predicts(info: ModelInfo) -> None:
    if not info.capabilities.inference:
        raise Conflict("The model does not declare inference.", field="capabilities.inference", code="no_inference")


def predict(
    jail: Jail, asked: Mapping[str, JsonValue], weights: InputFile, auxiliary: Mapping[str, Path] | None = None
) -> JsonObject:
    """`output` of the module. `auxiliary` holds the file of each slot by id, in declared order."""
    slots = auxiliary or {}
    task = {"operation": "predict", "auxiliary": list(slots), "input": js_json.dumps(dict(asked))}
    outcome = jail.run(task, {**loaded_files(weights.path, slots.values()), "weights": weights})
    return parse_prediction(strict_json.loads(str(outcome["result"]), what="result"))


def shown_output(output: Mapping[str, JsonValue]) -> str:
    """For a terminal: a text as it is but for characters that would steer the terminal, anything else as JSON."""
    text = output.get("text")
    if isinstance(text, str):
        return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)
    return js_json.dumps(dict(output), 2)
