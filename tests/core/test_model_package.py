import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weei_core import js_json
from weei_core.dataset_manifest import DatasetManifest, FoundFile
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.model_package import (
    ModelPackage,
    check_package_against_module,
    check_selected_module,
    check_validation_file,
    parse_any_manifest,
    parse_package,
)

GOLDEN_FOLDER = Path(__file__).parent.parent / "golden"
GOLDEN = json.loads((GOLDEN_FOLDER / "manifests.json").read_text(encoding="utf-8"))
INFOS = json.loads((GOLDEN_FOLDER / "model_info.json").read_text(encoding="utf-8"))
HASH = "ab" * 32
MODULE = FoundFile("model.wasm", 123351, HASH)
SLOT = {"id": "reward", "role": "reward-model", "bytes": 16, "sha256": HASH}
GPU = {
    "id": "gpu",
    "kind": "gpu",
    "runtime": "weei-device-program-v1",
    "artifacts": [],
    "requiredFeatures": ["webgpu"],
}
ARCHIVE = {"fileName": "shaders.json", "bytes": 9, "sha256": HASH, "modules": [{"id": "adam", "sha256": HASH}]}

Value = dict[str, Any]


def describe(value: Value, file_name: str, ending: bytes = b"\n") -> Value:
    text = js_json.inline_text(value["inlineJson"][file_name])[:-1] + ending
    return {"fileName": file_name, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def experience_value() -> Value:
    """The founding example with real hashes and sizes."""
    value = copy.deepcopy(GOLDEN["seedPackage"])
    value["wasm"]["sha256"] = value["execution"]["backends"][0]["artifacts"][0]["sha256"] = HASH
    return described(value)


def dataset_value(chunks: list[Value] | None = None) -> Value:
    value = experience_value()
    del value["workSource"]
    value["execution"]["modelId"] = value["inlineJson"]["compatibility.json"]["identity"]["modelId"] = "my-model"
    value["inlineJson"]["dataset-manifest.json"] = [GOLDEN["chunk"]] if chunks is None else chunks
    return described(value)


def described(value: Value, ending: bytes = b"\n") -> Value:
    value["execution"]["compatibility"] = describe(value, "compatibility.json", ending)
    value["execution"]["datasetManifest"] = describe(value, "dataset-manifest.json", ending)
    return value


def parse(value: Value) -> ModelPackage:
    return parse_package(json.dumps(value).encode())


def refusal(value: Value) -> Invalid:
    with pytest.raises(Invalid) as refused:
        parse(value)
    return refused.value


def experience_info(**changes: object) -> ModelInfo:
    return parse_model_info({**INFOS["experience"], **changes})


def dataset_info(**changes: object) -> ModelInfo:
    return parse_model_info({**INFOS["dataset"], **changes})


def test_reads_an_experience_package():
    package = parse(experience_value())
    assert (package.is_experience, package.manifest.chunks, package.auxiliary_files) == (True, (), ())
    assert package.file.execution.backends[0].estimated_working_bytes == 4194304
    assert package.text == json.dumps(experience_value())


def test_reads_a_dataset_package():
    package = parse(dataset_value())
    assert (package.is_experience, [chunk.id for chunk in package.manifest.chunks]) == (False, ["chunk-001"])


def test_rejects_the_founding_example_as_printed():
    """O4: its hashes are left out and its compatibility file is 126 bytes long, not 640."""
    assert refusal(GOLDEN["seedPackage"]).field == "package.wasm.sha256"
    value = experience_value()
    assert value["execution"]["compatibility"]["bytes"] == 126
    value["execution"]["compatibility"]["bytes"] = 640
    assert refusal(value).message == (
        "package.execution.compatibility.bytes must be 126, the size of the inline file; found 640."
    )


@pytest.mark.parametrize("ending", [b"\n", b" "])
def test_inline_files_end_in_a_line_feed_or_a_space(ending):
    """O3."""
    parse(described(experience_value(), ending))


@pytest.mark.parametrize("ending", [b"", b"\n\n", b"\t"])
def test_refuses_other_endings(ending):
    assert "execution.compatibility." in refusal(described(experience_value(), ending)).message


def test_inline_files_are_hashed_as_javascript_writes_them():
    """C51: Python's own text would have another hash."""
    value = experience_value()
    value["inlineJson"]["compatibility.json"]["rates"] = {"10": 1e-7, "9": 1e16, "third": 1.0, "é": -0.0}
    parse(described(value))
    text = json.dumps(value["inlineJson"]["compatibility.json"], indent=2) + "\n"
    found = hashlib.sha256(text.encode()).hexdigest()
    value["execution"]["compatibility"] |= {"bytes": len(text.encode()), "sha256": found}
    assert refusal(value).field == "package.execution.compatibility.bytes"


def put(*path: Any, value: object) -> Callable[[Value], None]:
    def change(package: Value) -> None:
        holder: Any = package
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value

    return change


BACKEND = ("execution", "backends", 0)
COMPATIBILITY = ("inlineJson", "compatibility.json")
POLICY = ("execution", "policy")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("schema", value="weei-package"), "package.schema"),
        (put("schemaVersion", value=2), "package.schemaVersion"),
        (put("schemaVersion", value=True), "package.schemaVersion"),
        (put("hostRuntime", "id", value="other"), "package.hostRuntime.id"),
        (put("hostRuntime", "delivery", value="download"), "package.hostRuntime.delivery"),
        (put("wasm", "fileName", value="../model.wasm"), "package.wasm.fileName"),
        (put("workSource", "kind", value="stream"), "package.workSource.kind"),
        (put("auxiliaryWeights", value=[SLOT]), "package.auxiliaryWeights[0]"),
        (
            put("auxiliaryWeights", value=[{**SLOT, "fileName": f"{i}", "id": f"{i}"} for i in range(9)]),
            "package.auxiliaryWeights",
        ),
        (
            put("auxiliaryWeights", value=[{**SLOT, "fileName": "a", "id": i} for i in ("x", "y")]),
            "package.auxiliaryWeights",
        ),
        (
            put("auxiliaryWeights", value=[{**SLOT, "fileName": i} for i in ("a", "b")]),
            "package.auxiliaryWeights",
        ),
        (put("execution", "schema", value="x"), "package.execution.schema"),
        (put("execution", "weightFormat", value="float16-le"), "package.execution.weightFormat"),
        (put("execution", "backends", value=[]), "package.execution.backends"),
        (put(*BACKEND, "kind", value="tpu"), "package.execution.backends[0].kind"),
        (put(*BACKEND, "runtime", value="weei-device-program-v1"), "package.execution.backends[0]"),
        (put(*BACKEND, "artifacts", value=[]), "package.execution.backends[0].artifacts"),
        (put(*BACKEND, "artifacts", 0, "bytes", value=1), "package.execution.backends[0].artifacts"),
        (put(*BACKEND, "requiredFeatures", value=["wasm-threads"]), "package.execution.backends[0].requiredFeatures"),
        (put(*BACKEND, "requiredFeatures", value=["webgpu"]), "package.execution.backends[0].requiredFeatures"),
        (put(*BACKEND, "estimatedWorkingBytes", value=-1), "package.execution.backends[0].estimatedWorkingBytes"),
        (
            put(*BACKEND, "minimumDeviceLimits", value={"maxBufferSize": "1"}),
            "package.execution.backends[0].minimumDeviceLimits.maxBufferSize",
        ),
        (put(*POLICY, "cpuFallback", value="none"), "package.execution.policy.cpuFallback"),
        (put(*POLICY, "aggregationOwner", value="server"), "package.execution.policy.aggregationOwner"),
        (put(*POLICY, "assignmentExecution", value="shared"), "package.execution.policy.assignmentExecution"),
        (put(*POLICY, "preference", value=["gpu"]), "package.execution.policy.preference[0]"),
        (put("inlineJson", value={}), "package.execution.compatibility.fileName"),
        (put("inlineJson", "dataset-manifest.json", value=[7]), "package.execution.datasetManifest.bytes"),
        (put("execution", "datasetManifest", "sha256", value=HASH), "package.execution.datasetManifest.sha256"),
        (put("execution", "compatibility", "sha256", value=HASH), "package.execution.compatibility.sha256"),
    ],
)
def test_refuses(change, field):
    """F11, F12."""
    value = experience_value()
    change(value)
    error = refusal(value)
    assert error.field == field
    assert error.message.startswith(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put(*COMPATIBILITY, "identity", "modelId", value="other"), "identity.modelId"),
        (put(*COMPATIBILITY, "weightBytes", value=460), "weightBytes"),
        (put(*COMPATIBILITY, "weightCount", value=115), "weightCount"),
        (put(*COMPATIBILITY, value=[]), ""),
    ],
)
def test_the_compatibility_file_names_the_same_model(change, field):
    value = experience_value()
    change(value)
    path = 'package.inlineJson["compatibility.json"]'
    assert refusal(described(value)).field == (f"{path}.{field}" if field else path)


