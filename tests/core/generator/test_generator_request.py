"""The request of a package: what is read, what is filled in, and what is refused by field."""

import pytest

from weei_core.errors import Invalid
from weei_core.generator.request import (
    CsvData,
    ImagesData,
    JsonLinesData,
    NpzData,
    PackageRequest,
    TextData,
    TokenizerRequest,
)

TEXT = {"name": "Sums", "architecture": {"kind": "transformer", "context": 32}, "data": {"format": "text"}}
TABLE = {"name": "Rows", "architecture": {"kind": "mlp"}, "data": {"format": "csv", "label": "y"}}


def read(base=TEXT, **members):
    return PackageRequest.parse({**base, **members})


def test_what_is_left_out_is_filled_in():
    request = read()
    assert request.data == TextData("windows") and request.tokenizer == TokenizerRequest("bytes")
    assert request.context == 32 and request.reads_text
    assert (request.chunking.seed, request.chunking.validation_share) == (0, 0.1)
    assert request.training.aggregation.to_json() == {"method": "fedavg"}
    table = read(TABLE)
    assert table.tokenizer is None and not table.reads_text
    assert table.built(inputs=3, outputs=2).to_json()["hidden"] == [64]


@pytest.mark.parametrize(
    "base, data, expected",
    [
        (TEXT, {"format": "text", "records": "lines"}, TextData("lines")),
        (TEXT, {"format": "jsonl"}, JsonLinesData("prompt", "answer", None)),
        (TEXT, {"format": "jsonl", "answer": "reply"}, JsonLinesData("prompt", "reply", None)),
        (TEXT, {"format": "jsonl", "text": "body"}, JsonLinesData(None, None, "body")),
        (TABLE, {"format": "csv", "label": "y", "delimiter": "tab"}, CsvData("y", delimiter="\t")),
        (
            TABLE,
            {"format": "csv", "label": "y", "columns": ["b", "a"], "task": "regression"},
            CsvData("y", "regression", ("b", "a")),
        ),
        (TABLE, {"format": "npz"}, NpzData()),
        (TABLE, {"format": "images", "width": 8, "height": 9, "channels": 3}, ImagesData(8, 9, 3)),
    ],
)
def test_every_format_has_its_options(base, data, expected):
    assert read(base, data=data).data == expected


@pytest.mark.parametrize("base, members, field, reason", [
    (TEXT, {"name": ""}, "name", "must be text that is not empty"),
    (TEXT, {"colour": 1}, "request.colour", "may hold name, architecture"),
    (TEXT, {"data": {"format": "pdf"}}, "data.format", "one of text, jsonl, csv, npz, images"),
    (TEXT, {"data": {"format": "text", "label": "y"}}, "data.label", "may hold records"),
    (TEXT, {"data": {"format": "jsonl", "text": "a", "answer": "b"}}, "data.text", "must stand alone"),
    (TEXT, {"data": {"format": "jsonl", "answer": "prompt"}}, "data.answer", "must differ"),
    (TABLE, {"data": {"format": "csv"}}, "data.label", "is missing"),
    (TABLE, {"data": {"format": "csv", "label": "y", "columns": ["a", "y"]}}, "data.columns", "not hold the label"),
    (TABLE, {"data": {"format": "csv", "label": "y", "columns": ["a", "a"]}}, "data.columns", "each column once"),
    (TABLE, {"data": {"format": "images", "channels": 2}}, "data.channels", r"must be 1 \(grey\) or 3"),
    (TABLE, {"data": {"format": "npz", "y": "x"}}, "data.y", "must differ"),
    (TEXT, {"architecture": {"kind": "mlp"}}, "architecture.kind", 'must be "transformer" for text; found "mlp"'),
    (TABLE, {"architecture": {"kind": "transformer"}}, "architecture.kind", 'must be "mlp" for tables'),
    (TEXT, {"architecture": {"kind": "transformer", "vocabSize": 9}}, "architecture.vocabSize", "may hold kind"),
    (TEXT, {"architecture": {"kind": "transformer", "width": 10, "heads": 3}}, "architecture.width", "multiple"),
    (TABLE, {"architecture": {"kind": "mlp", "hidden": [0]}}, "architecture.hidden[0]", "from 1 to"),
    (TABLE, {"tokenizer": {"kind": "bytes"}}, "tokenizer", "must be left out"),
    (TEXT, {"tokenizer": {"kind": "bpe"}}, "tokenizer.merges", "is missing"),
    (TEXT, {"tokenizer": {"kind": "characters", "merges": 5}}, "tokenizer.merges", 'belongs to kind "bpe"'),
    (TEXT, {"tokenizer": {"kind": "bytes", "endToken": ""}}, "tokenizer.endToken", "not empty"),
    (TEXT, {"chunking": {"recordsPerChunk": 0}}, "chunking.recordsPerChunk", "from 1 to"),
    (TEXT, {"chunking": {"validationShare": 1}}, "chunking.validationShare", "from 0 to 0.9"),
    (TEXT, {"chunking": {"seed": "01"}}, "chunking.seed", "without leading zeros"),
    (TEXT, {"training": {"learningRate": 0}}, "training.learningRate", "from 1e-09"),
    (TEXT, {"training": {"momentum": 0.9}}, "training.momentum", "may hold batchSize"),
    (TEXT, {"training": {"aggregation": {"method": "mean"}}}, "training.aggregation.method", "one of fedavg"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_field(base, members, field, reason):
    with pytest.raises(Invalid, match=reason) as refused:
        read(base, **members)
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["name", "architecture", "data"])
def test_what_is_missing_is_named(name):
    with pytest.raises(Invalid, match=f"^{name} is missing"):
        PackageRequest.parse({key: value for key, value in TEXT.items() if key != name})


def test_a_seed_may_be_text_beyond_what_a_double_holds():
    assert read(chunking={"seed": "18446744073709551615"}).chunking.seed == 2**64 - 1
