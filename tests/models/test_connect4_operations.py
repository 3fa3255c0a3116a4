"""Each operation of the Connect Four module on honest requests."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from reference_models.connect4 import make_package
from reference_models.packaging import described, inline_text
from tests.models import connect4
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.dataset_manifest import FoundFile
from weei_core.model_info import check_against_weights, parse_model_info
from weei_core.model_package import check_package_against_module, parse_package
from weei_core.training_settings import parse_settings

GOLDEN = json.loads(Path(__file__).with_name("golden_connect4.json").read_text())
WEIGHT_BYTES = 4 * connect4.WEIGHT_COUNT


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def model_info():
    return parse_model_info(connect4.instance().run("getModelInfo", {}))


def test_has_the_interface_of_the_abi_and_a_memory_maximum():
    check_interface(connect4.MODULE)
    assert [(entry.module, entry.name) for entry in connect4.MODULE.imports] == [("weei", "onProgress")]
    assert memory_maximum_pages(connect4.MODULE) == 192


def test_describes_itself_as_a_model_of_experience_with_an_opponent():
    info = model_info()
    check_against_weights(info, WEIGHT_BYTES)
    assert (info.id, info.max_workers, info.reads_data) == ("connect-four", 4, False)
    directions = {metric.id: metric.direction for metric in info.metrics}
    assert directions.pop("loss") == "minimize"
    assert directions == dict.fromkeys(("winRate", "winsRandom", "winsAlphaBeta"), "maximize")
    assert info.work_source.model_dump(by_alias=True) == make_package.WORK_SOURCE
    slots = [slot.model_dump(by_alias=True, exclude_none=True) for slot in info.auxiliary_weights]
    assert slots == make_package.AUXILIARY_WEIGHTS
    assert info.capabilities.evaluation and info.capabilities.inference and info.inference["view"] == "connect-four"


def test_the_package_is_valid_and_its_script_writes_the_committed_one():
    """A rebuilt module without a new package would fail here."""
    content = connect4.FOLDER.joinpath("data", "package.json").read_bytes()
    assert content == inline_text(make_package.package())
    package, wasm = parse_package(content), connect4.FOLDER / "connect4.wasm"
    module = FoundFile(*described(wasm.name, wasm.read_bytes()).values())
    check_package_against_module(package, model_info(), WEIGHT_BYTES, module)
    assert package.is_experience and package.manifest.chunks == () and package.auxiliary_files == ()


def test_the_preset_names_files_that_exist_and_settings_that_the_model_takes():
    preset = json.loads(connect4.FOLDER.joinpath("preset.json").read_text())
    assert preset["files"] == []
    assert all(connect4.FOLDER.joinpath(preset[name]).is_file() for name in ("module", "manifest"))
    parse_settings(preset["settings"], for_experience=True, info=model_info(), weight_bytes=WEIGHT_BYTES)


def test_initial_weights_follow_the_seed():
    assert sha256(connect4.initial_weights(7)) == GOLDEN["initialWeights"]["sha256"]
    assert connect4.initial_weights(8) != connect4.initial_weights(7)


def golden_training(opponent_seed):
    golden = GOLDEN["train"]
    experience = golden["experience"]
    asked = (int(experience["seed"]), experience["unitStart"], experience["unitCount"], golden["settings"])
    return connect4.train(connect4.initial_weights(7), connect4.initial_weights(opponent_seed), *asked)


@pytest.mark.parametrize("golden", GOLDEN["train"]["opponents"], ids=lambda golden: f"opponent {golden['seed']}")
def test_the_same_request_gives_the_same_bits(golden):
    """On every machine; tests/hosts holds the other hosts to the bits of this one."""
    first, second = (golden_training(int(golden["seed"])) for _ in range(2))
    assert first == second
    assert (sha256(first["weights"]), first["metrics"]) == (golden["weightsSha256"], golden["metrics"])
    measured = connect4.evaluate(first["weights"], int(GOLDEN["evaluate"]["seed"]))
    assert measured == {"metrics": golden["evaluated"], "examplesProcessed": GOLDEN["evaluate"]["unitCount"]}


def test_another_opponent_makes_other_games():
    assert len({golden["weightsSha256"] for golden in GOLDEN["train"]["opponents"]}) == 2


def test_other_units_and_another_seed_are_other_games():
    start = connect4.initial_weights()
    results = [connect4.train(start, seed=seed, start=first)["weights"] for seed, first in ((3, 0), (3, 8), (4, 0))]
    assert len(set(results)) == 3


def test_counts_games_and_reports_every_batch():
    result = connect4.train(connect4.initial_weights(), count=5, settings={"localEpochs": 1, "batchSize": 2})
    assert result["uniqueExamples"] == result["examplesProcessed"] == 5
    assert set(result["metrics"]) == {"winRate", "loss"}
    reports = result["progress"]
    assert [report["processedExamples"] for report in reports] == [2, 4, 5]
    assert {report["totalExamples"] for report in reports} == {5}
    assert reports[-1]["metrics"] == result["metrics"] and reports[-1]["optimizerSteps"] == result["optimizerSteps"]


def test_local_epochs_repeat_steps_and_no_games():
    start = connect4.initial_weights()
    once, thrice = (connect4.train(start, settings={"localEpochs": n, "batchSize": 8}) for n in (1, 3))
    assert thrice["optimizerSteps"] == 3 * once["optimizerSteps"]
    assert thrice["metrics"]["winRate"] == once["metrics"]["winRate"]


def test_games_do_not_depend_on_batches():
    """At a rate that moves no weight, games played in one batch, in several or in two assignments are the same."""
    start, opponent = connect4.initial_weights(), connect4.initial_weights(8)

    def points(first, count, batch):
        settings = {"localEpochs": 1, "batchSize": batch, "learningRate": 1e-9}
        return (
            count * connect4.train(start, opponent, start=first, count=count, settings=settings)["metrics"]["winRate"]
        )

    assert points(0, 24, 24) == points(0, 24, 7) == pytest.approx(points(0, 10, 5) + points(10, 14, 5))


def test_a_left_out_learning_rate_is_the_documented_default():
    start = connect4.initial_weights()
    stated, other = (
        connect4.train(start, settings={**connect4.DEFAULTS, "learningRate": rate})["weights"]
        for rate in (0.002, 0.003)
    )
    assert stated == connect4.train(start)["weights"] != other


REQUEST = {"experience": connect4.units(3, 0, 8), "settings": connect4.DEFAULTS, "round": 1}


def test_loading_again_starts_with_an_empty_optimizer_and_without_an_opponent():
    start, driver = connect4.initial_weights(), connect4.instance(connect4.initial_weights(8))
    driver.run("train", REQUEST)
    driver.load(start)
    assert "call loadAuxiliary first" in driver.run("train", REQUEST)["error"]
    driver.run("loadAuxiliary", {"id": "opponent", "weights": driver.put(start)})
    result = driver.run("train", REQUEST)
    assert bytes(driver.read(**result["weights"])) == connect4.train(start)["weights"]


def test_training_works_in_the_buffer_that_was_loaded_and_leaves_the_opponent_alone():
    """Nothing is copied twice: what comes back is the host's own buffer, changed."""
    driver, start = connect4.instance(), connect4.initial_weights()
    weights = driver.put(start)
    assert driver.run("loadModel", {"weights": weights}) == {}
    opponent = driver.put(start)
    assert driver.run("loadAuxiliary", {"id": "opponent", "weights": opponent}) == {}
    assert driver.run("train", REQUEST)["weights"] == weights
    assert driver.read(**weights) != start == driver.read(**opponent)