@pytest.mark.parametrize("field", list(experience_value()))
def test_names_a_missing_field(field):
    value = experience_value()
    del value[field]
    optional = {"auxiliaryWeights"}
    if field == "workSource":  # what is left is a dataset package that lists no chunks
        assert "list 1 to 10000 chunks" in refusal(value).message
    elif field in optional:
        parse(value)
    else:
        assert refusal(value).message == f"package.{field} is missing."


def test_without_inputs_there_are_no_chunks_and_no_validation_file():
    value = experience_value()
    value["inlineJson"]["dataset-manifest.json"] = [GOLDEN["chunk"]]
    assert "must be empty" in refusal(described(value)).message
    value = experience_value()
    value["validation"] = {"fileName": "v", "bytes": 4, "sha256": HASH, "format": "f", "exampleCount": 1}
    assert refusal(value).field == "package.validation"


def test_with_inputs_there_are_chunks():
    value = experience_value()
    value["workSource"]["inputs"] = "dataset"
    assert "list 1 to 10000 chunks" in refusal(value).message
    value["inlineJson"]["dataset-manifest.json"] = [GOLDEN["chunk"]]
    assert len(parse(described(value)).manifest.chunks) == 1


def test_a_wrong_chunk_is_named_inside_the_package():
    error = refusal(dataset_value([{**GOLDEN["chunk"], "bytes": True}]))
    assert error.message == (
        'Chunk "chunk-001": package.inlineJson["dataset-manifest.json"][0].bytes must be a whole number; found true.'
    )


