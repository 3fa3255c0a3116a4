"""The test module `aux-echo`: what its docstring promises, and that the committed files belong together."""

import hashlib
import struct

import pytest
from wasmtime import Engine, Module

from tests.models import auxiliary
from tests.models.auxiliary.build import files
from tests.models.driver import Driver
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.dataset_manifest import FoundFile
from weei_core.model_info import check_against_weights, parse_model_info
from weei_core.model_package import check_package_against_module, parse_package

ENGINE = Engine()
LOADED = Module.from_file(ENGINE, str(auxiliary.MODULE))
SETTINGS = {"localEpochs": 1, "batchSize": 16}
EXPERIENCE = {"seed": "18446744073709551615", "unitStart": 4097, "unitCount": 5}
UNITS = {"seed": 2**64 - 1, "unit_start": 4097, "unit_count": 5}
WEIGHTS = struct.pack("<7f", 1.1, -2, 0.3, 0.7, 5, 6, 7)
FILLED = [
    auxiliary.REWARD.read_bytes(),
    struct.pack("<7f", 0.1, *range(6)),
    struct.pack("<7f", -12.34, *range(6)),
]


def instance(slots=3):
    """A fresh instance with weights and the first `slots` auxiliary weights loaded."""
    driver = Driver(ENGINE, LOADED)
    driver.load(WEIGHTS)
    for slot, content in list(zip(auxiliary.SLOTS, FILLED, strict=True))[:slots]:
        assert driver.run("loadAuxiliary", {"id": slot, "weights": driver.put(content)}) == {}
    return driver


def work(**changes):
    return {"experience": EXPERIENCE, "settings": SETTINGS, "round": 3, **changes}


def test_the_committed_files_are_what_the_build_writes():
    for name, content in files().items():
        assert auxiliary.FOLDER.joinpath(name).read_bytes() == content, f"{name}: {auxiliary.build.__doc__}"


def test_the_package_is_valid_and_fits_the_module():
    check_interface(LOADED)
    assert memory_maximum_pages(LOADED) == 16
    info = parse_model_info(Driver(ENGINE, LOADED).run("getModelInfo", {}))
    check_against_weights(info, 28)
    package = parse_package(auxiliary.PACKAGE.read_bytes())
    content = auxiliary.MODULE.read_bytes()
    found = FoundFile("aux-echo.wasm", len(content), hashlib.sha256(content).hexdigest())
    check_package_against_module(package, info, 28, found)
    reward = auxiliary.REWARD.read_bytes()
    assert package.auxiliary_files == (("reward", "reward.bin", len(reward), hashlib.sha256(reward).hexdigest()),)
    assert [slot.id for slot in info.auxiliary_weights] == list(auxiliary.SLOTS)
    assert info.max_workers == 3


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_initial_weights_are_bytes_of_the_seed(seed):
    driver = Driver(ENGINE, LOADED)
    made = driver.read(**driver.run("createInitialWeights", {"seed": str(seed)}))
    assert made == auxiliary.initial_weights(seed)


def test_a_training_is_the_expected_update_bit_for_bit():
    driver = instance()
    result = driver.run("train", work())
    assert driver.read(**result["weights"]) == auxiliary.expected_update(WEIGHTS, FILLED, round=3, **UNITS)
    assert result["metrics"] == pytest.approx(auxiliary.expected_metrics(WEIGHTS, FILLED, **UNITS), rel=1e-8)
    assert [report["processedExamples"] for report in driver.progress] == [5]


@pytest.mark.parametrize(
    "changes",
    [{"round": 4}, {"seed": 1}, {"unit_start": 4098}, {"unit_count": 6}, {"slot": 0}, {"slot": 1}, {"slot": 2}],
)
def test_every_input_changes_the_expected_update(changes):
    """Otherwise a test that compares with it would not notice a wrong input."""
    slot, filled = changes.pop("slot", None), list(FILLED)
    if slot is not None:
        filled[slot] = struct.pack("<f", 9) + filled[slot][4:]
    asked = {"round": 3, **UNITS}
    assert auxiliary.expected_update(WEIGHTS, filled, **{**asked, **changes}) != auxiliary.expected_update(
        WEIGHTS, FILLED, **asked
    )


