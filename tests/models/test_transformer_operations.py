"""What the operations of a configured transformer answer."""

import random

import numpy as np
import pytest

from tests.models import transformer
from tests.models.transformer import chunk_of, windows
from weei_core.generator.tokenizers import Tokenizer

RNG = random.Random(4)
TEXT = b"the cat sat on the mat. the dog sat on the log. " * 12
SMALL = transformer.architecture(learningRate=0.01)
MODEL = transformer.Model(SMALL)
START = MODEL.initial_weights()
CHUNK = windows(TEXT, 16)
RECORDS = 36


def test_model_info_is_the_configurations_own_text():
    assert MODEL.instance().run("getModelInfo", {}) == transformer.info(SMALL)
    long = transformer.info(SMALL) | {"note": "x" * 100_000}
    written = transformer.segment(2, long, SMALL.values(), b"")
    module = transformer.configured(
        transformer.BASE.read_bytes(), written, section=b"{}", initial_pages=66, maximum_pages=80
    )
    assert (
        transformer.Driver(transformer.ENGINE, transformer.Module(transformer.ENGINE, module)).run("getModelInfo", {})
        == long
    )


def test_a_bare_module_says_that_it_has_no_configuration():
    bare = transformer.Driver(
        transformer.ENGINE, transformer.Module.from_file(transformer.ENGINE, str(transformer.BASE))
    )
    for operation in ("getModelInfo", "createInitialWeights", "loadModel", "train", "predict"):
        assert bare.run(operation, {"seed": "1"}) == {"error": "This module has no configuration."}


def test_training_counts_its_records_and_learns():
    result = MODEL.train(START, CHUNK, localEpochs=30, batchSize=5)
    assert result["examplesProcessed"] == 30 * RECORDS and result["uniqueExamples"] == RECORDS
    assert result["optimizerSteps"] == 30 * 8
    before, after = (MODEL.evaluate(weights, CHUNK)["metrics"] for weights in (START, result["weights"]))
    assert before["loss"] == pytest.approx(np.log(256), abs=0.1)
    assert after["loss"] < 0.5 and after["accuracy"] > 0.85 and set(after) == {"loss", "accuracy"}
    progress = result["progress"]
    assert [report["optimizerSteps"] for report in progress] == list(range(8, 241, 8))
    assert progress[-1]["processedExamples"] == progress[-1]["totalExamples"] == 30 * RECORDS
    assert progress[-1]["metrics"] == result["metrics"]


def test_the_same_assignment_gives_the_same_bits_and_another_seed_others():
    first = MODEL.train(START, CHUNK, seed=3)
    assert (
        MODEL.train(START, CHUNK, seed=3)["weights"] == first["weights"] != MODEL.train(START, CHUNK, seed=4)["weights"]
    )


def test_a_range_is_what_a_file_of_its_records_is():
    records = [([1, 2, 3, 4], 0), ([5, 6], 0), ([7, 8, 9], 2), ([4, 4, 4, 4, 4], 0)]
    part = MODEL.train(START, chunk_of(records), selection={"recordStart": 1, "recordCount": 2})
    alone = MODEL.train(START, chunk_of(records[1:3]))
    assert part["uniqueExamples"] == 2
    assert part["weights"] == alone["weights"] and part["metrics"] == alone["metrics"]


def test_a_batch_of_many_tiles_is_one_step_over_the_mean_of_its_targets():
    """90 records of 16 rows are six tiles. Rounding alone tells them from the same records in the other order."""
    records = [(RNG.choices(range(256), k=RNG.randint(2, 17)), 0) for _ in range(90)]
    settings = {"batchSize": 90, "learningRate": 0.01}
    model = transformer.Model(transformer.architecture(epsilon=0.01, clipNorm=0))
    one = model.train(START, chunk_of(records), **settings)
    other = model.train(START, chunk_of(records[::-1]), **settings)
    assert one["optimizerSteps"] == 1
    moved = np.frombuffer(one["weights"], "<f4") - np.frombuffer(START, "<f4")
    assert np.abs(moved).max() > 1e-3
    difference = np.frombuffer(one["weights"], "<f4") - np.frombuffer(other["weights"], "<f4")
    assert np.abs(difference).max() < 1e-6
    assert one["metrics"]["loss"] == pytest.approx(
        MODEL.evaluate(START, chunk_of(records))["metrics"]["loss"], abs=1e-7
    )


def test_targets_before_loss_from_are_read_and_not_learned():
    """Question and answer: the loss is that of the answers, which the question decides."""
    questions = [[a, b, 10, max(a, b), 11] for a in range(4) for b in range(4)]
    masked = chunk_of([(question, 3) for question in questions])
    model = transformer.Model(transformer.architecture(learningRate=0.003, weightDecay=0, width=24, hidden=48))
    start = model.initial_weights()
    trained = model.train(start, masked, localEpochs=150, batchSize=8)["weights"]
    before, after = (model.evaluate(weights, masked)["metrics"] for weights in (start, trained))
    assert before["exact"] == 0 and after["exact"] == 1 and after["accuracy"] == 1 and after["loss"] < 0.05
    whole = model.evaluate(trained, chunk_of([(question, 0) for question in questions]))["metrics"]
    assert whole["loss"] > 1 and "exact" not in whole  # the questions were not learned
    one = model.evaluate(trained, masked, recordStart=3, recordCount=1)
    assert one["examplesProcessed"] == 1 and one["metrics"]["exact"] == 1


