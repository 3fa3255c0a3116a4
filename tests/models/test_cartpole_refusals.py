"""What the CartPole module refuses: always one sentence that names the field, never a trap."""

import struct

import pytest

from tests.models import cartpole

UNITS = cartpole.units(3, 0, 4)
SETTINGS = {"localEpochs": 1, "batchSize": 16, "learningRate": 0.05}
REQUEST = {"experience": UNITS, "settings": SETTINGS, "round": 1}


@pytest.fixture
def driver():
    return cartpole.instance(cartpole.initial_weights())


def refused(result, *parts):
    assert list(result) == ["error"]
    assert all(part in result["error"] for part in parts), result


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"settings": {}}, ["settings.localEpochs is missing"]),
        ({"settings": {**SETTINGS, "localEpochs": 0}}, ["settings.localEpochs is 0", "1 to 100000"]),
        ({"settings": {**SETTINGS, "batchSize": 1.5}}, ["settings.batchSize is 1.5", "integers"]),
        ({"settings": {**SETTINGS, "batchSize": 0}}, ["settings.batchSize is 0", "1 to 1048576"]),
        ({"settings": {**SETTINGS, "learningRate": 0}}, ["settings.learningRate is 0"]),
        ({"settings": {**SETTINGS, "learningRate": 101}}, ["settings.learningRate is 101", "to 100"]),
        ({"round": 0}, ["round is 0"]),
        ({"experience": None}, ["experience is not an object"]),
        ({"experience": {**UNITS, "seed": 3}}, ["experience.seed is not an unsigned 64-bit integer"]),
        ({"experience": {**UNITS, "seed": "03"}}, ["experience.seed is not"]),
        ({"experience": {**UNITS, "seed": "18446744073709551616"}}, ["experience.seed is not"]),
        ({"experience": {**UNITS, "unitStart": -1}}, ["experience.unitStart is -1"]),
        ({"experience": {**UNITS, "unitStart": 1e16}}, ["experience.unitStart is 1e16"]),
        ({"experience": {**UNITS, "unitCount": 0}}, ["experience.unitCount is 0", "1 to 4096"]),
        ({"experience": {**UNITS, "unitCount": 4097}}, ["experience.unitCount is 4097"]),
        ({"experience": {**UNITS, "unitCount": "4"}}, ["experience.unitCount is not a number"]),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(driver, changes, parts):
    refused(driver.run("train", {**REQUEST, **changes}), *parts)


@pytest.mark.parametrize("field", ["experience", "settings", "round"])
def test_a_missing_field_is_named(driver, field):
    refused(driver.run("train", {key: REQUEST[key] for key in REQUEST if key != field}), f"{field} is missing")


@pytest.mark.parametrize("field", ["seed", "unitStart", "unitCount"])
@pytest.mark.parametrize("operation", ["train", "evaluate"])
def test_a_missing_part_of_the_units_is_named(driver, operation, field):
    units = {key: UNITS[key] for key in UNITS if key != field}
    refused(driver.run(operation, {**REQUEST, "experience": units}), f"experience.{field} is missing")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({}, "input is missing"),
        ({"input": {}}, "input.seed is missing"),
        ({"input": {"seed": 5}}, "input.seed is not an unsigned"),
    ],
)
def test_predict_needs_a_seed(driver, asked, part):
    refused(driver.run("predict", asked), part)


@pytest.mark.parametrize("operation", ["train", "evaluate", "predict"])
def test_work_without_weights_is_refused(operation):
    asked = {**REQUEST, "input": {"seed": "5"}}
    refused(cartpole.instance().run(operation, asked), "no weights are loaded: call loadModel first")


@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (bytes(452), "weights has 452 bytes, this model has 456"),
        (bytes(460), "weights has 460 bytes"),
        (bytes(452) + struct.pack("<f", float("nan")), "not finite"),
        (struct.pack("<f", float("inf")) + bytes(452), "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(driver, weights, part):
    refused(driver.run("loadModel", {"weights": driver.put(weights)}), part)
    assert "error" not in driver.run("evaluate", REQUEST)


def test_a_training_that_diverges_says_so_and_gives_the_weights_up():
    """Weights this large make infinite sums of both signs in the forward pass."""
    driver = cartpole.instance(struct.pack("<114f", *([3e38, -3e38] * 57)))
    refused(driver.run("train", REQUEST), "training diverged after 4 episodes", "lower settings.learningRate")
    refused(driver.run("train", REQUEST), "no weights are loaded")


def test_the_wrong_text_is_refused(driver):
    for text in (b"", b"[]", b"{", b'{"experience":}', b"\xff"):
        refused(driver.text("train", text), "the request is not one JSON object")
