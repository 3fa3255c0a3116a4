import hashlib
import json
from typing import Any

import pytest

from weei_core.dataset_manifest import FoundFile
from weei_core.errors import Invalid
from weei_core.schema_types import validate
from weei_core.wgsl_archive import ShaderArchive, check_archive_file, check_archive_modules, parse_wgsl_archive

CODE = "@compute @workgroup_size(64) fn main() {}\n// é\n"


def module(id_: str = "matmul", code: str = CODE, **changes: object) -> dict[str, Any]:
    return {"id": id_, "sha256": hashlib.sha256(code.encode()).hexdigest(), "code": code, **changes}


def archive_of(*modules: object, **changes: object) -> bytes:
    value = {"schema": "weei-wgsl-archive", "schemaVersion": 1, "modules": list(modules), **changes}
    return json.dumps(value).encode()


def declared(data: bytes, *modules: dict[str, Any]) -> ShaderArchive:
    refs = [{"id": item["id"], "sha256": item["sha256"]} for item in modules]
    value = {
        "fileName": "shaders.json",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "modules": refs,
    }
    return validate(ShaderArchive, value, "shaderArchive")


def found(data: bytes, name: str = "shaders.json") -> FoundFile:
    return FoundFile(name, len(data), hashlib.sha256(data).hexdigest())


def test_reads_an_archive_and_matches_it_with_the_package():
    data = archive_of(module(), module("adam", "fn f() {}"))
    archive = parse_wgsl_archive(data)
    assert [(item.id, item.code) for item in archive.modules] == [("matmul", CODE), ("adam", "fn f() {}")]
    package = declared(data, module(), module("adam", "fn f() {}"))
    check_archive_file(found(data), package)
    check_archive_modules(archive, package)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (archive_of(module(), schema="weei-glsl-archive"), r"wgslArchive\.schema must be 'weei-wgsl-archive'"),
        (archive_of(module(), schemaVersion=2), r"schemaVersion must be at most 1; found 2"),
        (archive_of(), r"modules must be a list of at least 1; found 0"),
        (archive_of(*(module(f"m{i}") for i in range(65))), r"modules must be a list of at most 64; found 65"),
        (archive_of(module(), module()), r"ids that differ; found \"matmul\" twice"),
        (archive_of(module(sha256="0" * 64)), r"wgslArchive\.modules\[0\]\.sha256 must be the hash of the code"),
        (
            archive_of(module(code="x" * (2**20 + 1))),
            r"modules\[0\]\.code must be at most 1048576 bytes; found 1048577",
        ),
        (archive_of({"id": "a", "sha256": "0" * 64}), r"modules\[0\]\.code is missing"),
        (b"<html>", "not valid JSON"),
        (b"[]", r"must be an object; found a list"),
    ],
)
def test_refuses(data, said):
    """F12, F13."""
    with pytest.raises(Invalid, match=said):
        parse_wgsl_archive(data)


def test_takes_a_module_of_1_mib():
    assert len(parse_wgsl_archive(archive_of(module(code="x" * 2**20))).modules[0].code) == 2**20


def test_a_wgsl_file_needs_a_package_that_declares_it():
    """F12."""
    data = archive_of(module())
    with pytest.raises(Invalid, match="needs a model package"):
        check_archive_file(found(data), None)
    for wrong in (found(data, "other.json"), found(data + b" ")):
        with pytest.raises(Invalid, match="must be the package's shaderArchive") as refused:
            check_archive_file(wrong, declared(data, module()))
        assert refused.value.field == "executionFiles"


def test_the_archive_holds_the_listed_modules_and_no_others():
    data = archive_of(module())
    archive = parse_wgsl_archive(data)
    with pytest.raises(Invalid, match='"adam" is missing'):
        check_archive_modules(archive, declared(data, module(), module("adam")))
    with pytest.raises(Invalid, match='"matmul" must be a module that the package lists'):
        check_archive_modules(archive, declared(data, module("adam")))
    with pytest.raises(Invalid, match='"matmul" must be 000000'):
        check_archive_modules(archive, declared(data, module(sha256="0" * 64)))