def test_a_gpu_backend_comes_with_its_shader_archive():
    """F12."""
    value = experience_value()
    value["execution"]["backends"].append(GPU)
    assert "come with a shaderArchive" in refusal(value).message
    value["shaderArchive"] = ARCHIVE
    package = parse(value)
    assert package.file.shader_archive is not None
    value["workSource"]["inputs"] = "dataset"
    value["inlineJson"]["dataset-manifest.json"] = [GOLDEN["chunk"]]
    assert refusal(described(value)).field == "package.execution.backends[1]"


def test_there_is_a_cpu_backend():
    value = experience_value()
    value["execution"]["backends"] = [GPU]
    value["execution"]["policy"]["preference"] = ["gpu"]
    assert refusal(value).message == "package.execution.backends must hold one of kind cpu; found none."


def test_auxiliary_files_do_not_share_a_name_with_a_chunk():
    value = dataset_value()
    value["auxiliaryWeights"] = [{**SLOT, "fileName": "training-001.bin"}]
    assert refusal(value).field == "package.auxiliaryWeights"


def test_lists_the_files_to_select():
    value = experience_value()
    snapshot = {"id": "old", "role": "opponent", "bytes": 456, "source": {"kind": "checkpoint", "roundsAgo": 5}}
    value["auxiliaryWeights"] = [{**SLOT, "fileName": "reward.bin"}, snapshot]
    assert parse(value).auxiliary_files == (("reward", "reward.bin", 16, HASH),)
    value["auxiliaryWeights"][1]["fileName"] = "old.bin"
    assert refusal(value).field == "package.auxiliaryWeights[1]"


