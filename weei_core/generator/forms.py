"""`ModelInfo.inference`: what `predict` of a made package takes and gives, for the page that asks a trained model."""

from __future__ import annotations

from collections.abc import Sequence

from weei_core import js_json
from weei_core.strict_json import JsonValue

MAX_NAMES_BYTES = 32 * 1024
"""Of the names of a table's columns: ModelInfo is part of every checkpoint."""

Members = dict[str, JsonValue]


def text_form(context: int, vocabulary: int) -> Members:
    return {
        "input": {"kind": "text", "label": "Text", "maxTokens": context},
        "inputs": [
            {"id": "text", "label": "Text to continue", "type": "text"},
            {"id": "maxTokens", "label": "Tokens at most", "type": "integer"}
            | {"minimum": 1, "maximum": context, "value": min(64, context)},
            {"id": "temperature", "label": "Temperature (0: always the likeliest)", "type": "number"}
            | {"minimum": 0, "maximum": 10, "value": 0.8},
            {"id": "topK", "label": "Likeliest tokens (0: all)", "type": "integer"}
            | {"minimum": 0, "maximum": vocabulary, "value": min(40, vocabulary)},
            {"id": "seed", "label": "Seed", "type": "seed"},
        ],
        "outputs": [
            {"id": "text", "label": "Continuation", "type": "text"},
            {"id": "stopped", "label": "Stopped by", "type": "text"},
        ],
    }


def row_form(columns: Sequence[str], shape: tuple[int, int, int] | None, *, regression: bool) -> Members:
    """`shape`: (height, width, channels) of pictures; None for rows of a table."""
    values: Members = {"id": "values", "label": "Values", "type": "numbers", "count": len(columns)}
    if shape is None:
        form: Members = {"kind": "row", "count": len(columns)}
        if len(js_json.dumps(list(columns)).encode()) <= MAX_NAMES_BYTES:
            form["columns"] = list(columns)
            values["names"] = list(columns)
    else:
        height, width, channels = shape
        form = {"kind": "image", "width": width, "height": height, "channels": channels}
        values |= {"label": "Picture", "minimum": 0, "maximum": 255}
        if channels == 1:
            values["columns"] = width
    outputs: list[JsonValue] = [
        {"id": "label", "label": "Class", "type": "text"},
        {"id": "probabilities", "label": "Probabilities", "type": "numbers"},
    ]
    if regression:
        outputs = [{"id": "values", "label": "Values", "type": "numbers"}]
    return {"input": form, "inputs": [values], "outputs": outputs}
