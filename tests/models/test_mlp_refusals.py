"""What the module `mlp` refuses: always one sentence that names the field, never a trap."""

import struct

import pytest

from tests.models import mlp

NETWORK = mlp.architecture()
VALUES = mlp.architecture(task="regression", inputKind="uint8")
GOOD = mlp.chunk(NETWORK, *mlp.sample(NETWORK, 10))
GOOD_VALUES = mlp.chunk(VALUES, *mlp.sample(VALUES, 10))
SETTINGS = {"localEpochs": 1, "batchSize": 16, "learningRate": 0.05}


def request(driver, content=GOOD, **changes):
    honest = {"data": mlp.data_of(driver, content), "settings": SETTINGS, "round": 1, "seed": "3"}
    return {**honest, **changes}


def loaded(network=NETWORK):
    driver = mlp.instance(network)
    driver.load(mlp.initial_weights(network))
    return driver


def refused(result, *parts):
    assert list(result) == ["error"]
    assert all(part in result["error"] for part in parts), result


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"settings": {}}, "settings.localEpochs is missing"),
        ({"settings": {**SETTINGS, "batchSize": 0}}, "settings.batchSize is 0"),
        ({"settings": {**SETTINGS, "learningRate": 0}}, "settings.learningRate is 0"),
        ({"seed": 3}, "seed"),
        ({"round": 0}, "round is 0"),
        ({"data": None}, "data is not an object"),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(changes, part):
    driver = loaded()
    refused(driver.run("train", request(driver, **changes)), part)
    assert "weights" in driver.run("train", request(driver))


def header(magic=b"WROW", version=1, records=10, inputs=3, outputs=1, kind=0):
    return magic + struct.pack("<5I", version, records, inputs, outputs, kind)


NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("-inf"))


@pytest.mark.parametrize(
    ("network", "content", "part"),
    [
        (NETWORK, b"", "data has 0 bytes"),
        (NETWORK, GOOD[:23], "data has 23 bytes, the header alone has 24"),
        (NETWORK, header(magic=b"WTOK") + GOOD[24:], "does not begin with WROW"),
        (NETWORK, header(version=2) + GOOD[24:], "version 2, allowed: 1"),
        (NETWORK, header(records=0), "0 records"),
        (NETWORK, header(records=11) + GOOD[24:], "has 184 bytes, its header says 200"),
        (NETWORK, header(records=0xFFFFFFFF) + GOOD[24:], "its header says"),
        (NETWORK, header(inputs=4) + GOOD[24:], "4 inputs, this model has 3"),
        (NETWORK, header(outputs=2) + GOOD[24:], "2 outputs, this model has 1"),
        (NETWORK, header(kind=2) + GOOD[24:], "of kind 2, this model reads 0"),
        (NETWORK, GOOD[:-1], "has 183 bytes"),
        (NETWORK, GOOD + b"\0", "has 185 bytes"),
        (NETWORK, GOOD[:-4] + b"\2\0\0\0", "record 9 is of class 2, allowed: 0 to 1"),
        (NETWORK, GOOD[:24] + NAN + GOOD[28:], "record 0 has a value that is not finite as input 0"),
        (NETWORK, GOOD[:140] + INFINITY + GOOD[144:], "record 9 has a value that is not finite as input 2"),
        (VALUES, GOOD_VALUES[:-4] + NAN, "record 9 has a value that is not finite as target 1"),
        (VALUES, GOOD_VALUES[:54] + GOOD_VALUES[56:], "has 134 bytes, its header says 136"),
        (VALUES, GOOD, "data has 1 outputs, this model has 2"),
    ],
)
@pytest.mark.parametrize("operation", ["train", "evaluate", "inspectData"])
def test_a_malformed_file_is_refused(operation, network, content, part):
    driver = loaded(network)
    refused(driver.run(operation, request(driver, content)), part)


def test_another_format_is_refused():
    driver = loaded()
    data = {**mlp.data_of(driver, GOOD), "format": "weei-tokens"}
    refused(driver.run("inspectData", {"data": data}), "data.format is not weei-rows")


@pytest.mark.parametrize(
    ("selection", "part"),
    [
        ({"recordStart": 0}, "recordCount is missing"),
        ({"recordStart": 0, "recordCount": 0}, "recordCount is 0"),
        ({"recordStart": 1, "recordCount": 10}, "is 11, the file has 10"),
        ({"recordStart": 4294967295, "recordCount": 4294967295}, "the file has 10"),
    ],
)
def test_a_range_outside_the_file_is_refused(selection, part):
    driver = loaded()
    refused(driver.run("train", request(driver, data=mlp.data_of(driver, GOOD, **selection))), part)


@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (b"", "weights has 0 bytes, this model has 200"),
        (bytes(204), "weights has 204 bytes"),
        (bytes(196) + NAN, "not finite"),
        (INFINITY + bytes(196), "not finite"),
    ],
)
def test_weights_of_another_model_are_not_loaded(weights, part):
    driver = mlp.instance(NETWORK)
    refused(driver.run("loadModel", {"weights": driver.put(weights)}), part)
    refused(driver.run("train", request(driver)), "loadModel")


@pytest.mark.parametrize("operation", ["train", "evaluate", "predict"])
def test_work_without_weights_is_refused(operation):
    driver = mlp.instance(NETWORK)
    refused(driver.run(operation, {**request(driver), "input": {"values": [0, 0, 0]}}), "loadModel")


@pytest.mark.parametrize("network", [NETWORK, VALUES], ids=["classes", "values"])
def test_a_training_that_diverges_returns_no_weights(network):
    driver = mlp.instance(network)
    driver.load(struct.pack("<f", 3e38) * (network.weight_bytes // 4))
    content = GOOD if network is NETWORK else GOOD_VALUES
    refused(driver.run("evaluate", request(driver, content)), "not finite")
    refused(driver.run("predict", {"input": {"values": [9, 9, 9]}}), "not finite")
    refused(driver.run("train", request(driver, content)), "diverged", "settings.learningRate")
    refused(driver.run("train", request(driver, content)), "loadModel")
    driver.load(mlp.initial_weights(network))
    assert "weights" in driver.run("train", request(driver, content))


@pytest.mark.parametrize("values", [None, {}, [], [0] * 2, [0] * 4, ["0"] * 3, [[0]] * 3, [1e300] * 3, "000"])
def test_an_input_of_another_form_is_refused(values):
    driver = loaded()
    refused(driver.run("predict", {"input": {"values": values}}), "input.values")
    assert "output" in driver.run("predict", {"input": {"values": [0.5] * 3}})


@pytest.mark.parametrize("values", [[0, 0, 256], [-1, 0, 0]])
def test_a_byte_outside_its_range_is_refused(values):
    refused(loaded(VALUES).run("predict", {"input": {"values": values}}), "3 numbers from 0 to 255")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 4000])
@pytest.mark.parametrize("operation", ["getModelInfo", "train", "predict"])
def test_a_request_that_is_no_object_is_refused(operation, text):
    refused(loaded().text(operation, text), "one JSON object")