def snapshot(**changes: object) -> Value:
    return {"id": "old", "role": "opponent", "bytes": 456, "source": {"kind": "initial"}, **changes}


def test_a_snapshot_is_as_large_as_the_weights():
    """Before the module runs: what a package claims decides how much memory the module is given."""
    value = experience_value()
    value["auxiliaryWeights"] = [snapshot()]
    parse(value)
    value["auxiliaryWeights"] = [snapshot(bytes=460)]
    assert refusal(value).message == (
        'package.auxiliaryWeights[0].bytes must be the 456 bytes of the weights, since slot "old" is a snapshot of '
        "them; found 460."
    )


def test_slots_and_twice_the_weights_fit_into_3_gib():
    """F11: one slot of 2 GiB and one that fills the rest, then four bytes more."""
    value = experience_value()
    most = {**SLOT, "fileName": "a.bin", "bytes": 2**31}
    rest = {**SLOT, "id": "b", "fileName": "b.bin", "bytes": 2**30 - 2 * 456}
    value["auxiliaryWeights"] = [most, rest]
    assert sum(file.bytes for file in parse(value).auxiliary_files) == 3 * 2**30 - 912
    rest["bytes"] += 4
    error = refusal(value)
    assert (error.field, "3221225472 bytes; found 3221225476" in error.message) == ("package.auxiliaryWeights", True)
    value["auxiliaryWeights"] = [{**most, "bytes": 2**31 + 4}]
    assert refusal(value).field == "package.auxiliaryWeights[0].bytes"


@pytest.mark.parametrize(
    ("slot", "said"),
    [
        ({**SLOT, "bytes": 18, "fileName": "a"}, "whole number of float32 values; found bytes 18"),
        ({**SLOT, "source": {"kind": "initial"}, "fileName": "a"}, "either sha256 or source; found both"),
        ({"id": "old", "role": "opponent", "bytes": 456}, "either sha256 or source; found neither"),
        (snapshot(source={"kind": "checkpoint"}), 'roundsAgo with kind "checkpoint"'),
        (snapshot(source={"kind": "initial", "roundsAgo": 1}), 'roundsAgo with kind "checkpoint"'),
        (snapshot(source={"kind": "checkpoint", "roundsAgo": -1}), "roundsAgo must be at least 0; found -1"),
        (snapshot(source={"kind": "best"}), "must be 'initial' or 'checkpoint'; found \"best\""),
        (snapshot(fileName="old.bin"), "fileName with sha256, and only then"),
        (SLOT, "fileName with sha256, and only then"),
    ],
    ids=str,
)
def test_refuses_a_slot(slot, said):
    """F11: a slot has a hash or a source, never both; only a hash has a file."""
    value = experience_value()
    value["auxiliaryWeights"] = [slot]
    error = refusal(value)
    assert error.field.startswith("package.auxiliaryWeights[0]")
    assert said in error.message


# --- Selected files and the module ---


@pytest.mark.parametrize(
    "module", [MODULE._replace(name="m.wasm"), MODULE._replace(bytes=1), MODULE._replace(sha256="0" * 64)]
)
def test_the_selected_module_is_the_packages(module):
    """F12."""
    package = parse(experience_value())
    check_selected_module(package, MODULE)
    with pytest.raises(Invalid, match="must be the package's wasm") as refused:
        check_selected_module(package, module)
    assert refused.value.field == "wasm"


def test_a_validation_file_is_the_declared_one():
    declared = {"fileName": "v.bin", "bytes": 4, "sha256": HASH, "format": "my-binary", "exampleCount": 1}
    file = FoundFile("v.bin", 4, HASH)
    plain, with_validation = parse(dataset_value()), parse({**dataset_value(), "validation": declared})
    check_validation_file(plain, None)
    check_validation_file(with_validation, None)
    check_validation_file(with_validation, file)
    with pytest.raises(Invalid, match="declares no validation file"):
        check_validation_file(plain, file)
    with pytest.raises(Invalid, match="must be"):
        check_validation_file(with_validation, file._replace(bytes=5))


