"""Each operation of the CartPole module on honest requests."""

import hashlib
import json
import struct
from pathlib import Path

import pytest

from reference_models.cartpole import make_package
from reference_models.packaging import described, inline_text
from tests.models import cartpole
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.dataset_manifest import FoundFile
from weei_core.model_info import check_against_weights, parse_model_info
from weei_core.model_package import check_package_against_module, parse_package
from weei_core.training_settings import parse_settings

GOLDEN = json.loads(Path(__file__).with_name("golden_cartpole.json").read_text())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def model_info():
    return parse_model_info(cartpole.instance().run("getModelInfo", {}))


def test_has_the_interface_of_the_abi_and_a_memory_maximum():
    check_interface(cartpole.MODULE)
    assert [(entry.module, entry.name) for entry in cartpole.MODULE.imports] == [("weei", "onProgress")]
    assert memory_maximum_pages(cartpole.MODULE) == 640


def test_describes_itself_as_an_experience_model():
    info = model_info()
    check_against_weights(info, 456)
    assert (info.id, info.metric_ids, info.max_workers) == ("cartpole-reinforce", frozenset({"episodeReturn"}), 4)
    assert info.metrics[0].direction == "maximize" and not info.reads_data and info.auxiliary_weights == ()
    assert info.work_source.model_dump(by_alias=True) == make_package.WORK_SOURCE
    assert info.capabilities.evaluation and info.capabilities.inference and info.inference["view"] == "cartpole"


def test_the_package_is_valid_and_its_script_writes_the_committed_one():
    """A rebuilt module without a new package would fail here."""
    content = cartpole.FOLDER.joinpath("data", "package.json").read_bytes()
    assert content == inline_text(make_package.package())
    package, wasm = parse_package(content), cartpole.FOLDER / "cartpole.wasm"
    module = FoundFile(*described(wasm.name, wasm.read_bytes()).values())
    check_package_against_module(package, model_info(), 456, module)
    assert package.is_experience and package.manifest.chunks == ()


def test_the_preset_names_files_that_exist_and_settings_that_the_model_takes():
    preset = json.loads(cartpole.FOLDER.joinpath("preset.json").read_text())
    assert preset["files"] == []
    assert all(cartpole.FOLDER.joinpath(preset[name]).is_file() for name in ("module", "manifest"))
    parse_settings(preset["settings"], for_experience=True, info=model_info(), weight_bytes=456)


def test_initial_weights_follow_the_seed():
    assert sha256(cartpole.initial_weights(7)) == GOLDEN["initialWeights"]["sha256"]
    assert cartpole.initial_weights(8) != cartpole.initial_weights(7)
    values = struct.unpack("<114f", cartpole.initial_weights(2**64 - 1))
    assert max(map(abs, values[:80])) <= 0.5 and max(map(abs, values[80:])) <= 0.25


def test_the_same_request_gives_the_same_bits():
    """The hash is the same on every host and machine: other hosts are tested against the same file."""
    golden = GOLDEN["train"]
    start, experience = cartpole.initial_weights(7), golden["experience"]
    asked = (int(experience["seed"]), experience["unitStart"], experience["unitCount"], golden["settings"])
    first, second = (cartpole.train(start, *asked) for _ in range(2))
    assert first == second
    assert (sha256(first["weights"]), first["metrics"]) == (golden["weightsSha256"], golden["metrics"])
    measured = cartpole.evaluate(first["weights"], int(GOLDEN["evaluate"]["seed"]))
    assert measured == {"metrics": GOLDEN["evaluate"]["metrics"], "examplesProcessed": 32}


def test_other_units_and_another_seed_are_other_episodes():
    start = cartpole.initial_weights()
    results = [cartpole.train(start, seed, first)["weights"] for seed, first in ((3, 0), (3, 32), (4, 0))]
    assert len(set(results)) == 3


def test_counts_units_and_updates():
    """A last batch that is not full counts as an update; local epochs repeat updates, not episodes."""
    result = cartpole.train(cartpole.initial_weights(), count=20, settings={"localEpochs": 3, "batchSize": 8})
    assert result["uniqueExamples"] == result["examplesProcessed"] == 20
    assert result["optimizerSteps"] == 9
    assert set(result["metrics"]) == {"episodeReturn"}


