"""Each operation of the digits module on honest requests."""

import hashlib
import json
import math
import struct
from pathlib import Path

import pytest

from tests.models import digits
from tests.models.driver import Driver
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.model_info import check_against_weights, parse_model_info

GOLDEN = json.loads(Path(__file__).with_name("golden_digits.json").read_text())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_has_the_interface_of_the_abi_and_a_memory_maximum():
    """C60: one import at most, every export with its signature; C62: an honest maximum lets phones instantiate."""
    check_interface(digits.MODULE)
    assert [(entry.module, entry.name) for entry in digits.MODULE.imports] == [("weei", "onProgress")]
    assert memory_maximum_pages(digits.MODULE) == 128


def test_describes_itself_in_the_schema_of_model_info():
    driver = digits.instance()
    pointer = driver.call("getModelInfo", *driver.put(b"{}").values())
    info = parse_model_info(bytes(driver.read(pointer, driver.call("resultLength"))))
    check_against_weights(info, 9640)
    assert (info.id, info.metric_ids, info.max_workers) == ("digits", frozenset({"loss", "accuracy"}), 1)
    assert (info.max_examples_per_chunk, info.max_chunk_bytes) == (100_000, 16 + 65 * 100_000)
    assert [data_format.id for data_format in info.data_formats] == [digits.FORMAT]
    assert info.capabilities.record_ranges and info.capabilities.inspection
    assert info.capabilities.evaluation and info.capabilities.inference and info.inference


def test_initial_weights_follow_the_seed():
    assert sha256(digits.initial_weights(7)) == GOLDEN["initialWeights"]["sha256"]
    assert digits.initial_weights(8) != digits.initial_weights(7)
    values = struct.unpack("<2410f", digits.initial_weights(2**64 - 1))
    assert max(map(abs, values[:2048])) <= 0.25 and set(values[2048:2080]) == {0.0} == set(values[2400:])


def test_the_same_request_gives_the_same_bits():
    """The hash is the same on every host and machine: other hosts are tested against the same file."""
    golden = GOLDEN["train"]
    start, content = digits.initial_weights(7), digits.FOLDER.joinpath("data", golden["chunk"]).read_bytes()
    first, second = (digits.train(start, content, int(golden["seed"]), golden["settings"]) for _ in range(2))
    assert first == second
    assert (sha256(first["weights"]), first["metrics"]) == (golden["weightsSha256"], golden["metrics"])
    measured = digits.evaluate(first["weights"], digits.validation())
    assert measured == {"metrics": GOLDEN["evaluate"]["metrics"], "examplesProcessed": 297}


def test_another_seed_gives_other_weights():
    start, content = digits.initial_weights(), digits.chunk(0)
    assert digits.train(start, content, seed=3)["weights"] != digits.train(start, content, seed=4)["weights"]


def test_counts_records_once_and_examples_every_epoch():
    settings = {"localEpochs": 3, "batchSize": 50}
    result = digits.train(digits.initial_weights(), digits.chunk(0), settings=settings)
    assert result["uniqueExamples"] == 125 and result["examplesProcessed"] == 375
    assert result["optimizerSteps"] == 9  # 50 + 50 + 25 records, three times
    assert set(result["metrics"]) == {"loss", "accuracy"}


def test_a_left_out_learning_rate_is_the_documented_default():
    start, content = digits.initial_weights(), digits.chunk(0)
    stated = digits.train(start, content, settings={**digits.DEFAULTS, "learningRate": 0.05})
    other = digits.train(start, content, settings={**digits.DEFAULTS, "learningRate": 0.06})
    assert stated["weights"] == digits.train(start, content)["weights"] != other["weights"]


@pytest.mark.parametrize(("first", "count"), [(0, 125), (0, 63), (63, 62), (124, 1)])
def test_a_record_range_equals_a_file_of_these_records(first, count):
    start, content = digits.initial_weights(), digits.chunk(0)
    alone = digits.make_file(content[16 + 65 * first : 16 + 65 * (first + count)])
    ranged = digits.train(start, content, recordStart=first, recordCount=count)
    assert ranged == digits.train(start, alone) and ranged["uniqueExamples"] == count
    measured = digits.evaluate(start, content, recordStart=first, recordCount=count)
    assert measured == digits.evaluate(start, alone) and measured["examplesProcessed"] == count


