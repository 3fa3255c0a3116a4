"""What a configured transformer refuses: always one sentence that names the field, never a trap."""

import json
import struct

import pytest

from tests.models import transformer
from weei_core.generator.tokenizers import Tokenizer

MODEL = transformer.Model(transformer.architecture())
START = MODEL.initial_weights()
RECORDS = [([1, 2, 3, 4], 0), ([5, 6, 7], 2), ([8, 9], 1)]
GOOD = transformer.chunk_of(RECORDS)
TOKENS_AT = 16 + 8 * len(RECORDS)
SETTINGS = {"localEpochs": 1, "batchSize": 2, "learningRate": 0.05}


@pytest.fixture
def driver():
    return MODEL.instance(START)


def request(driver, **changes):
    return {"data": transformer.data_of(driver, GOOD), "settings": SETTINGS, "round": 1, "seed": "3", **changes}


def refused(result, *parts):
    assert list(result) == ["error"]
    assert all(part in result["error"] for part in parts), result


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"settings": {}}, ["settings.localEpochs is missing"]),
        ({"settings": {**SETTINGS, "localEpochs": 0}}, ["settings.localEpochs is 0", "1 to 100000"]),
        ({"settings": {**SETTINGS, "batchSize": 1.5}}, ["settings.batchSize is 1.5", "integers"]),
        ({"settings": {**SETTINGS, "learningRate": 0}}, ["settings.learningRate is 0"]),
        ({"seed": 3}, ["seed is not an unsigned 64-bit integer"]),
        ({"round": 0}, ["round is 0"]),
        ({"data": None}, ["data is not an object"]),
        ({"data": {"pointer": 16, "bytes": 64, "format": "weei-tokens"}}, ["data is not in memory that alloc gave"]),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(driver, changes, parts):
    refused(driver.run("train", request(driver, **changes)), *parts)


@pytest.mark.parametrize("field", ["data", "settings", "round", "seed"])
def test_a_missing_field_is_named(driver, field):
    whole = request(driver)
    del whole[field]
    refused(driver.run("train", whole), f"{field} is missing")


def test_another_format_is_refused(driver):
    data = {**transformer.data_of(driver, GOOD), "format": "weei-rows"}
    refused(driver.run("inspectData", {"data": data}), "data.format is not weei-tokens")


def header(magic=b"WTOK", version=1, records=3, vocabulary=256):
    return struct.pack("<4sIII", magic, version, records, vocabulary)


def record(index, *fields):
    at = 16 + 8 * index
    return GOOD[:at] + struct.pack("<IHH", *fields) + GOOD[at + 8 :]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "data has 0 bytes, the header alone has 16"),
        (GOOD[:12], "data has 12 bytes"),
        (GOOD[:-1], "allowed: multiples of 4"),
        (header(magic=b"WROW") + GOOD[16:], "does not begin with WTOK"),
        (header(version=2) + GOOD[16:], "data has version 2, allowed: 1"),
        (header(vocabulary=255) + GOOD[16:], "data has a vocabulary of 255 tokens, this model has 256"),
        (header(records=0) + GOOD[16:], "data has 0 records"),
        (header(records=6) + GOOD[16:], "data has 6 records, allowed in 60 bytes: 1 to 5"),
        (header(records=2**32 - 1) + GOOD[16:], "records, allowed in 60 bytes: 1 to 5"),
        (record(0, 0, 1, 0), "record 0 has 1 tokens, allowed: 2 to 17"),
        (record(0, 0, 18, 0), "record 0 has 18 tokens, allowed: 2 to 17"),
        (record(1, 9, 3, 0), "record 1 ends at token 12, the file has 10"),
        (record(1, 2**32 - 1, 3, 0), "record 1 ends at token 4.29"),
        (record(2, 0, 3, 3), "record 2 has no target: its loss begins at 3 of 3 tokens"),
        (GOOD[:TOKENS_AT] + b"\0\1" + GOOD[TOKENS_AT + 2 :], "token 0 is 256, allowed: 0 to 255"),
        (GOOD[:-2] + b"\xff\xff", "token 9 is 65535"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("operation", ["train", "evaluate", "inspectData"])
def test_a_malformed_file_is_refused(driver, operation, content, part):
    refused(driver.run(operation, request(driver, data=transformer.data_of(driver, content))), part)


def test_a_range_outside_the_file_is_refused(driver):
    data = transformer.data_of(driver, GOOD, recordStart=1, recordCount=3)
    refused(driver.run("train", request(driver, data=data)), "is 4, the file has 3 records")


@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (START[:-4], f"weights has {len(START) - 4} bytes, this model has {len(START)}"),
        (START[:-4] + struct.pack("<f", float("nan")), "not finite"),
        (struct.pack("<f", float("inf")) + START[4:], "not finite"),
    ],
)
def test_weights_of_another_model_are_not_loaded(weights, part):
    driver = MODEL.instance()
    refused(driver.run("loadModel", {"weights": driver.put(weights)}), part)
    refused(driver.run("train", request(driver)), "call loadModel first")