def test_reports_every_update_with_the_units_finished():
    result = cartpole.train(cartpole.initial_weights(), count=20, settings={"localEpochs": 2, "batchSize": 8})
    reports = result["progress"]
    assert [report["processedExamples"] for report in reports] == [8, 8, 16, 16, 20, 20]
    assert [report["optimizerSteps"] for report in reports] == [1, 2, 3, 4, 5, 6]
    assert {report["totalExamples"] for report in reports} == {20}
    assert reports[-1]["metrics"] == result["metrics"]


def test_episodes_do_not_depend_on_batches():
    """At a rate that moves no weight, units played in one batch, in several or in two assignments are the same."""
    start = cartpole.initial_weights()
    still = {"localEpochs": 1, "learningRate": 1e-9}
    whole = cartpole.train(start, count=24, settings={**still, "batchSize": 24})
    parts = cartpole.train(start, count=24, settings={**still, "batchSize": 7})
    halves = [cartpole.train(start, start=at, count=12, settings={**still, "batchSize": 5}) for at in (0, 12)]
    mean = sum(half["metrics"]["episodeReturn"] for half in halves) / 2
    assert whole["metrics"] == parts["metrics"] and whole["metrics"]["episodeReturn"] == pytest.approx(mean, abs=1e-6)


def test_a_left_out_learning_rate_is_the_documented_default():
    start = cartpole.initial_weights()
    stated, other = (
        cartpole.train(start, settings={**cartpole.DEFAULTS, "learningRate": rate})["weights"] for rate in (0.05, 0.06)
    )
    assert stated == cartpole.train(start)["weights"] != other


def test_loading_again_starts_with_an_empty_optimizer():
    start = cartpole.initial_weights()
    driver = cartpole.instance(cartpole.initial_weights(8))
    request = {"experience": cartpole.units(3, 0, 32), "settings": cartpole.DEFAULTS, "round": 1}
    driver.run("train", request)
    driver.load(start)
    result = driver.run("train", request)
    assert bytes(driver.read(**result["weights"])) == cartpole.train(start)["weights"]


def test_training_works_in_the_buffer_that_was_loaded():
    """Nothing is copied twice: what comes back is the host's own buffer, changed."""
    driver = cartpole.instance()
    weights = driver.put(cartpole.initial_weights())
    assert driver.run("loadModel", {"weights": weights}) == {}
    request = {"experience": cartpole.units(3, 0, 4), "settings": cartpole.DEFAULTS, "round": 1}
    assert driver.run("train", request)["weights"] == weights


def test_repeated_work_does_not_leak():
    driver = cartpole.instance(cartpole.initial_weights())
    request = {"experience": cartpole.units(3, 0, 16), "settings": cartpole.DEFAULTS, "round": 1}
    driver.run("train", request)
    size = driver.memory.size(driver.store)
    for _ in range(100):
        driver.load(cartpole.initial_weights())
        assert "error" not in driver.run("train", request)
    assert driver.memory.size(driver.store) == size


def test_the_largest_batch_fits_the_declared_memory():
    settings = {"localEpochs": 1, "batchSize": 1_000_000}
    result = cartpole.train(cartpole.initial_weights(), count=4096, settings=settings)
    assert (result["uniqueExamples"], result["optimizerSteps"]) == (4096, 1)


def test_predicts_the_first_evaluation_episode_of_its_seed():
    for seed in range(20):
        output = cartpole.predict(cartpole.initial_weights(seed), seed)
        measured = cartpole.evaluate(cartpole.initial_weights(seed), seed, count=1)
        assert output["return"] == len(output["steps"]) == measured["metrics"]["episodeReturn"]


def test_a_whole_episode_fits_a_result():
    """The longest one: 500 steps, most of them with four decimals and a sign."""
    weights = cartpole.initial_weights(1)
    for start in range(0, 512, 64):
        weights = cartpole.train(weights, start=start, count=64)["weights"]
    outputs = [cartpole.predict(weights, seed) for seed in range(10)]
    assert max(output["return"] for output in outputs) == 500
    assert all(round(x, 4) == x and round(theta, 4) == theta for x, theta, _ in outputs[0]["steps"])
    assert {action for output in outputs for *_, action in output["steps"]} == {0, 1}