def test_memory_does_not_depend_on_the_batch_size():
    """A batch larger than the chunk is the chunk: one step each epoch."""
    settings = {"localEpochs": 2, "batchSize": 1_000_000}
    assert digits.train(digits.initial_weights(), digits.chunk(0), settings=settings)["optimizerSteps"] == 2


@pytest.mark.parametrize(("epochs", "batch"), [(1, 16), (5, 16), (1, 1), (200, 125), (1000, 1)])
def test_reports_progress_a_few_times(epochs, batch):
    settings = {"localEpochs": epochs, "batchSize": batch, "learningRate": 0.001}
    result = digits.train(digits.initial_weights(), digits.chunk(0), settings=settings)
    reports, total = result["progress"], 125 * epochs
    assert 2 <= len(reports) <= 50
    processed = [report["processedExamples"] for report in reports]
    assert processed == sorted(set(processed)) and processed[-1] == total
    assert reports[-1]["optimizerSteps"] == result["optimizerSteps"] and reports[-1]["metrics"] == result["metrics"]
    assert {report["totalExamples"] for report in reports} == {total}


def test_loading_again_starts_without_momentum():
    start, content = digits.initial_weights(), digits.chunk(0)
    driver = digits.instance()
    driver.load(digits.train(start, digits.chunk(1))["weights"])
    request = {"settings": digits.DEFAULTS, "round": 1, "seed": "3"}
    driver.run("train", {"data": digits.data_of(driver, digits.chunk(2)), **request})
    driver.load(start)
    result = driver.run("train", {"data": digits.data_of(driver, content), **request})
    assert bytes(driver.read(**result["weights"])) == digits.train(start, content)["weights"]


def test_training_works_in_the_buffer_that_was_loaded():
    """Nothing is copied twice: what comes back is the host's own buffer, changed."""
    driver = digits.instance()
    weights = driver.put(digits.initial_weights())
    assert driver.run("loadModel", {"weights": weights}) == {}
    data = digits.data_of(driver, digits.chunk(0))
    request = {"data": data, "settings": digits.DEFAULTS, "round": 1, "seed": "3"}
    assert driver.run("train", request)["weights"] == weights


def test_repeated_loads_do_not_leak():
    driver, weights = digits.instance(), digits.initial_weights()
    driver.load(weights)
    size = driver.memory.size(driver.store)
    for _ in range(2000):
        driver.load(weights)
    assert driver.memory.size(driver.store) == size


def test_inspects_a_chunk_without_weights():
    driver = digits.instance()
    assert driver.run("inspectData", {"data": digits.data_of(driver, digits.validation())}) == {"exampleCount": 297}


def predict(driver: Driver, pixels: bytes) -> dict[str, object]:
    output = driver.run("predict", {"input": {"pixels": list(pixels)}})["output"]
    assert isinstance(output, dict)
    return output


def test_predicts_what_evaluation_counts():
    """The share of right labels over the validation file is the accuracy that `evaluate` reports."""
    content, weights = digits.validation(), digits.train(digits.initial_weights(), digits.chunk(0))["weights"]
    driver = digits.instance()
    driver.load(weights)
    right = loss = 0.0
    for record in (content[at : at + 65] for at in range(16, len(content), 65)):
        output = predict(driver, record[:64])
        probabilities = output["probabilities"]
        assert isinstance(probabilities, list) and sum(probabilities) == pytest.approx(1, abs=1e-6)
        right += output["label"] == record[64]
        loss -= math.log(probabilities[record[64]])
    metrics = digits.evaluate(weights, content)["metrics"]
    assert right / 297 == pytest.approx(metrics["accuracy"], abs=1e-8)
    assert loss / 297 == pytest.approx(metrics["loss"], abs=1e-6)


def test_the_largest_chunk_fits_the_declared_memory():
    """C62: 100,000 records train and are evaluated within the module's own maximum."""
    content = digits.make_file((digits.chunk(0)[16:] * 800)[: 65 * 100_000])
    settings = {"localEpochs": 1, "batchSize": 1000}
    result = digits.train(digits.initial_weights(), content, settings=settings)
    assert result["uniqueExamples"] == 100_000
    assert digits.evaluate(result["weights"], content)["examplesProcessed"] == 100_000
