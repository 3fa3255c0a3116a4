"""Each operation of the bandit module on honest requests, and a short run of rounds."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.models import bandit
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.model_info import check_against_weights, parse_model_info

GOLDEN = json.loads(Path(__file__).with_name("golden_bandit.json").read_text())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def average(updates):
    """Weighted by unique examples, rounded to float32 once."""
    counts = [update["uniqueExamples"] for update in updates]
    weights = [np.frombuffer(update["weights"], "<f4").astype("f8") for update in updates]
    return np.average(weights, axis=0, weights=counts).astype("<f4").tobytes()


def test_has_the_interface_of_the_abi_and_describes_itself():
    check_interface(bandit.MODULE)
    assert memory_maximum_pages(bandit.MODULE) == 16
    info = parse_model_info(bandit.instance().run("getModelInfo", {}))
    check_against_weights(info, 60)
    assert (info.id, info.metric_ids, info.max_workers) == ("record-bandit", frozenset({"reward"}), 1)
    assert info.is_experience and info.reads_data and info.work_source.unit.id == "record"
    assert info.capabilities.record_ranges and info.capabilities.inspection and info.capabilities.evaluation
    assert info.work_source.units_per_assignment.maximum == info.max_examples_per_chunk == 10_000
    assert info.max_chunk_bytes == 16 + 20 * 10_000


def test_the_same_request_gives_the_same_bits():
    """The hash is the same on every host and machine: other hosts are tested against the same file."""
    golden, units = GOLDEN["train"], GOLDEN["train"]["experience"]
    start = bandit.initial_weights(int(GOLDEN["initialWeights"]["seed"]))
    assert sha256(start) == GOLDEN["initialWeights"]["sha256"]
    content = bandit.FOLDER.joinpath("data", golden["chunk"]).read_bytes()
    asked = (start, content, int(units["seed"]), units["unitStart"], golden["settings"])
    first, second = bandit.train(*asked), bandit.train(*asked)
    assert first == second and first["uniqueExamples"] == units["unitCount"]
    assert (sha256(first["weights"]), first["metrics"]) == (golden["weightsSha256"], golden["metrics"])
    measured = bandit.evaluate(first["weights"], bandit.validation())
    assert measured == {"metrics": GOLDEN["evaluate"]["metrics"], "examplesProcessed": 120}


def test_seed_and_first_unit_each_change_the_draws():
    start, content = bandit.initial_weights(), bandit.chunk(1)
    results = [bandit.train(start, content, seed, unit)["weights"] for seed, unit in [(3, 0), (4, 0), (3, 64)]]
    assert len(set(results)) == 3


def test_counts_records_once_and_every_play_of_them():
    result = bandit.train(bandit.initial_weights(), bandit.chunk(1), settings={"localEpochs": 3, "batchSize": 30})
    assert result["uniqueExamples"] == 64 and result["examplesProcessed"] == 192
    assert result["optimizerSteps"] == 9  # 30 + 30 + 4 records, each batch three times
    progress = result["progress"]
    assert [report["processedExamples"] for report in progress] == [30, 60, 64]
    assert {report["totalExamples"] for report in progress} == {64}
    assert progress[-1]["metrics"] == result["metrics"] and progress[-1]["optimizerSteps"] == 9


def test_reports_progress_at_most_fifty_times():
    content = bandit.make_file((bandit.chunk(1)[16:] * 160)[: 20 * 10_000])
    progress = bandit.train(bandit.initial_weights(), content, settings={"localEpochs": 1, "batchSize": 1})["progress"]
    processed = [report["processedExamples"] for report in progress]
    assert 2 <= len(processed) <= 50 and processed == sorted(set(processed)) and processed[-1] == 10_000


@pytest.mark.parametrize(("first", "count"), [(0, 64), (0, 33), (33, 31), (63, 1)])
def test_a_record_range_equals_a_file_of_these_records(first, count):
    start, content = bandit.initial_weights(), bandit.chunk(1)
    alone = bandit.make_file(content[16 + 20 * first : 16 + 20 * (first + count)])
    ranged = bandit.train(start, content, 5, 100, recordStart=first, recordCount=count)
    assert ranged == bandit.train(start, alone, 5, 100) and ranged["uniqueExamples"] == count
    assert bandit.evaluate(start, content, recordStart=first, recordCount=count) == bandit.evaluate(start, alone)


@pytest.mark.parametrize("cuts", [[32], [1], [63], [16, 32, 48], [7, 20, 41]])
@pytest.mark.parametrize("chunk", [1, 3])
def test_cutting_a_chunk_changes_no_draw(chunk, cuts):
    """With one batch each, the mean of the parts is the whole: the same actions from the same weights."""
    start, content, settings = bandit.initial_weights(), bandit.chunk(chunk), {"localEpochs": 1, "batchSize": 10_000}
    edges = [0, *cuts, bandit.record_count(content)]
    whole = bandit.train(start, content, 3, 1000, settings)
    parts = [
        bandit.train(start, content, 3, 1000 + first, settings, recordStart=first, recordCount=end - first)
        for first, end in zip(edges, edges[1:], strict=False)
    ]
    rewarded = [round(part["metrics"]["reward"] * part["uniqueExamples"]) for part in parts]
    assert sum(rewarded) == round(whole["metrics"]["reward"] * whole["uniqueExamples"])
    merged, expected = (np.frombuffer(weights, "<f4") for weights in (average(parts), whole["weights"]))
    # Sums in another order round differently, by 1.5e-8 at most here. One reward that differed would move a weight by
    # 1e-3 or more.
    np.testing.assert_allclose(merged, expected, rtol=0, atol=1e-6)


def test_a_left_out_learning_rate_is_the_documented_default():
    start, content = bandit.initial_weights(), bandit.chunk(0)
    stated, other = (
        bandit.train(start, content, settings={**bandit.DEFAULTS, "learningRate": rate}) for rate in (1, 0.9)
    )
    assert stated["weights"] == bandit.train(start, content)["weights"] != other["weights"]


def test_repeated_loads_do_not_leak():
    driver, weights = bandit.instance(), bandit.initial_weights()
    driver.load(weights)
    size = driver.memory.size(driver.store)
    for _ in range(5000):
        driver.load(weights)
    assert driver.memory.size(driver.store) == size


@pytest.mark.parametrize("participants", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_passes_reach_what_the_readme_promises(participants, seed):
    """Units go on from pass to pass. Chance is about 1/3; a policy that knows the best actions gets 1."""
    weights, unit, history = bandit.initial_weights(seed), 0, list[float]()
    for _ in range(10):
        for at in range(0, 4, participants):
            updates = []
            for index in range(at, at + participants):
                content = bandit.chunk(index)
                updates.append(bandit.train(weights, content, 1000 * seed + unit, unit))
                unit += bandit.record_count(content)
            weights = average(updates)
        history.append(bandit.evaluate(weights, bandit.validation())["metrics"]["reward"])
    assert unit == 2000
    assert bandit.evaluate(bandit.initial_weights(seed), bandit.validation())["metrics"]["reward"] < 0.6
    assert history[-1] >= 0.95
