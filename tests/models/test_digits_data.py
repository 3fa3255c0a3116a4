"""The committed data: what its script writes, what its manifest says, what the preset names."""

import importlib.util
import json

import numpy as np

from tests.models import digits
from weei_core.abi.module import has_export
from weei_core.dataset_manifest import FoundFile, check_manifest_against_model, match_files, parse_manifest
from weei_core.model_info import parse_model_info
from weei_core.model_package import (
    check_package_against_module,
    check_selected_module,
    check_validation_file,
    parse_package,
)

DATA = digits.FOLDER / "data"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, digits.FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_script_writes_the_committed_files(tmp_path):
    load_script("make_data").make(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 14
    assert written == {path.name: path.read_bytes() for path in DATA.iterdir() if path.name in written}


def test_the_manifest_matches_files_and_model():
    driver = digits.instance()
    info = parse_model_info(driver.run("getModelInfo", {}))
    manifest = parse_manifest(DATA.joinpath("manifest.json").read_bytes(), info)
    check_manifest_against_model(manifest, info)
    script = load_script("make_data")
    found = [
        FoundFile(entry["fileName"], entry["bytes"], entry["sha256"])
        for path in digits.CHUNKS
        for entry in [script.entry(path.stem, path.name, path.read_bytes(), 125)]
    ]
    match_files(manifest, found)
    assert manifest.total_examples == 1500 and len(manifest.chunks) == 12
    assert has_export(digits.MODULE, "inspectData")
    for path in digits.CHUNKS:
        data = digits.data_of(driver, path.read_bytes())
        assert driver.run("inspectData", {"data": data}) == {"exampleCount": 125}


def test_the_package_is_valid_and_its_script_writes_the_committed_one():
    """A rebuilt module or changed data without a new package would fail here."""
    content = DATA.joinpath("package.json").read_bytes()
    script = load_script("make_package")
    assert content == script.inline_text(script.package())
    package = parse_package(content)
    files = [digits.FOLDER / "digits.wasm", DATA / "validation.bin"]
    module, validation = (FoundFile(*script.described(path.name, path.read_bytes()).values()) for path in files)
    check_selected_module(package, module)
    check_validation_file(package, validation)
    info = parse_model_info(digits.instance().run("getModelInfo", {}))
    check_package_against_module(package, info, 9640, module)


def test_every_image_is_used_once_and_every_chunk_has_every_digit():
    contents = [path.read_bytes()[16:] for path in [*digits.CHUNKS, DATA / "validation.bin"]]
    tables = [np.frombuffer(content, "u1").reshape(-1, 65) for content in contents]
    assert sum(len(table) for table in tables) == 1797 == len(np.unique(np.concatenate(tables), axis=0))
    assert all(set(table[:, 64]) == set(range(10)) for table in tables)


def test_the_preset_names_files_that_exist():
    preset = json.loads(digits.FOLDER.joinpath("preset.json").read_text())
    named = [preset["module"], preset["manifest"], preset["validation"], *preset["files"]]
    assert all(digits.FOLDER.joinpath(name).is_file() for name in named)
    assert [digits.FOLDER / name for name in preset["files"]] == digits.CHUNKS
