"""What the Connect Four module refuses: always one sentence that names the field, never a trap."""

import struct

import pytest

from tests.models import connect4

UNITS = connect4.units(3, 0, 2)
SETTINGS = {"localEpochs": 1, "batchSize": 16, "learningRate": 0.002}
REQUEST = {"experience": UNITS, "settings": SETTINGS, "round": 1}
WEIGHT_BYTES = 4 * connect4.WEIGHT_COUNT


@pytest.fixture
def driver():
    return connect4.instance(connect4.initial_weights())


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
        ({"experience": {**UNITS, "seed": "03"}}, ["experience.seed is not"]),
        ({"experience": {**UNITS, "unitStart": -1}}, ["experience.unitStart is -1"]),
        ({"experience": {**UNITS, "unitCount": 0}}, ["experience.unitCount is 0", "1 to 4096"]),
        ({"experience": {**UNITS, "unitCount": 4097}}, ["experience.unitCount is 4097"]),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(driver, changes, parts):
    refused(driver.run("train", {**REQUEST, **changes}), *parts)


@pytest.mark.parametrize("field", ["experience", "settings", "round"])
def test_a_missing_field_is_named(driver, field):
    refused(driver.run("train", {key: REQUEST[key] for key in REQUEST if key != field}), f"{field} is missing")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({}, "input is missing"),
        ({"input": {}}, "input.moves is not a text"),
        ({"input": {"moves": 33}}, "input.moves is not a text"),
        ({"input": {"moves": [3, 3]}}, "input.moves is not a text"),
        ({"input": {"moves": "337"}}, "input.moves has at place 3 something else than a column, allowed: 0 to 6"),
        ({"input": {"moves": " 3"}}, "input.moves has at place 1 something else"),
        ({"input": {"moves": "3\n3"}}, "input.moves has at place 2 something else"),
        ({"input": {"moves": "é"}}, "input.moves has at place 1 something else"),
        ({"input": {"moves": "3333333"}}, "input.moves has move 7 in a full column"),
        ({"input": {"moves": "01010102"}}, "input.moves goes on after move 7, which ended the game"),
        (
            {"input": {"moves": "4640302600602160421615651322244531515354330"}},
            "input.moves goes on after move 42, which ended the game",
        ),
    ],
    ids=str,
)
def test_moves_that_are_no_game_are_refused(driver, asked, part):
    refused(driver.run("predict", asked), part)


@pytest.mark.parametrize("operation", ["train", "evaluate", "predict", "loadAuxiliary"])
def test_work_without_weights_is_refused(operation):
    asked = {**REQUEST, "input": {"moves": ""}}
    refused(connect4.instance().run(operation, asked), "no weights are loaded: call loadModel first")


def test_training_without_an_opponent_is_refused():
    """Only training needs one; and that is said before any game is played."""
    driver = connect4.instance()
    driver.load(connect4.initial_weights())
    refused(driver.run("train", REQUEST), "no opponent is loaded: call loadAuxiliary first")
    assert driver.progress == []
    assert "metrics" in driver.run("evaluate", REQUEST) and "output" in driver.run("predict", {"input": {"moves": ""}})


@pytest.mark.parametrize("id_", [{}, {"id": "Opponent"}, {"id": ""}, {"id": 1}, {"id": ["opponent"]}], ids=str)
def test_another_slot_is_refused(driver, id_):
    slot = {**id_, "weights": driver.put(connect4.initial_weights())}
    refused(driver.run("loadAuxiliary", slot), "id is not opponent")


@pytest.mark.parametrize("operation", ["loadModel", "loadAuxiliary"])
@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (bytes(WEIGHT_BYTES - 4), f"weights has {WEIGHT_BYTES - 4} bytes, this model has {WEIGHT_BYTES}"),
        (bytes(WEIGHT_BYTES + 4), f"weights has {WEIGHT_BYTES + 4} bytes"),
        (bytes(WEIGHT_BYTES - 4) + struct.pack("<f", float("nan")), "not finite or beyond 1000000"),
        (struct.pack("<f", float("-inf")) + bytes(WEIGHT_BYTES - 4), "not finite or beyond 1000000"),
        (struct.pack("<f", 1.1e6) + bytes(WEIGHT_BYTES - 4), "not finite or beyond 1000000"),
    ],
    ids=("short", "long", "NaN", "infinite", "large"),
)
def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(driver, operation, weights, part):
    before = connect4.train(connect4.initial_weights(), count=2, settings=SETTINGS)["weights"]
    refused(driver.run(operation, {"id": "opponent", "weights": driver.put(weights)}), part)
    assert bytes(driver.read(**driver.run("train", REQUEST)["weights"])) == before


def test_a_training_that_diverges_says_so_and_gives_the_weights_up():
    """The first step moves a weight by the rate, and these stand at the limit on either side."""
    driver = connect4.instance(struct.pack("<7745f", 1e6, *([1e6, -1e6] * 3872)))
    wild = {**REQUEST, "settings": {**SETTINGS, "learningRate": 100}}
    refused(driver.run("train", wild), "training diverged after 2 games", "lower settings.learningRate")
    refused(driver.run("train", REQUEST), "no weights are loaded")


def test_the_wrong_text_is_refused(driver):
    for text in (b"", b"[]", b"{", b'{"experience":}', b"\xff"):
        refused(driver.text("train", text), "the request is not one JSON object")
