"""What the digits module refuses: always one sentence that names the field, never a trap."""

import struct

import pytest

from tests.models import digits
from weei_core.strict_json import loads

SETTINGS = {"localEpochs": 1, "batchSize": 16, "learningRate": 0.05}


def request(driver, **changes):
    honest = {"data": digits.data_of(driver, digits.chunk(0)), "settings": SETTINGS, "round": 1, "seed": "3"}
    return {**honest, **changes}


@pytest.fixture
def driver():
    loaded = digits.instance()
    loaded.load(digits.initial_weights())
    return loaded


def refused(result, *parts):
    assert list(result) == ["error"]
    assert all(part in result["error"] for part in parts), result


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"settings": {}}, ["settings.localEpochs is missing"]),
        ({"settings": []}, ["settings is not an object"]),
        ({"settings": {**SETTINGS, "localEpochs": 0}}, ["settings.localEpochs is 0", "1 to 100000"]),
        ({"settings": {**SETTINGS, "localEpochs": 1.5}}, ["settings.localEpochs is 1.5", "integers"]),
        ({"settings": {**SETTINGS, "localEpochs": True}}, ["settings.localEpochs is not a number"]),
        ({"settings": {**SETTINGS, "batchSize": -1}}, ["settings.batchSize is -1"]),
        ({"settings": {**SETTINGS, "batchSize": 1e12}}, ["settings.batchSize is 1e12"]),
        ({"settings": {**SETTINGS, "batchSize": "16"}}, ["settings.batchSize is not a number"]),
        ({"settings": {**SETTINGS, "learningRate": 0}}, ["settings.learningRate is 0"]),
        ({"settings": {**SETTINGS, "learningRate": None}}, ["settings.learningRate is not a number"]),
        ({"seed": 3}, ["seed"]),
        ({"seed": "03"}, ["seed"]),
        ({"seed": "18446744073709551616"}, ["seed"]),
        ({"round": 0}, ["round is 0"]),
        ({"data": None}, ["data is not an object"]),
        ({"data": {}}, ["data.pointer is missing"]),
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


@pytest.mark.parametrize(
    ("selection", "part"),
    [
        ({"recordStart": 0}, "recordCount is missing"),
        ({"recordCount": 1}, "recordStart is missing"),
        ({"recordStart": 0, "recordCount": 0}, "recordCount is 0"),
        ({"recordStart": 1, "recordCount": 125}, "is 126, the file has 125"),
        ({"recordStart": 4294967295, "recordCount": 4294967295}, "the file has 125"),
        ({"recordStart": -1, "recordCount": 1}, "recordStart is -1"),
    ],
)
def test_a_range_outside_the_file_is_refused(driver, selection, part):
    data = digits.data_of(driver, digits.chunk(0), **selection)
    refused(driver.run("train", request(driver, data=data)), part)


@pytest.mark.parametrize(
    ("pointer", "size"),
    [(0, 8141), (16, 8141), (4294967280, 8141), (4294967295, 4294967295), (1 << 33, 16), (0.5, 16), (-16, 16)],
)
@pytest.mark.parametrize("operation", ["loadModel", "train", "evaluate", "inspectData"])
def test_a_buffer_that_alloc_did_not_give_is_refused(driver, operation, pointer, size):
    place = {"pointer": pointer, "bytes": size}
    changed = request(driver, data={**place, "format": digits.FORMAT}, weights=place)
    refused(driver.run(operation, changed))


def test_a_buffer_that_was_freed_is_refused(driver):
    data = digits.data_of(driver, digits.chunk(0))
    driver.free(data)
    refused(driver.run("inspectData", {"data": data}), "data is not in memory that alloc gave")


GOOD = digits.chunk(0)


def header(magic=b"DGU8", version=1, count=125, record_bytes=65):
    return magic + struct.pack("<III", version, count, record_bytes)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "data has 0 bytes"),
        (GOOD[:15], "data has 15 bytes"),
        (header(magic=b"DGU9") + GOOD[16:], "does not begin with DGU8"),
        (header(version=2) + GOOD[16:], "version 2"),
        (header(record_bytes=64) + GOOD[16:], "records of 64 bytes"),
        (header(count=0), "0 records"),
        (header(count=100_001) + GOOD[16:], "100001 records"),
        (header(count=0xFFFFFFFF) + GOOD[16:], "records"),
        (header(count=126) + GOOD[16:], "has 8141 bytes, its header says 8206"),
        (GOOD[:-1], "has 8140 bytes"),
        (GOOD + b"\0", "has 8142 bytes"),
        (GOOD[:-1] + b"\x0a", "record 124 has the label 10"),
        (GOOD[:16] + b"\x11" + GOOD[17:], "record 0 has a pixel of 17"),
    ],
)
@pytest.mark.parametrize("operation", ["train", "evaluate", "inspectData"])
def test_a_malformed_file_is_refused(driver, operation, content, part):
    """C50 and C39 in the module's own format: header, counts, exact length, value ranges."""
    refused(driver.run(operation, request(driver, data=digits.data_of(driver, content))), part)


