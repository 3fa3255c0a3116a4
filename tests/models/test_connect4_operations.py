"""Each operation of the Connect Four module on honest requests."""

import hashlib
import json

from reference_models.connect4 import make_package
from reference_models.packaging import described, inline_text
from tests.models import connect4
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.dataset_manifest import FoundFile
from weei_core.model_info import check_against_weights, parse_model_info
from weei_core.model_package import check_package_against_module, parse_package
from weei_core.training_settings import parse_settings

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