def test_a_training_that_diverges_returns_no_weights(driver):
    wild = transformer.Model(transformer.architecture(optimizer="sgd", clipNorm=0)).instance(START)
    settings = {"localEpochs": 500, "batchSize": 1, "learningRate": 100}
    refused(wild.run("train", request(wild, settings=settings)), "training diverged", "settings.learningRate")
    refused(wild.run("train", request(wild)), "call loadModel first")
    wild.load(START)
    assert "weights" in wild.run("train", request(wild))


def test_weights_without_use_are_not_evaluated(driver):
    driver.load(struct.pack("<f", 3e38) * (len(START) // 4))
    refused(driver.run("evaluate", request(driver)), "not finite")
    refused(driver.run("predict", {"input": {"text": "a"}}), "not finite")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"text": None}, "input.text is not a string"),
        ({"text": ["a"]}, "input.text is not a string"),
        ({"text": ""}, "input.text is empty"),
        ({"text": "a" * 32767}, "input.text has 32769 bytes, allowed: 32768"),
        ({"maxTokens": 0}, "input.maxTokens is 0, allowed: 1 to 16"),
        ({"maxTokens": 17}, "input.maxTokens is 17"),
        ({"maxTokens": "4"}, "input.maxTokens is not a number"),
        ({"temperature": -0.1}, "input.temperature is -0.1"),
        ({"temperature": 10.5}, "input.temperature is 10.5, allowed: 0 to 10"),
        ({"topK": 257}, "input.topK is 257, allowed: 0 to 256"),
        ({"seed": 4}, "input.seed is not an unsigned 64-bit integer"),
        ({"stop": 1}, "input.stop is not true or false"),
    ],
    ids=str,
)
def test_an_input_of_another_form_is_refused(driver, changes, part):
    refused(driver.run("predict", {"input": {"text": "a", **changes}}), part)


def test_a_prediction_without_input_is_refused(driver):
    refused(driver.run("predict", {}), "input is missing")


def blob(counts=(0, 256, 0, 0)):
    good = Tokenizer.train([], "bytes").blob()
    return struct.pack("<IIII", *counts) + good[16:]


@pytest.mark.parametrize(
    ("vocabulary", "part"),
    [
        (b"", "The configuration has no vocabulary."),
        (blob((3, 256, 0, 0)), "The vocabulary is of kind 3"),
        (blob((0, 255, 0, 0)), "The vocabulary has 255 tokens, the model has 256."),
        (blob((0, 256, 2**32 - 1, 0)), "its tables alone"),
        (blob((0, 256, 0, 1)), "The vocabulary's token 0 does not lie in its text."),
    ],
)
def test_a_broken_vocabulary_is_refused_by_a_prediction_alone(vocabulary, part):
    model = transformer.Model(transformer.architecture(), vocabulary)
    refused(model.predict(START, "a"), part)
    assert "weights" in model.train(START, GOOD)


@pytest.mark.parametrize(
    ("index", "value", "part"),
    [
        (0, 1, "vocabulary size is 1, allowed: 2 to 65536"),
        (1, 0, "context is 0"),
        (2, 1.5, "layers is 1.5, allowed: integers"),
        (3, 5, "width is 12, allowed: multiples of 5 heads"),
        (4, 65536 * 2, "width is 131072"),
        (6, 0, "learning rate is 0"),
        (9, 2, "optimizer is 2, allowed: 0 to 1"),
        (11, 1, "beta2 is 1"),
        (13, 256, "end token is 256, allowed: -1 to 255"),
    ],
)
def test_a_configuration_outside_its_ranges_is_refused(index, value, part):
    of = transformer.architecture()
    values = of.values()
    values[index] = value
    written = transformer.segment(2, transformer.info(of), values, blob())
    base = transformer.BASE.read_bytes()
    module = transformer.configured(base, written, section=b"{}", initial_pages=66, maximum_pages=80)
    driver = transformer.Driver(transformer.ENGINE, transformer.Module(transformer.ENGINE, module))
    for operation in ("getModelInfo", "createInitialWeights", "train", "predict"):
        refused(driver.run(operation, {"seed": "1"}), f"The configuration's {part}")


def test_the_largest_chunk_trains_with_the_declared_pages_and_not_with_one_less():
    """The shortest records there are, so that their order takes the most; and a prediction from the longest text."""
    of = transformer.architecture(context=8, layers=1, width=8, hidden=8)
    records = 20_000
    content = header(records=records) + struct.pack("<IHH", 0, 2, 0) * records + bytes(4 * records)
    pages = -(-of.memory_bytes(16, len(content)) // transformer.PAGE_BYTES)
    weights = transformer.Model(of).initial_weights()
    honest, short = (transformer.Model(of, pages=maximum) for maximum in (pages, pages - 1))
    assert "weights" in honest.train(weights, content, batchSize=20_000)
    assert short.train(weights, content, batchSize=20_000)["error"].startswith("out of memory: training needs")
    small = -(-of.memory_bytes(16, 16 + 12) // transformer.PAGE_BYTES)
    assert "output" in transformer.Model(of, pages=small).predict(weights, "\n" * 16_383, maxTokens=8)


def test_requests_of_every_length_are_answered(driver):
    text = json.dumps(request(driver)).encode()
    for length in range(0, len(text), 7):
        assert "error" in driver.text("train", text[:length])
