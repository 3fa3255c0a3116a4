"""The maximum that a configured `mlp` declares is what its largest training takes: no page more, no page less."""

import json

import numpy as np
import pytest

from tests.models import mlp
from weei_core.generator.configuration import BASE_MODULES, segment
from weei_core.generator.wasm_edit import configured, memory_limits

BASE = (BASE_MODULES / "mlp" / "mlp.wasm").read_bytes()
FORMS = [
    {"hidden": [200, 100], "activation": "relu"},
    {"hidden": [200, 100], "activation": "gelu", "optimizer": "sgd"},
    {"hidden": [], "inputs": 300, "outputs": 40},
    {"hidden": [300], "activation": "tanh", "task": "regression", "outputs": 7},
    {"hidden": [64], "inputKind": "uint8", "inputs": 784, "outputs": 10},
    {"hidden": [64], "inputKind": "uint8", "inputs": 33, "outputs": 1, "task": "regression", "activation": "gelu"},
]
LONGEST = {
    "settings": {"localEpochs": 1, "batchSize": 1_048_576, "learningRate": 0.00012345678901234567},
    "round": 2**32 - 1,
    "seed": str(2**64 - 1),
}


def test_memory_begins_where_the_generator_says():
    driver = mlp.Driver(mlp.ENGINE, mlp.Module(mlp.ENGINE, BASE))
    assert driver.call("alloc", 16) == mlp.MlpArchitecture.heap_begin, "set heap_begin in architectures.py to this"


def with_pages(network, pages):
    content = segment(network.config_kind, mlp.info(network), network.values(), mlp.blob(network))
    initial = memory_limits(BASE).initial
    wasm = configured(BASE, content, section=b"{}", initial_pages=initial, maximum_pages=pages)
    return mlp.Driver(mlp.ENGINE, mlp.Module(mlp.ENGINE, wasm))


def largest_chunk(network):
    """One whose training ends well inside a page, so that the room kept for the longest request decides nothing."""
    records = 3000
    while network.memory_bytes(16, len(content := mlp.chunk(network, *zeros(network, records)))) % 65536 <= 4096:
        records += 1
    return content


def zeros(network, records):
    targets = (records, network.outputs) if network.task == "regression" else records
    return np.zeros((records, network.inputs)), np.zeros(targets)


def play(driver, network, content):
    """Every call of an assignment, in the order of the ABI."""
    driver.run("getModelInfo", {})
    driver.load(bytes(network.weight_bytes))
    request = {"data": mlp.data_of(driver, content, recordStart=0, recordCount=3000), **LONGEST}
    assert len(json.dumps(request)) < 1024
    return driver.run("train", request), driver.run("evaluate", request)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_largest_chunk_trains_with_the_declared_pages_and_not_with_one_less(form):
    network = mlp.architecture(**form)
    content = largest_chunk(network)
    pages = -(-network.memory_bytes(16, len(content)) // 65536)
    assert memory_limits(mlp.wasm(network, len(content))).maximum == pages
    driver = with_pages(network, pages)
    trained, measured = play(driver, network, content)
    assert "weights" in trained and "metrics" in measured
    assert driver.memory.size(driver.store) == pages
    trained, _ = play(with_pages(network, pages - 1), network, content)
    assert trained["error"].startswith("out of memory: a training on this data needs")


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_prediction_fits_into_the_same_memory(form):
    """With the smallest chunk of all, and numbers as long as they come."""
    network = mlp.architecture(**form)
    pages = -(-network.memory_bytes(16, len(mlp.chunk(network, *zeros(network, 1)))) // 65536)
    driver = with_pages(network, pages)
    driver.load(bytes(network.weight_bytes))
    assert "output" in driver.run("predict", {"input": {"values": [0.12345678901234567] * network.inputs}})