def test_a_position_does_not_see_what_follows():
    """The loss of a prefix does not depend on the tokens behind it."""
    driver = MODEL.train(START, CHUNK)["weights"]
    long = MODEL.evaluate(driver, chunk_of([([1, 2, 3, 4, 200, 201], 0)]))
    first = MODEL.evaluate(driver, chunk_of([([1, 2, 3, 4], 0)]))["metrics"]["loss"] * 3
    rest = MODEL.evaluate(driver, chunk_of([([1, 2, 3, 4, 200, 201], 4)]))["metrics"]["loss"] * 2
    assert long["metrics"]["loss"] * 5 == pytest.approx(first + rest, rel=1e-6)


def test_inspection_counts_records():
    driver = MODEL.instance()
    assert driver.run("inspectData", {"data": transformer.data_of(driver, CHUNK)}) == {"exampleCount": RECORDS}
    data = transformer.data_of(driver, CHUNK, recordStart=2, recordCount=3)
    assert driver.run("inspectData", {"data": data}) == {"exampleCount": 3}


def test_sgd_needs_no_means():
    model = transformer.Model(transformer.architecture(optimizer="sgd", learningRate=0.5, clipNorm=1))
    result = model.train(START, CHUNK, localEpochs=5, batchSize=4)
    assert result["metrics"]["loss"] < 4


# --- predict


@pytest.fixture(scope="module")
def trained():
    """Has seen the text from every offset: what a window begins with says nothing."""
    records = [(list(TEXT[at : at + 17]), 0) for at in range(96)]
    return MODEL.train(START, chunk_of(records), localEpochs=40, batchSize=6)["weights"]


def test_the_arg_max_continues_what_was_learned(trained):
    output = MODEL.predict(trained, "the cat sat on", temperature=0, maxTokens=16)["output"]
    assert output == {"text": " the mat. the do", "tokens": 16, "stopped": "length"}
    assert MODEL.predict(trained, "the cat sat on", temperature=0, maxTokens=16, seed="9")["output"] == output


def test_samples_differ_by_seed_alone(trained):
    def sample(**options):
        return MODEL.predict(trained, "the ", maxTokens=12, temperature=2.5, topK=0, **options)["output"]["text"]

    assert sample(seed="5") == sample(seed="5")
    assert len({sample(seed=str(seed)) for seed in range(8)}) > 4
    assert sample() == sample(seed="0")


def test_top_k_keeps_the_likeliest(trained):
    """With one there is no choice; of two and of three a high temperature takes each."""
    best = MODEL.predict(trained, "the ", maxTokens=8, temperature=0)["output"]
    assert MODEL.predict(trained, "the ", maxTokens=8, temperature=10, topK=1)["output"] == best
    firsts = [
        {
            MODEL.predict(trained, "the ", maxTokens=1, temperature=10, topK=k, seed=str(seed))["output"]["text"]
            for seed in range(40)
        }
        for k in (2, 3)
    ]
    assert len(firsts[0]) == 2 and len(firsts[1]) == 3 and best["text"][0] in firsts[0] < firsts[1]


def test_more_text_than_the_context_is_cut_from_its_beginning(trained):
    options = {"temperature": 0, "maxTokens": 16}
    long = MODEL.predict(trained, "x" * 100 + "dog sat on the l", **options)
    assert long == MODEL.predict(trained, "dog sat on the l", **options)
    assert long["output"]["text"].startswith("og. the cat sat")


def vocabulary_model(tokenizer, records, **sizes):
    of = transformer.architecture(vocabSize=tokenizer.size, endToken=tokenizer.end_token, **sizes)
    model = transformer.Model(of, tokenizer.blob())
    chunk = chunk_of(records, tokenizer.size)
    return model, model.train(model.initial_weights(), chunk, localEpochs=80, learningRate=0.01)["weights"]


def test_a_text_ends_at_its_end_token():
    tokenizer = Tokenizer.train(["héllo wörld"], "characters", end_token="<end>")
    record = tokenizer.encode("héllo<end>wörld")
    model, weights = vocabulary_model(tokenizer, [(record, 0)] * 4)
    output = model.predict(weights, "hé", temperature=0)["output"]
    assert output == {"text": "llo", "tokens": 3, "stopped": "end"}
    whole = model.predict(weights, "hé", temperature=0, stop=False, maxTokens=9)["output"]
    assert whole == {"text": "llo<end>wörld", "tokens": 9, "stopped": "length"}
    assert model.predict(weights, "hello")["error"] == 'input.text holds "e", for which the vocabulary has no token'


def test_bytes_that_are_no_character_become_the_replacement_character():
    """A model that says the first half of é, then NUL, a quote and a line feed."""
    record = list(b'a\xc3\x00"\n\xf0\x9f\x98\x80b')
    weights = MODEL.train(START, chunk_of([(record, 0)] * 4), localEpochs=80)["weights"]
    output = MODEL.predict(weights, "a", temperature=0, maxTokens=9)["output"]
    assert output["text"] == '\ufffd\ufffd"\n😀b'
