"""Files that do not fit: the draft says field, found and allowed, and nothing else is left.

Covers F1-F3, F12, F14, C13, C45-C54, C86, W13, W16 where they meet the making of a job.
"""

import hashlib
import json

import pytest

from checkpoints.models import Artifact
from jobs.models import JobDraft
from jobs.services.drafts import draft_create
from tests.creation.making import (
    CHUNKS,
    digits,
    made_of,
    make,
    manifest,
    package,
    put,
    refused,
    request,
    small,
)
from tests.creation.models import chunk, model, tiny
from weei_core.errors import Invalid

pytestmark = pytest.mark.django_db


def one(**changes):
    """A manifest of the first chunk with fields replaced; None takes a field away."""
    entry = {**manifest()[0], **changes}
    return {
        "manifest": [{key: value for key, value in entry.items() if value is not None}],
        "chunks": {CHUNKS[0]: digits(f"data/{CHUNKS[0]}")},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{}", "schema"),
        (b'{"schema":"other"}', "schema"),
        (b"", "bytes"),
        (b" ", "empty file"),
        (b"[]", "1 to 10000 chunks"),
        (b"3", "list"),
        (b"[", "JSON"),
        (b"\xef\xbb\xbf[]", "BOM|byte order mark"),
        (b'[{"id":NaN}]', "NaN"),
        (b"[[[[" * 10 + b"]]]]" * 10, "deep|level"),
        (b'[{"id":"a","id":"b"}]', "id"),
    ],
)
def test_refuses_a_manifest_that_is_none(text, words, user):
    """F1, C54."""
    draft = refused(user, manifest=text, chunks={})
    assert any(word in draft.error for word in words.split("|")), draft.error


def test_refuses_a_manifest_of_more_than_8_mib(user):
    draft = refused(user, manifest=b"[" + b" " * (8 << 20) + b"1]", chunks={})
    assert "8388608" in draft.error


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bytes": True}, "bytes"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": 1.5}, "bytes"),
        ({"bytes": 2**53 + 2}, "bytes"),
        ({"exampleCount": False}, "exampleCount"),
        ({"exampleCount": "125"}, "exampleCount"),
        ({"exampleCount": 0}, "exampleCount"),
        ({"exampleCount": -1}, "exampleCount"),
        ({"exampleCount": None}, "exampleCount"),
        ({"sha256": "0" * 63}, "sha256"),
        ({"sha256": "0" * 65}, "sha256"),
        ({"sha256": manifest()[0]["sha256"] + "\n"}, "sha256"),
        ({"format": "csv"}, "format"),
        ({"fileName": "../train-001.bin"}, "fileName"),
        ({"fileName": "/etc/hostname"}, "fileName"),
        ({"fileName": "a/../../b"}, "fileName"),
        ({"fileName": "..\\b"}, "fileName"),
        ({"fileName": "."}, "fileName"),
        ({"fileName": ""}, "fileName"),
        ({"fileName": "a\u0000b"}, "manifest"),
        ({"fileName": "é" * 150}, "fileName"),
        ({"id": ""}, "id"),
        ({"id": "c" * 65}, "id"),
    ],
)
def test_refuses_an_entry_by_its_field(changes, field, user):
    """F1, F2, C46-C48."""
    draft = refused(user, **one(**changes))
    assert field in draft.error_field or field in draft.error, (draft.error_field, draft.error)


@pytest.mark.parametrize("changes", [{"id": "train-001"}, {"fileName": "train-001.bin"}])
def test_refuses_ids_and_names_given_twice(changes, user):
    two = manifest()[:2]
    two[1].update(changes)
    assert "unique" in refused(user, manifest=two, chunks={}).error


def test_refuses_limits_of_the_model(user):
    """C47: bytes and exampleCount of one more than the model allows."""
    for limit, value in (("maxChunkBytes", 13), ("maxExamplesPerChunk", 7)):
        draft = refused(user, **tiny(model({limit: value})))
        assert f"{value}" in draft.error
        assert 'Chunk "c1"' in draft.error


def test_takes_an_upper_case_hash_and_whole_numbers_with_a_point(user):
    """C46, C47: 125.0 is 125."""
    entry = manifest()[0]
    text = json.dumps([{**entry, "sha256": entry["sha256"].upper()}]).replace("125", "125.0")
    job = make(user, manifest=text.encode(), chunks={CHUNKS[0]: digits(f"data/{CHUNKS[0]}")})
    assert job.dataset.chunks.get().artifact_id == entry["sha256"]


def test_names_every_file_that_is_wrong(user):
    """C49, F3: a file cut by a byte, one with a flipped bit, two swapped, one missing, one too many."""
    files = {name: digits(f"data/{name}") for name in CHUNKS[:6]}
    files[CHUNKS[0]] = files[CHUNKS[0]][:-1]
    files[CHUNKS[1]] = files[CHUNKS[1]][:-1] + bytes([files[CHUNKS[1]][-1] ^ 1])
    files[CHUNKS[2]], files[CHUNKS[3]] = files[CHUNKS[3]], files[CHUNKS[2]]
    del files[CHUNKS[4]]
    files["notes.txt"] = b"extra"
    draft = refused(user, manifest=manifest()[:6], chunks=files)
    assert draft.error_field == "files"
    for number, words in enumerate(["must have 8141 bytes, found 8140", "SHA-256", "SHA-256", "SHA-256", "is missing"]):
        assert f'"{CHUNKS[number]}" ("train-00{number + 1}")' in draft.error
        assert words in draft.error
    assert '"notes.txt" is not in the manifest' in draft.error
    assert CHUNKS[5] not in draft.error


