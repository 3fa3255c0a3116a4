"""Each operation of the module `mlp` on honest requests."""

import struct

import numpy as np
import pytest

from tests.models import mlp
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.generator.configuration import BASE_MODULES
from weei_core.model_info import check_against_weights, parse_model_info

NETWORK = mlp.architecture()
CHUNK = mlp.chunk(NETWORK, *mlp.sample(NETWORK, 50))
START = mlp.initial_weights(NETWORK)
RECORD = 3 * 4


def test_the_bare_module_says_that_it_has_no_configuration():
    driver = mlp.Driver(mlp.ENGINE, mlp.Module.from_file(mlp.ENGINE, str(BASE_MODULES / "mlp" / "mlp.wasm")))
    for operation in (
        "getModelInfo",
        "createInitialWeights",
        "loadModel",
        "train",
        "evaluate",
        "inspectData",
        "predict",
    ):
        assert driver.run(operation, {}) == {"error": "This module has no configuration."}


def test_describes_itself_in_the_schema_of_model_info():
    check_interface(mlp.compiled(NETWORK))
    driver = mlp.instance(NETWORK)
    pointer = driver.call("getModelInfo", *driver.put(b"{}").values())
    info = parse_model_info(bytes(driver.read(pointer, driver.call("resultLength"))))
    check_against_weights(info, NETWORK.weight_bytes)
    assert memory_maximum_pages(mlp.compiled(NETWORK)) * 65536 < NETWORK.memory_bytes(1, 1 << 20) + 65536
    assert [data_format.id for data_format in info.data_formats] == [mlp.FORMAT]
    assert info.metric_ids == {"loss", "accuracy"} and info.max_workers == 1
    assert info.capabilities.record_ranges and info.capabilities.inspection
    assert info.capabilities.evaluation and info.capabilities.inference and info.inference


def test_initial_weights_follow_the_seed():
    assert START == mlp.initial_weights(NETWORK) != mlp.initial_weights(NETWORK, 8)
    values = struct.unpack("<50f", START)
    assert max(map(abs, values[:24])) <= 2**0.5 and set(values[24:32]) == {0.0} == set(values[48:])


def test_initial_weights_are_answered_again_in_the_same_place():
    driver = mlp.instance(NETWORK)
    places = [driver.run("createInitialWeights", {"seed": "7"}) for _ in range(3)]
    assert places[0] == places[1] == places[2] and bytes(driver.read(**places[0])) == START


def test_the_same_request_gives_the_same_bits():
    first, second = (mlp.train(NETWORK, START, CHUNK) for _ in range(2))
    assert first == second
    assert first["weights"] != mlp.train(NETWORK, START, CHUNK, seed=4)["weights"]


def test_counts_records_once_and_examples_every_epoch():
    result = mlp.train(NETWORK, START, CHUNK, settings={"localEpochs": 3, "batchSize": 20})
    assert result["uniqueExamples"] == 50 and result["examplesProcessed"] == 150
    assert result["optimizerSteps"] == 9  # 20 + 20 + 10 records, three times
    assert set(result["metrics"]) == {"loss", "accuracy"}


def test_a_left_out_learning_rate_is_the_configured_one():
    stated = mlp.train(NETWORK, START, CHUNK, settings={**mlp.DEFAULTS, "learningRate": 0.001})
    other = mlp.train(NETWORK, START, CHUNK, settings={**mlp.DEFAULTS, "learningRate": 0.002})
    assert stated["weights"] == mlp.train(NETWORK, START, CHUNK)["weights"] != other["weights"]


def ranged(first, count):
    inputs, targets = mlp.sample(NETWORK, 50)
    return mlp.chunk(NETWORK, inputs[first : first + count], targets[first : first + count])


@pytest.mark.parametrize(("first", "count"), [(0, 50), (0, 25), (25, 25), (49, 1)])
def test_a_record_range_equals_a_file_of_these_records(first, count):
    alone = ranged(first, count)
    result = mlp.train(NETWORK, START, CHUNK, recordStart=first, recordCount=count)
    assert result == mlp.train(NETWORK, START, alone) and result["uniqueExamples"] == count
    measured = mlp.evaluate(NETWORK, START, CHUNK, recordStart=first, recordCount=count)
    assert measured == mlp.evaluate(NETWORK, START, alone) and measured["examplesProcessed"] == count


def test_a_batch_is_the_same_in_tiles_of_any_fill():
    """Gradients are collected over tiles of 64 records: the last one of a batch of 130 has two."""
    inputs, targets = mlp.sample(NETWORK, 130)
    result = mlp.train(
        NETWORK, START, mlp.chunk(NETWORK, inputs, targets), settings={"localEpochs": 2, "batchSize": 130}
    )
    assert result["optimizerSteps"] == 2 and result["metrics"]["loss"] > 0


