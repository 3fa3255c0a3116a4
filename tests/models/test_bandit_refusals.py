"""What the bandit module refuses: always one sentence that names the field, never a trap."""

import struct

import pytest

from tests.models import bandit

SETTINGS = {"localEpochs": 1, "batchSize": 16, "learningRate": 0.5}
UNITS = {"seed": "3", "unitStart": 0, "unitCount": 40}
GOOD = bandit.chunk(0)


def request(driver, content=GOOD, **changes):
    data = {**driver.put(content), "format": bandit.FORMAT}
    return {"data": data, "experience": UNITS, "settings": SETTINGS, "round": 1, **changes}


@pytest.fixture
def driver():
    loaded = bandit.instance()
    loaded.load(bandit.initial_weights())
    return loaded


def refused(result, part):
    assert list(result) == ["error"] and part in result["error"], result


def test_the_honest_request_is_answered(driver):
    assert driver.run("train", request(driver))["uniqueExamples"] == 40


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"settings": {**SETTINGS, "batchSize": 0}}, "settings.batchSize is 0"),
        ({"settings": {**SETTINGS, "learningRate": 101}}, "settings.learningRate is 101"),
        ({"round": 0}, "round is 0"),
        ({"data": None}, "data is not an object"),
        ({"experience": None}, "experience is not an object"),
        ({"experience": {**UNITS, "seed": 3}}, "experience.seed"),
        ({"experience": {**UNITS, "seed": "03"}}, "experience.seed"),
        ({"experience": {**UNITS, "unitStart": -1}}, "experience.unitStart is -1"),
        ({"experience": {**UNITS, "unitStart": 0.5}}, "experience.unitStart is 0.5"),
        ({"experience": {**UNITS, "unitCount": 0}}, "experience.unitCount is 0"),
        ({"experience": {**UNITS, "unitCount": 10001}}, "experience.unitCount is 10001"),
        ({"experience": {**UNITS, "unitCount": 39}}, "experience.unitCount is 39, data selects 40 records"),
        ({"experience": {**UNITS, "unitCount": 41}}, "experience.unitCount is 41, data selects 40 records"),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(driver, changes, part):
    refused(driver.run("train", request(driver, **changes)), part)


@pytest.mark.parametrize("field", ["data", "experience", "settings", "round"])
def test_a_missing_field_is_named(driver, field):
    whole = request(driver)
    del whole[field]
    refused(driver.run("train", whole), f"{field} is missing")


@pytest.mark.parametrize(
    ("selection", "part"),
    [
        ({"recordStart": 0}, "recordCount is missing"),
        ({"recordStart": 0, "recordCount": 0}, "recordCount is 0"),
        ({"recordStart": 1, "recordCount": 40}, "is 41, the file has 40"),
        ({"recordStart": 4294967295, "recordCount": 4294967295}, "the file has 40"),
        ({"recordStart": 0, "recordCount": 39}, "experience.unitCount is 40, data selects 39 records"),
    ],
)
@pytest.mark.parametrize("operation", ["train", "evaluate"])
def test_a_range_outside_the_file_or_unlike_the_units_is_refused(driver, operation, selection, part):
    whole = request(driver)
    refused(driver.run(operation, {**whole, "data": {**whole["data"], **selection}}), part)


def header(magic=b"BNDT", version=1, count=40, record_bytes=20):
    return magic + struct.pack("<III", version, count, record_bytes)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "data has 0 bytes"),
        (header(magic=b"BNDX") + GOOD[16:], "does not begin with BNDT"),
        (header(version=2) + GOOD[16:], "version 2"),
        (header(record_bytes=16) + GOOD[16:], "records of 16 bytes"),
        (header(count=0), "0 records"),
        (header(count=10_001) + GOOD[16:], "10001 records"),
        (header(count=0xFFFFFFFF) + GOOD[16:], "records, allowed"),
        (header(count=41) + GOOD[16:], "has 816 bytes, its header says 836"),
        (GOOD[:-1], "has 815 bytes"),
        (GOOD + b"\0", "has 817 bytes"),
        (GOOD[:-4] + struct.pack("<I", 3), "record 39 has the best action 3"),
        (GOOD[:16] + struct.pack("<f", 1.001) + GOOD[20:], "record 0 has a feature outside -1 to 1"),
        (GOOD[:28] + struct.pack("<f", float("nan")) + GOOD[32:], "record 0 has a feature outside"),
    ],
)
@pytest.mark.parametrize("operation", ["train", "evaluate", "inspectData"])
def test_a_malformed_file_is_refused(driver, operation, content, part):
    refused(driver.run(operation, request(driver, content)), part)


@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (b"", "weights has 0 bytes, this model has 60"),
        (bytes(64), "weights has 64 bytes"),
        (bytes(56) + struct.pack("<f", float("nan")), "not finite"),
    ],
)
def test_weights_of_another_model_are_not_loaded(weights, part):
    driver = bandit.instance()
    refused(driver.run("loadModel", {"weights": driver.put(weights)}), part)


@pytest.mark.parametrize("operation", ["train", "evaluate"])
def test_work_without_weights_is_refused(operation):
    driver = bandit.instance()
    refused(driver.run(operation, request(driver)), "loadModel")


def test_a_training_that_diverges_returns_no_weights(driver):
    driver.load(struct.pack("<f", 3e38) * 15)
    refused(driver.run("train", request(driver)), "settings.learningRate")
    refused(driver.run("train", request(driver)), "loadModel")