def test_repeated_work_does_not_leak():
    driver, start = connect4.instance(connect4.initial_weights()), connect4.initial_weights()
    request, sizes = {**REQUEST, "experience": connect4.units(3, 0, 1)}, []
    for _ in range(60):
        driver.load(start)
        for _ in range(2):
            assert driver.run("loadAuxiliary", {"id": "opponent", "weights": driver.put(start)}) == {}
        assert "error" not in driver.run("train", request)
        sizes.append(driver.memory.size(driver.store))
    assert sizes[0] == sizes[-1]


def test_the_largest_batch_fits_the_declared_memory():
    """Without playing it: a module whose memory is full says how much it needs, and another one has that much."""
    request = {**REQUEST, "experience": connect4.units(3, 0, 4096), "settings": {"localEpochs": 1, "batchSize": 4096}}
    full = connect4.instance(connect4.initial_weights())
    kept = full.put(bytes(4096))
    for size in (1 << bits for bits in range(24, 3, -1)):
        while full.call("alloc", size):
            pass
    full.free(kept)
    answer = re.fullmatch(r"out of memory: 4096 games need (\d+) bytes", full.run("train", request)["error"])
    assert answer is not None
    assert connect4.instance(connect4.initial_weights()).call("alloc", int(answer[1]) + 4096)


def test_evaluates_against_both_rivals_from_both_sides():
    """Of four games in a row the first two are against random moves; each number has its own game."""
    weights = connect4.initial_weights()
    whole = connect4.evaluate(weights, count=40)["metrics"]
    single = [connect4.evaluate(weights, start=number, count=1)["metrics"] for number in range(40)]
    assert [list(metrics) for metrics in single] == 10 * [*2 * [["winsRandom"]], *2 * [["winsAlphaBeta"]]]
    for rival in ("winsRandom", "winsAlphaBeta"):
        scores = [metrics[rival] for metrics in single if rival in metrics]
        assert set(scores) <= {0, 0.5, 1} and whole[rival] == pytest.approx(np.mean(scores))
    assert len({score for metrics in single for score in metrics.values()}) > 1


def test_evaluation_games_differ():
    """Against the same network only the seed tells them apart."""
    weights = connect4.train(connect4.initial_weights(), count=64)["weights"]
    assert len({connect4.evaluate(weights, seed)["metrics"]["winsRandom"] for seed in range(8)}) > 1