def test_without_inputs_no_validation_file_is_selected():
    with pytest.raises(Invalid, match='workSource.inputs being "none"; found "v.bin"') as refused:
        check_validation_file(parse(experience_value()), FoundFile("v.bin", 4, HASH))
    assert refused.value.field == "validation"
    check_validation_file(parse(experience_value()), None)


def test_takes_a_module_that_says_the_same():
    check_package_against_module(parse(experience_value()), experience_info(), 456, MODULE)
    check_package_against_module(parse(dataset_value()), dataset_info(), 456, MODULE)
    value = experience_value()
    value["auxiliaryWeights"] = [{**SLOT, "sha256": HASH.upper(), "fileName": "reward.bin"}]
    check_package_against_module(parse(value), experience_info(auxiliaryWeights=[SLOT]), 456, MODULE)


@pytest.mark.parametrize(
    ("info", "weight_bytes", "field"),
    [
        (experience_info(id="other"), 456, "package.execution.modelId"),
        (experience_info(), 460, "package.execution.weightBytes"),
        (
            experience_info(workSource={**INFOS["experience"]["workSource"], "evaluationUnits": 31}),
            456,
            "package.workSource",
        ),
        (experience_info(auxiliaryWeights=[SLOT]), 456, "package.auxiliaryWeights"),
        (dataset_info(id="cartpole-reinforce"), 456, "package.workSource"),
    ],
)
def test_refuses_a_module_that_says_something_else(info, weight_bytes, field):
    """W13, W16."""
    with pytest.raises(Invalid) as refused:
        check_package_against_module(parse(experience_value()), info, weight_bytes, MODULE)
    assert refused.value.field == field


def test_refuses_a_slot_that_differs_from_the_modules():
    value = experience_value()
    value["auxiliaryWeights"] = [{**SLOT, "fileName": "reward.bin"}]
    info = experience_info(auxiliaryWeights=[{**SLOT, "role": "reference-policy"}])
    with pytest.raises(Invalid) as refused:
        check_package_against_module(parse(value), info, 456, MODULE)
    assert refused.value.field == "package.auxiliaryWeights[0]"


def test_chunks_and_validation_fit_the_model():
    info = dataset_info(maxChunkBytes=4095, capabilities={"evaluation": True})
    with pytest.raises(Invalid, match=r"\[0\]\.bytes must be a whole number from 1 to 4095"):
        check_package_against_module(parse(dataset_value()), info, 456, MODULE)
    declared = {"fileName": "v.bin", "bytes": 4, "sha256": HASH, "format": "csv", "exampleCount": 1}
    package = parse({**dataset_value(), "validation": declared})
    for info, field in (
        (dataset_info(), "package.validation"),
        (dataset_info(capabilities={"evaluation": True}), "package.validation.format"),
    ):
        with pytest.raises(Invalid) as refused:
            check_package_against_module(package, info, 456, MODULE)
        assert refused.value.field == field


# --- Either kind of manifest ---


def test_tells_a_package_from_a_plain_list():
    """C54."""
    assert isinstance(parse_any_manifest(json.dumps(dataset_value()).encode()), ModelPackage)
    assert isinstance(parse_any_manifest(json.dumps([GOLDEN["chunk"]]).encode()), DatasetManifest)
    with pytest.raises(Invalid, match="found a plain list of chunks"):
        parse_package(b"[]")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{}", r"package\.schema is missing"),
        (b"[]", "found an empty list"),
        (b"", "found an empty file"),
        (b"7", "must be a list; found 7"),
        (b"\xef\xbb\xbf{}", "without BOM"),
    ],
)
def test_says_what_is_missing(data, said):
    """C54."""
    with pytest.raises(Invalid, match=said):
        parse_any_manifest(data)
