"""What to ask of the generator for a data file that was only looked at: defaults that train, and sizes while one types.

Everything is a suggestion: a person changes it, and what does not fit is refused by the parts that read it.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from weei_core.errors import Invalid
from weei_core.generator.architectures import MlpArchitecture, TransformerArchitecture
from weei_core.generator.inspection.found import Column, Found
from weei_core.generator.request import CsvData, ImagesData, NpzData, PackageRequest, TokenizerRequest
from weei_core.strict_json import JsonValue

CHUNKS = 50
LEAST_RECORDS = 32
"""Of a chunk: below that moving files takes longer than training."""
ENOUGH_STEPS = 1_500
"""Optimizer steps in which a small network learns a table."""
MOST_LOCAL_EPOCHS = 10
MOST_CLASSES = 20
"""A label of more different whole numbers is a quantity."""
END_TOKEN = "<end>"
_PAIRS = (("prompt", "answer"), ("question", "answer"), ("input", "output"), ("instruction", "response"))
_PAIRS_TURNED = (("prompt", "completion"), ("instruction", "output"), ("source", "target"))
_ROW_NUMBERS = ("id", "index", "row", "nr", "no", "")

Members = dict[str, JsonValue]


def suggested(found: Found, name: str) -> Members:
    """A request, as `PackageRequest.parse` reads it."""
    text = found.format in ("text", "jsonl")
    data: Members = {"format": found.format, **_data(found)}
    lines = data.get("records") != "windows"
    request: Members = {
        "name": name,
        "architecture": _transformer() if text else {"kind": "mlp", "hidden": [64], "activation": "relu"},
        "data": data,
        "chunking": {"seed": 0, "validationShare": 0.1, **_chunking(found, windows=text and not lines)},
        "training": _text_training() if text else _table_training(found),
    }
    if text:
        request["tokenizer"] = {"kind": "bytes", "endToken": END_TOKEN if lines else None}
    return request


def _transformer() -> Members:
    return {"kind": "transformer", "context": 64, "layers": 4, "heads": 4, "width": 96, "hidden": 384}


def _data(found: Found) -> Members:
    if found.format == "text":
        return {"records": "windows"}
    if found.format == "jsonl":
        return _fields(found)
    if found.format == "npz":
        names = [column.name for column in found.columns]
        inputs = "x" if "x" in names else next((name for name in names if name != found.label), "x")
        return {"x": inputs, "y": found.label, "task": _array_task(found.column(found.label))}
    if found.format == "csv":
        return _columns(found)
    return {"width": 28, "height": 28, "channels": 1}


def _fields(found: Found) -> Members:
    names = {column.name for column in found.columns}
    for prompt, answer in (*_PAIRS, *_PAIRS_TURNED):
        if {prompt, answer} <= names:
            return {"prompt": prompt, "answer": answer}
    if "text" in names or len(found.columns) == 1:
        return {"text": "text" if "text" in names else found.columns[0].name}
    return {"prompt": found.columns[0].name, "answer": found.columns[1].name}


def _columns(found: Found) -> Members:
    label = found.column(found.label)
    quantity = label is not None and label.numbers and (not label.whole or label.distinct > MOST_CLASSES)
    members: Members = {
        "label": found.label,
        "task": "regression" if quantity else "classification",
        "delimiter": "tab" if found.delimiter == "\t" else found.delimiter,
    }
    others = [column for column in found.columns if column.name != found.label]
    inputs: list[JsonValue] = [column.name for column in others if column.numbers and not _is_row_number(column)]
    if inputs and len(inputs) < len(others):
        members["columns"] = inputs
    return members


def _is_row_number(column: Column) -> bool:
    """A column that counts the rows tells nothing about them."""
    return column.whole and column.name.lower() in _ROW_NUMBERS


def _chunking(found: Found, *, windows: bool) -> Members:
    """Windows are fewer than lines or more; their number is left to the generator."""
    return {} if windows or not found.records else {"recordsPerChunk": _records_per_chunk(found.records)}


def _records_per_chunk(records: int) -> int:
    return max(LEAST_RECORDS, ceil(records / CHUNKS))


def _text_training() -> Members:
    return {"batchSize": 16, "localEpochs": 1, "epochs": 3, "learningRate": 1e-3, "optimizer": "adamw"}


def _table_training(found: Found) -> Members:
    """A small table needs many passes, and some of them on the device, so that rounds do not take all the time."""
    batch = 16
    passes = ceil(ENOUGH_STEPS / max(1, found.records // batch))
    local = min(MOST_LOCAL_EPOCHS, max(1, ceil(passes / 5)))
    epochs = min(20, max(3, ceil(passes / local)))
    return {"batchSize": batch, "localEpochs": local, "epochs": epochs, "learningRate": 3e-3, "optimizer": "adamw"}


class Estimate(NamedTuple):
    """Sizes from what a look at the file found. `chunk_bytes`: of a chunk, about."""

    architecture: MlpArchitecture | TransformerArchitecture
    chunk_bytes: int


def estimated(request: PackageRequest, found: Found) -> Estimate:
    """The network as it will be, about: classes and vocabulary are counted exactly only when the package is made.

    Raises `Invalid` by field, as the architecture does.
    """
    per_chunk = request.chunking.records_per_chunk or _records_per_chunk(found.records)
    sizes = {**request.architecture, **request.training.module.to_json()}
    if request.tokenizer is not None:
        vocabulary = _vocabulary(request.tokenizer, found)
        transformer = TransformerArchitecture.parse({**sizes, "vocabSize": vocabulary})
        return Estimate(transformer, 16 + per_chunk * (8 + 2 * (transformer.context + 1)))
    mlp = MlpArchitecture.parse({**sizes, **_table_sizes(request, found)})
    return Estimate(mlp, 24 + per_chunk * mlp.record_bytes())


def _vocabulary(tokenizer: TokenizerRequest, found: Found) -> int:
    specials = len(tokenizer.specials) + (tokenizer.end_token is not None)
    whole_bytes = tokenizer.kind == "bytes" or (tokenizer.kind == "bpe" and tokenizer.base == "bytes")
    base = 256 if whole_bytes else max(2, found.characters)
    return base + tokenizer.merges + specials


def _table_sizes(request: PackageRequest, found: Found) -> Members:
    data = request.data
    if isinstance(data, CsvData):
        inputs = len(data.columns) if data.columns is not None else len(found.columns) - 1
        outputs = 1 if data.task == "regression" else max(2, _class_count(found, data.label))
        return {"inputs": inputs, "outputs": outputs, "task": data.task}
    if isinstance(data, NpzData):
        return _array_sizes(data, found)
    assert isinstance(data, ImagesData)
    pixels = data.width * data.height * data.channels
    return {"inputs": pixels, "outputs": max(2, len(found.classes)), "inputKind": "uint8"}


def _class_count(found: Found, label: str) -> int:
    if label == found.label and found.classes:
        return len(found.classes)
    column = found.column(label)
    if column is None:
        raise Invalid(f"data.label must be a column of the table; there is none named {label!r}.", field="data.label")
    return column.distinct


def _array_task(targets: Column | None) -> str:
    return "regression" if targets is not None and targets.numbers and not targets.whole else "classification"


def _array_sizes(data: NpzData, found: Found) -> Members:
    x, y = found.column(data.x), found.column(data.y)
    for field, name, column in (("data.x", data.x, x), ("data.y", data.y, y)):
        if column is None:
            raise Invalid(f"{field} must be an array of the file; there is none named {name!r}.", field=field)
    assert x is not None and y is not None
    kind: Members = {"inputs": max(1, prod(x.shape[1:])), "inputKind": "uint8" if x.type == "uint8" else "float32"}
    task = data.task or _array_task(y)
    # How many classes there are stands in the array, which was not read.
    outputs = 10 if task == "classification" else max(1, prod(y.shape[1:]))
    return {**kind, "task": task, "outputs": outputs}