def test_an_evaluation_gives_the_expected_metrics_and_changes_nothing():
    driver = instance()
    asked = {"experience": EXPERIENCE, "settings": SETTINGS}
    measured = driver.run("evaluate", asked)
    assert measured["metrics"] == pytest.approx(auxiliary.expected_metrics(WEIGHTS, FILLED, **UNITS), rel=1e-8)
    assert measured["examplesProcessed"] == 5
    assert driver.run("evaluate", asked) == measured


@pytest.mark.parametrize(("batch_size", "finished"), [(16, 5), (7, 2), (9, 0)])
def test_the_batch_size_says_how_many_units_are_finished(batch_size, finished):
    driver = instance()
    result = driver.run("train", work(settings={"localEpochs": 1, "batchSize": batch_size}))
    assert result["uniqueExamples"] == result["examplesProcessed"] == finished
    assert auxiliary.finished_units(5, batch_size) == finished
    assert driver.read(**result["weights"]) == auxiliary.expected_update(WEIGHTS, FILLED, round=3, **UNITS)


@pytest.mark.parametrize(("slots", "missing"), [(0, "reward"), (1, "start"), (2, "old")])
@pytest.mark.parametrize("operation", ["train", "evaluate"])
def test_work_before_all_slots_are_loaded_is_refused(operation, slots, missing):
    refusal = instance(slots).run(operation, work())
    assert refusal == {"error": f"the auxiliary weights {missing} are not loaded: call loadAuxiliary first"}


@pytest.mark.parametrize("operation", ["loadAuxiliary", "train", "evaluate"])
def test_weights_come_first(operation):
    driver = Driver(ENGINE, LOADED)
    request = {"id": "reward", "weights": driver.put(FILLED[0]), **work()}
    assert driver.run(operation, request) == {"error": "no weights are loaded: call loadModel first"}


def test_each_load_of_the_weights_asks_for_the_slots_again():
    driver = instance()
    driver.load(WEIGHTS)
    assert "reward are not loaded" in driver.run("train", work())["error"]
    pages = driver.memory.size(driver.store)
    for _ in range(1000):
        for slot, content in zip(auxiliary.SLOTS, FILLED, strict=True):
            driver.run("loadAuxiliary", {"id": slot, "weights": driver.put(content)})
        driver.load(WEIGHTS)
    assert driver.memory.size(driver.store) == pages


@pytest.mark.parametrize(
    ("slots", "slot", "content", "part"),
    [
        (0, "start", FILLED[1], "id is not reward"),
        (1, "reward", FILLED[0], "id is not start"),
        (1, "old", FILLED[2], "id is not start"),
        (2, "start", FILLED[1], "id is not old"),
        (3, "old", FILLED[2], "all auxiliary weights are loaded already"),
        (0, "reward", FILLED[1], "weights has 28 bytes, allowed: 8"),
        (0, "reward", b"", "weights has 0 bytes"),
        (1, "start", FILLED[0], "weights has 8 bytes, allowed: 28"),
        (2, "old", FILLED[2] + bytes(4), "weights has 32 bytes"),
        (0, "reward", struct.pack("<2f", 1, float("inf")), "not finite"),
    ],
)
def test_slots_in_another_order_or_of_another_size_are_refused(slots, slot, content, part):
    driver = instance(slots)
    assert part in driver.run("loadAuxiliary", {"id": slot, "weights": driver.put(content)})["error"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"experience": {**EXPERIENCE, "seed": 7}}, "seed"),
        ({"experience": {**EXPERIENCE, "unitStart": -1}}, "experience.unitStart is -1"),
        ({"experience": {**EXPERIENCE, "unitCount": 0}}, "experience.unitCount is 0"),
        ({"experience": {**EXPERIENCE, "unitCount": 1001}}, "experience.unitCount is 1001"),
        ({"experience": None}, "experience is not an object"),
        ({"settings": {}}, "settings.localEpochs is missing"),
        ({"round": 0}, "round is 0"),
    ],
    ids=str,
)
def test_malformed_work_is_refused(changes, part):
    assert part in instance().run("train", work(**changes))["error"]