def test_reports_every_eight_steps_and_at_the_end():
    result = mlp.train(NETWORK, START, CHUNK, settings={"localEpochs": 3, "batchSize": 5})
    steps = [report["optimizerSteps"] for report in result["progress"]]
    assert steps == [8, 16, 24, 30]
    assert [report["processedExamples"] for report in result["progress"]] == [40, 80, 120, 150]
    assert {report["totalExamples"] for report in result["progress"]} == {150}
    assert result["progress"][-1]["metrics"] == result["metrics"]


def test_inspects_a_file():
    driver = mlp.instance(NETWORK)
    assert driver.run("inspectData", {"data": mlp.data_of(driver, CHUNK)}) == {"exampleCount": 50}


def test_training_works_in_the_buffer_that_was_loaded_and_each_one_starts_an_empty_optimizer():
    driver = mlp.instance(NETWORK)
    buffer = driver.put(START)
    assert driver.run("loadModel", {"weights": buffer}) == {}
    request = {"data": mlp.data_of(driver, CHUNK), "settings": mlp.DEFAULTS, "round": 1, "seed": "3"}
    first = driver.run("train", request)
    assert first["weights"] == buffer
    between = bytes(driver.read(**buffer))
    driver.run("train", request)
    assert bytes(driver.read(**buffer)) == mlp.train(NETWORK, between, CHUNK)["weights"]


def test_memory_does_not_grow_from_round_to_round():
    network = mlp.architecture(hidden=[2000])
    start, driver, sizes = mlp.initial_weights(network), mlp.instance(network), []
    for _ in range(20):
        driver.load(start)
        data = mlp.data_of(driver, CHUNK)
        request = {"data": data, "settings": {**mlp.DEFAULTS, "localEpochs": 1}, "round": 1, "seed": "3"}
        assert "weights" in driver.run("train", request) and "metrics" in driver.run("evaluate", request)
        assert "output" in driver.run("predict", {"input": {"values": [1, 2, 3]}})
        driver.free({"pointer": data["pointer"], "bytes": data["bytes"]})
        sizes.append(driver.memory.size(driver.store))
    assert len(set(sizes[3:])) == 1, sizes  # the weights move between two places


@pytest.mark.parametrize("kind", ["float32", "uint8"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_learns(kind, activation, optimizer):
    rate = 0.01 if optimizer == "adamw" else 0.3
    optimization = {"optimizer": optimizer, "learningRate": rate, "weightDecay": 0}
    network = mlp.architecture(inputs=4, outputs=3, hidden=[32], inputKind=kind, activation=activation, **optimization)
    inputs, classes = mlp.sample(network, 700)
    chunk, held_out = mlp.chunk(network, inputs[:500], classes[:500]), mlp.chunk(network, inputs[500:], classes[500:])
    start = mlp.initial_weights(network)
    assert mlp.evaluate(network, start, held_out)["metrics"]["accuracy"] < 0.6
    trained = mlp.train(
        network, start, chunk, settings={"localEpochs": 40 if optimizer == "adamw" else 150, "batchSize": 16}
    )
    measured = mlp.evaluate(network, trained["weights"], held_out)["metrics"]
    assert measured["accuracy"] > 0.85, measured


def test_learns_values_and_tells_them_in_their_own_units():
    network = mlp.architecture(inputs=4, outputs=2, hidden=[32], task="regression", learningRate=0.01, weightDecay=0)
    inputs, values = mlp.sample(network, 700)
    chunk, held_out = mlp.chunk(network, inputs[:500], values[:500]), mlp.chunk(network, inputs[500:], values[500:])
    settings = {"localEpochs": 200, "batchSize": 16}
    trained = mlp.train(network, mlp.initial_weights(network), chunk, settings=settings)["weights"]
    measured = mlp.evaluate(network, trained, held_out)["metrics"]
    assert measured["mae"] < 0.15 < abs(values).mean() / 8
    told = [mlp.predict(network, trained, row)["output"]["values"] for row in inputs[500:520].tolist()]
    assert abs(np.array(told) - values[500:520]).mean() < 0.25


def test_a_name_is_written_as_json_text():
    network = mlp.architecture(inputs=1, outputs=3, hidden=[], inputKind="uint8")
    names = ['"quoted" \\ back', "é ✓ 漢", "x" * 200]
    blob = mlp.mlp_blob(network, classes=names)
    wasm = mlp.configured_module(network, mlp.info(network), blob, batch_size=1, max_chunk_bytes=1000)
    driver = mlp.Driver(mlp.ENGINE, mlp.Module(mlp.ENGINE, wasm))
    driver.load(bytes(network.weight_bytes))
    output = driver.run("predict", {"input": {"values": [7]}})["output"]
    assert list(output["probabilities"]) == names and output["label"] == names[0]


def test_an_answer_longer_than_the_librarys_own_buffer_is_whole():
    network = mlp.architecture(outputs=2000)
    driver = mlp.instance(network)
    driver.load(mlp.initial_weights(network))
    for _ in range(3):
        output = driver.run("predict", {"input": {"values": [1, 2, 3]}})["output"]
        assert len(output["probabilities"]) == 2000 and sum(output["probabilities"].values()) == pytest.approx(1)
        assert "input.values" in driver.run("predict", {"input": {}})["error"]