def test_names_all_of_many_wrong_files(user):
    entries = [{**manifest()[0], "id": f"c{n}", "fileName": f"c{n}.bin"} for n in range(60)]
    draft = refused(user, manifest=entries, chunks={})
    assert all(f'"c{n}.bin" ("c{n}") is missing' in draft.error for n in range(60))


def test_believes_the_store_and_not_the_client_about_sizes(user):
    """A client that claims the manifest's size for other bytes is found out."""
    made = request(manifest=[{**manifest()[0], "bytes": 9000}], chunks={CHUNKS[0]: digits(f"data/{CHUNKS[0]}")})
    made["files"][0]["bytes"] = 9000
    assert "must have 9000 bytes, found 8141" in refused(user, made).error


def test_names_files_that_are_not_stored_any_more(user):
    made = request(**small())
    Artifact.objects.filter(sha256__in=[file["sha256"] for file in made["files"][1:]]).delete()
    draft = refused(user, made)
    assert (draft.error_code, "train-001.bin" in draft.error) == ("artifact_gone", False)
    assert "train-002.bin, train-003.bin" in draft.error


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "x" * 300])
def test_refuses_the_name_of_a_selected_file_that_leads_elsewhere(name, user):
    """F2: a name is only a label, and still no path."""
    made = request(**small())
    made["module"]["fileName"] = name
    assert refused(user, made).error_field == "module.fileName"


@pytest.mark.parametrize("name", ["CON", "\u202egpj.wasm", "модель.wasm", 'a";b.wasm'])
def test_keeps_odd_names_as_labels(name, user):
    """F2."""
    made = request(**small())
    made["module"]["fileName"] = name
    assert made_of(user, made).module_file_name == name


@pytest.mark.db
@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_refuses_text_that_no_database_holds(text, user):
    """C86: at once, by name."""
    with pytest.raises(Invalid):
        draft_create(user, request(**small(), name=text))
    assert not JobDraft.objects.exists()


@pytest.mark.db
@pytest.mark.parametrize("name", ["a\\u0000b", "a\\ud800b"])
def test_refuses_a_model_whose_name_no_database_holds(name, user):
    """C86."""
    plain = "x" * len(name)
    module = model({"name": plain}).replace(plain.encode(), name.encode())
    assert refused(user, **tiny(module)).error_code == "invalid_result"


@pytest.mark.parametrize(
    ("chosen", "field"),
    [
        ({"epochs": 3, "rounds": 4}, "settings.epochs"),
        ({"epochs": True}, "settings.epochs"),
        ({"batchSize": 0}, "settings.batchSize"),
        ({"seed": "007"}, "settings.seed"),
        ({"seed": 7}, "settings.seed"),
        ({"colour": "red"}, "settings"),
        ({"experience": {"unitsPerAssignment": 1}}, "settings.experience"),
        ({"aggregation": {"method": "fedprox"}}, "settings.aggregation"),
        ({"validationSchedule": {"enabled": True, "unit": "week", "every": 1}}, "settings.validationSchedule"),
    ],
)
def test_refuses_settings_by_field(chosen, field, user):
    """F14, C36, C47."""
    draft = refused(user, **small(), **chosen)
    assert draft.error_field.startswith(field), (draft.error_field, draft.error)


RANGES = [
    [{"offset": 2, "bytes": 4}],
    [{"offset": 0, "bytes": 6}],
    [{"offset": 12, "bytes": 8}],
    [{"offset": 16, "bytes": 4}],
    [{"offset": 0, "bytes": 8}, {"offset": 4, "bytes": 4}],
    [{"offset": -4, "bytes": 4}],
    [{"offset": 0, "bytes": 0}],
]


@pytest.mark.parametrize("ranges", RANGES, ids=str)
def test_refuses_ranges_that_do_not_fit_the_weights(ranges, user):
    """C13."""
    draft = refused(user, **tiny(model({"aggregation": {"averageOnly": ranges}})))
    assert "aggregation" in draft.error_field, (draft.error_field, draft.error)


@pytest.mark.parametrize("methods", [["fedprox"], ["fedavgm"]])
def test_refuses_methods_that_the_model_does_not_allow(methods, user):
    """C13."""
    made = tiny(model({"aggregation": {"methods": methods}}))
    draft = refused(user, **made, aggregation={"method": "fedadam"})
    assert "aggregation" in draft.error_field
    assert methods[0] in draft.error


