"""The bandit's committed data: what its scripts write, and that package, files and module belong together."""

import json

from reference_models.bandit import make_data, make_package
from reference_models.packaging import described, inline_text
from tests.models import bandit
from weei_core.dataset_manifest import FoundFile, match_files
from weei_core.model_info import parse_model_info
from weei_core.model_package import check_package_against_module, check_validation_file, parse_package

DATA = bandit.FOLDER / "data"


def test_the_script_writes_the_committed_files(tmp_path):
    make_data.make(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 6
    assert written == {path.name: path.read_bytes() for path in DATA.iterdir() if path.name in written}


def test_the_package_is_valid_and_its_script_writes_the_committed_one():
    """A rebuilt module or changed data without a new package would fail here."""
    content = DATA.joinpath("package.json").read_bytes()
    assert content == inline_text(make_package.package())
    package = parse_package(content)
    module, validation, *chunks = (
        FoundFile(*described(path.name, path.read_bytes()).values())
        for path in [bandit.FOLDER / "bandit.wasm", DATA / "validation.bin", *bandit.CHUNKS]
    )
    info = parse_model_info(bandit.instance().run("getModelInfo", {}))
    check_package_against_module(package, info, 60, module)
    check_validation_file(package, validation)
    match_files(package.manifest, chunks)
    assert package.is_experience and package.manifest.total_examples == 200


def test_every_file_holds_as_many_records_as_the_manifest_says():
    entries = {
        entry["fileName"]: entry["exampleCount"] for entry in json.loads(DATA.joinpath("manifest.json").read_text())
    }
    assert list(entries.values()) == [40, 64, 25, 71]
    for name, count in {**entries, "validation.bin": 120}.items():
        driver = bandit.instance()
        data = {**driver.put(DATA.joinpath(name).read_bytes()), "format": bandit.FORMAT}
        assert driver.run("inspectData", {"data": data}) == {"exampleCount": count}