def test_another_format_is_refused(driver):
    data = {**digits.data_of(driver, GOOD), "format": "digits-u8-v2"}
    refused(driver.run("inspectData", {"data": data}), "data.format is not digits-u8-v1")


@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (b"", "weights has 0 bytes, this model has 9640"),
        (bytes(9636), "weights has 9636 bytes"),
        (bytes(9644), "weights has 9644 bytes"),
        (bytes(9636) + struct.pack("<f", float("nan")), "not finite"),
        (struct.pack("<f", float("-inf")) + bytes(9636), "not finite"),
    ],
)
def test_weights_of_another_model_are_not_loaded(weights, part):
    driver = digits.instance()
    refused(driver.run("loadModel", {"weights": driver.put(weights)}), part)
    refused(driver.run("train", request(driver)), "loadModel")


@pytest.mark.parametrize("operation", ["train", "evaluate", "predict"])
def test_work_without_weights_is_refused(operation):
    driver = digits.instance()
    refused(driver.run(operation, {**request(driver), "input": {"pixels": [0] * 64}}), "loadModel")


def test_a_training_that_diverges_returns_no_weights(driver):
    settings = {"localEpochs": 400, "batchSize": 1, "learningRate": 100}
    huge = struct.pack("<f", 3e38) * 2410
    driver.load(huge)
    refused(driver.run("train", request(driver, settings=settings)), "diverged", "settings.learningRate")
    refused(driver.run("train", request(driver)), "loadModel")
    driver.load(digits.initial_weights())
    assert "weights" in driver.run("train", request(driver))


def test_weights_without_use_are_not_evaluated(driver):
    driver.load(struct.pack("<f", 3e38) * 2410)
    refused(driver.run("evaluate", request(driver)), "not finite")
    refused(driver.run("predict", {"input": {"pixels": [16] * 64}}), "not finite")


@pytest.mark.parametrize(
    "pixels", [None, {}, [], [0] * 63, [0] * 65, [0] * 63 + [16.5], [-1] + [0] * 63, ["0"] * 64, [[0]] * 64]
)
def test_an_input_of_another_form_is_refused(driver, pixels):
    refused(driver.run("predict", {"input": {"pixels": pixels}}), "input.pixels")
    assert "output" in driver.run("predict", {"input": {"pixels": [0.5] * 64}})


@pytest.mark.parametrize(
    "text", [b"", b" ", b"[]", b"null", b"{", b'{"seed":"1"}}', b"\xff", b"[" * 4000, b'{"a":' * 99]
)
@pytest.mark.parametrize("operation", ["getModelInfo", "createInitialWeights", "loadModel", "train", "predict"])
def test_a_request_that_is_no_object_is_refused(driver, operation, text):
    refused(driver.text(operation, text), "one JSON object")


def test_a_request_outside_memory_is_refused(driver):
    for place in [(0, 2), (0xFFFFFFF0, 16), (0xFFFFFFFF, 0xFFFFFFFF), (1 << 20, 1 << 30)]:
        pointer = driver.call("getModelInfo", *place)
        refused(loads(bytes(driver.read(pointer, driver.call("resultLength")))), "not in memory that alloc gave")


def test_alloc_answers_0_at_the_maximum_and_recovers(driver):
    assert driver.call("alloc", 0xFFFFFFFF) == 0 == driver.call("alloc", 8 << 20)
    blocks = []
    while block := driver.call("alloc", 1 << 20):
        blocks.append(block)
    assert driver.memory.size(driver.store) <= 128
    refused_text = driver.put(b"{}")
    assert driver.call("getModelInfo", *refused_text.values())
    for block in blocks:
        driver.call("free", block, 1 << 20)
    assert driver.call("alloc", len(blocks) << 20) != 0


def test_no_memory_for_the_work_is_an_answer(driver):
    """A failed grow becomes an error and never another path."""
    text_room = driver.put(bytes(512))
    content = digits.make_file((GOOD[16:] * 200)[: 65 * 20_000])
    whole = request(driver, data=digits.data_of(driver, content))
    size = 4 << 20
    while size >= 16:
        if driver.call("alloc", size) == 0:
            size //= 2
    driver.free(text_room)
    refused(driver.run("train", whole), "out of memory", "80000 bytes")
