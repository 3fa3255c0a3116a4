"""The maximum that a configured `transformer` declares is what its largest training takes: no page more or less."""

import json

import pytest

from tests.models import transformer
from weei_core.abi.module import memory_maximum_pages
from weei_core.generator.configuration import configured_module
from weei_core.generator.tokenizers import Tokenizer

FORMS = [
    {"layers": 3, "width": 40, "hidden": 100, "vocabSize": 500, "context": 300},
    {"layers": 1, "width": 96, "hidden": 64, "heads": 3, "vocabSize": 256, "optimizer": "sgd"},
    {"layers": 2, "width": 8, "hidden": 300, "heads": 1, "vocabSize": 2000, "context": 7},
]
RECORDS = 20_000
LONGEST = {
    "settings": {"localEpochs": 1, "batchSize": 1_048_576, "learningRate": 0.00012345678901234567},
    "round": 2**31 - 1,
    "seed": str(2**64 - 1),
}


def test_memory_begins_where_the_generator_says():
    driver = transformer.Driver(
        transformer.ENGINE, transformer.Module.from_file(transformer.ENGINE, str(transformer.BASE))
    )
    begin = transformer.TransformerArchitecture.heap_begin
    assert driver.call("alloc", 16) == begin, "set heap_begin in architectures.py to this"


def largest_chunk(network):
    """Of the shortest records, two tokens each, and as many that its training ends well inside a page."""
    records = RECORDS
    while network.memory_bytes(4, 16 + 12 * records) % 65536 <= 4096:
        records += 1
    return transformer.chunk_of([((1, 2), 0)] * records, network.vocab_size)


def play(network, content, pages):
    """Every call of an assignment, in the order of the ABI; the chunk is longer than what is trained on."""
    driver = transformer.Model(network, pages=pages).instance()
    driver.run("getModelInfo", {})
    driver.load(bytes(network.weight_bytes))
    data = transformer.data_of(driver, content)
    request = {"data": data, **LONGEST}
    assert len(json.dumps(request)) < 1024
    return driver.run("train", request), driver


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_largest_chunk_trains_with_the_declared_pages_and_not_with_one_less(form):
    network = transformer.architecture(**form)
    content = largest_chunk(network)
    pages = -(-network.memory_bytes(4, len(content)) // 65536)
    trained, driver = play(network, content, pages)
    assert "weights" in trained, trained
    assert driver.memory.size(driver.store) == pages
    trained, _ = play(network, content, pages - 1)
    assert trained["error"].startswith("out of memory: training needs"), trained


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_prediction_of_the_longest_text_fits_into_the_same_memory(form):
    network = transformer.architecture(**form)
    content = transformer.chunk_of([((1, 2), 0)], network.vocab_size)
    pages = -(-network.memory_bytes(4, len(content)) // 65536)
    letters = "".join(chr(0x4E00 + i) for i in range(network.vocab_size))
    model = transformer.Model(network, Tokenizer.train([letters], "characters").blob(), pages=pages)
    answer = model.predict(bytes(network.weight_bytes), letters[0] * 10_922, maxTokens=network.context)
    assert "output" in answer, answer


def test_a_configured_module_declares_it():
    network = transformer.architecture()
    made = configured_module(
        network,
        transformer.info(network),
        transformer.bytes_tokenizer().blob(),
        batch_size=4,
        max_chunk_bytes=1 << 20,
    )
    pages = memory_maximum_pages(transformer.Module(transformer.ENGINE, made))
    assert pages == -(-network.memory_bytes(4, 1 << 20) // 65536)