@pytest.mark.parametrize(
    "aggregation", [{"averageOnly": [{"offset": 0, "bytes": 8}, {"offset": 8, "bytes": 4}]}, {"methods": []}]
)
def test_takes_ranges_that_touch_and_a_model_without_methods(aggregation, user):
    """C13."""
    assert make(user, **tiny(model({"aggregation": aggregation}))).model_id == "tiny"


def test_refuses_an_evaluation_that_the_model_lacks(user):
    schedule = {"enabled": True, "unit": "round", "every": 1}
    assert "evaluation" in refused(user, **tiny(model()), validationSchedule=schedule).error
    assert refused(user, **tiny(model()), validation=b"data").error_field == "validation"


def test_refuses_chunks_whose_checkpoints_would_be_too_large(user):
    """Ids of 64 bytes, each in every checkpoint twice: the metadata would pass 1 MiB."""
    entries = [chunk(n, id=f"{n:064}", fileName=f"c{n}.bin") for n in range(8_000)]
    made = request(**tiny(model(), chunk()))
    made["manifest"] = put("manifest.json", json.dumps(entries).encode())
    made["files"] = [{**made["files"][0], "fileName": entry["fileName"]} for entry in entries]
    draft = refused(user, made)
    assert (draft.error_field, "1048576" in draft.error) == ("manifest", True)


def inline(value):
    text = (json.dumps(value, indent=2) + "\n").encode()
    return {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def test_refuses_the_wrong_module_for_a_package(user):
    draft = refused(user, manifest=package(), module=model())
    assert (draft.error_field, "digits.wasm" in draft.error) == ("wasm", True)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("schema",), "weei-package", "schema"),
        (("schemaVersion",), 2, "schemaVersion"),
        (("hostRuntime", "id"), "other", "hostRuntime"),
        (("wasm", "bytes"), 1, "execution.backends"),
        (("execution", "modelId"), "other", "modelId"),
        (("execution", "weightBytes"), 9644, "weightBytes"),
        (("execution", "compatibility", "bytes"), 640, "execution.compatibility.bytes"),
        (("execution", "datasetManifest", "sha256"), "0" * 64, "execution.datasetManifest.sha256"),
        (("inlineJson", "compatibility.json", "weightBytes"), 4, "execution.compatibility"),
        (("execution", "policy", "cpuFallback"), "none", "cpuFallback"),
        (("execution", "backends"), [], "execution.backends"),
        (("validation", "sha256"), "0" * 64, "validation"),
        (("validation", "format"), "csv", "validation.format"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_refuses_a_package_by_the_check_that_failed(path, value, field, user):
    """F12, O4."""
    made = package()
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    draft = refused(user, manifest=made, validation=digits("data/validation.bin"))
    assert field in draft.error_field or field in draft.error, (draft.error_field, draft.error)


def test_refuses_a_package_that_speaks_of_another_model(user):
    """W13: the package and getModelInfo must say the same; both forms of the package's own files agree."""
    made = package()
    made["execution"]["modelId"] = "letters"
    made["inlineJson"]["compatibility.json"]["identity"]["modelId"] = "letters"
    made["execution"]["compatibility"].update(inline(made["inlineJson"]["compatibility.json"]))
    draft = refused(user, manifest=made)
    assert 'the module gives, "digits"' in draft.error


def test_refuses_a_validation_file_that_the_package_does_not_declare(user):
    made = package()
    del made["validation"]
    assert refused(user, manifest=made, validation=b"data").error_field == "validation"


def test_refuses_a_shader_archive_that_no_package_declares(user):
    """F12: WGSL without shaderArchive."""
    for options in ({"manifest": package()}, {}):
        made = request(**options)
        made["executionFiles"] = [put("shaders.json", b"{}")]
        draft = refused(user, made)
        assert "rchive" in draft.error
        made["executionFiles"] *= 2
        assert refused(user, made).error_field == "executionFiles"


def test_takes_the_packages_own_shader_archive(user):
    code = "@compute @workgroup_size(1) fn main() {}"
    modules = [{"id": "main", "sha256": hashlib.sha256(code.encode()).hexdigest()}]
    archive = {"schema": "weei-wgsl-archive", "schemaVersion": 1, "modules": [{**modules[0], "code": code}]}
    file = put("shaders.json", json.dumps(archive).encode())
    made = request(manifest={**package(), "shaderArchive": {**file, "modules": modules}})
    made["executionFiles"] = [file]
    job = made_of(user, made)
    assert job.artifacts.get(kind="archive").artifact_id == file["sha256"]


def test_the_next_job_is_made_after_a_refusal(user):
    refused(user, **one(bytes=-1))
    assert make(user, **small()).status == "ready"


def test_refuses_a_method_whose_checkpoints_would_be_too_large(user, monkeypatch):
    """Weights, state and metadata must fit into one file: here two copies of the weights do, three do not."""
    monkeypatch.setattr("weei_core.training_settings.MAX_CHECKPOINT_BYTES", 2**20 + 2 * 16)
    draft = refused(user, **tiny(model()), aggregation={"method": "fedadam"})
    assert (draft.error_field, "1048624 bytes" in draft.error) == ("settings.aggregation.method", True)
    assert make(user, **tiny(model()), aggregation={"method": "fedavgm"}).status == "ready"
