import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weei_core import js_json
from weei_core.dataset_manifest import (
    MAX_MANIFEST_BYTES,
    MAX_METADATA_BYTES,
    DatasetManifest,
    FoundFile,
    check_plain_validation,
    largest_metadata_bytes,
    match_files,
    parse_manifest,
)
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, parse_model_info

GOLDEN_FOLDER = Path(__file__).parent.parent / "golden"
GOLDEN = json.loads((GOLDEN_FOLDER / "manifests.json").read_text(encoding="utf-8"))
INFOS = json.loads((GOLDEN_FOLDER / "model_info.json").read_text(encoding="utf-8"))
CHUNK = GOLDEN["chunk"]


def info_of(kind: str = "dataset", **changes: object) -> ModelInfo:
    return parse_model_info({**INFOS[kind], **changes})


def manifest_of(*changes: dict[str, Any], info: ModelInfo | None = None) -> DatasetManifest:
    return parse_manifest(json.dumps([{**CHUNK, **change} for change in changes]).encode(), info)


def numbered(count: int, **changes: object) -> list[dict[str, Any]]:
    return [{"id": f"chunk-{i:03}", "fileName": f"training-{i:03}.bin", **changes} for i in range(1, count + 1)]


def test_reads_the_founding_example():
    text = json.dumps([CHUNK]).encode()
    manifest = parse_manifest(text, info_of())
    (chunk,) = manifest.chunks
    assert (chunk.id, chunk.file_name, chunk.bytes, chunk.example_count) == ("chunk-001", "training-001.bin", 4096, 128)
    assert (manifest.text, manifest.total_bytes, manifest.total_examples) == (text.decode(), 4096, 128)


@pytest.mark.parametrize("case", GOLDEN["refused"], ids=lambda case: case["name"])
def test_refuses_an_entry(case):
    """C46, C47, C48, F1, F2."""
    with pytest.raises(Invalid) as refused:
        manifest_of(case["change"], info=info_of())
    assert refused.value.field == case["field"]
    chunk_id = case["change"].get("id", CHUNK["id"])
    assert not chunk_id or chunk_id[:20] in refused.value.message


def test_names_the_entry_by_id_and_path():
    with pytest.raises(Invalid) as refused:
        manifest_of(*numbered(3), {"id": "last", "bytes": 1.5})
    assert refused.value.message == 'Chunk "last": [3].bytes must be a whole number; found 1.5.'


@pytest.mark.parametrize("hash_", ["AB" * 32, "aB" * 32])
def test_takes_hashes_in_capitals_and_keeps_lower_case(hash_):
    """C46."""
    assert manifest_of({"sha256": hash_}).chunks[0].sha256 == "ab" * 32


@pytest.mark.parametrize("count", ["128.0", "1e2", "1.28E+2"])
def test_takes_whole_numbers_however_they_are_written(count):
    """C47."""
    text = json.dumps([CHUNK]).replace("128", count)
    assert parse_manifest(text.encode(), None).chunks[0].example_count == float(count)


def test_refuses_a_repeated_id_and_a_repeated_name():
    """C48, F1."""
    for again, field in (({"fileName": "b"}, "[1].id"), ({"id": "b"}, "[1].fileName")):
        with pytest.raises(Invalid) as refused:
            manifest_of({}, again)
        assert refused.value.field == field
    assert len(manifest_of({"fileName": "A.bin"}, {"id": "b", "fileName": "a.bin"}).chunks) == 2


def test_ignores_fields_it_does_not_know():
    assert manifest_of({"later": {"x": 1}}).chunks[0].id == "chunk-001"


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", "dataset", "found an empty file"),
        (b" \n", "dataset", "found an empty file"),
        (b"[]", "dataset", "found an empty list"),
        (b"{}", "dataset", "found an object without a known schema"),
        (b'{"schema": "weei-model-package"}', "dataset", "found a model package"),
        (b"[]", "experience", "found a plain list of chunks"),
        (b"\xef\xbb\xbf[]", "dataset", "without BOM"),
        (b"[NaN]", "dataset", "NaN"),
        (b"3", "dataset", "must be a list; found 3"),
        (b"[3]", "dataset", "must be an object; found 3"),
    ],
)
def test_says_what_is_missing_from_a_common_slip(data, kind, said):
    """C54."""
    with pytest.raises(Invalid, match=said):
        parse_manifest(data, info_of(kind))


def test_an_experience_model_asks_for_its_package():
    with pytest.raises(Invalid, match="package's manifest.json") as refused:
        parse_manifest(json.dumps([CHUNK]).encode(), info_of("experience"))
    assert refused.value.code == "package_needed"


def test_takes_10000_entries_and_refuses_one_more():
    """F1."""
    entries = [{**CHUNK, **change} for change in numbered(10_001)]
    assert len(parse_manifest(json.dumps(entries[:-1]).encode(), None).chunks) == 10_000
    with pytest.raises(Invalid, match="at most 10000 entries; found 10001"):
        parse_manifest(json.dumps(entries).encode(), None)


def test_refuses_more_than_8_mib_before_reading():
    with pytest.raises(Invalid, match="at most 8388608 bytes; found 8388609"):
        parse_manifest(b"x" * (MAX_MANIFEST_BYTES + 1), None)


def test_a_chunk_may_not_be_called_like_a_part_of_another():
    cut = info_of(capabilities={"recordRanges": True})
    names = [{"id": "a", "fileName": "a"}, {"id": "a@0+64", "fileName": "b"}]
    assert len(manifest_of(*names, info=info_of()).chunks) == 2
    assert len(manifest_of(names[1], info=cut).chunks) == 1
    with pytest.raises(Invalid) as refused:
        manifest_of(*names, info=cut)
    assert refused.value.field == "[1].id"


@pytest.mark.parametrize(("size", "evaluates"), [(0, True), (8388609, True), (4, False)])
def test_a_plain_validation_file_fits_a_model_that_evaluates(size, evaluates):
    can = {"evaluation": True}
    check_plain_validation(FoundFile("v.bin", 8388608, "0" * 64), info_of(capabilities=can))
    with pytest.raises(Invalid) as refused:
        check_plain_validation(FoundFile("v.bin", size, "0" * 64), info_of(capabilities=can if evaluates else {}))
    assert refused.value.field == "validation"


# --- Checkpoint metadata ---


def metadata_of(manifest: DatasetManifest, info: ModelInfo, parts: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Checkpoint metadata as large as it gets: shuffled, `parts` open parts, everything else present."""
    ids = [chunk.id for chunk in manifest.chunks]
    ranges = {f"{chunk_id}@{start}+{count}": (chunk_id, start, count) for chunk_id, start, count in parts}
    cut = {chunk_id for chunk_id, _, _ in parts}
    return {
        "version": 2,
        "jobId": "0" * 36,
        "module": {"artifactId": "f" * 64, "fileName": '"' * 255, "bytes": 2**28, "sha256": "f" * 64},
        "modelInfo": json.loads(info.text),
        "settings": {"epochs": 2**31, "seed": "9" * 20, "aggregation": {"method": "fedadam", "epsilon": 1e-7}},
        "round": 2**31,
        "checkpoint": {"artifactId": "f" * 64, "fileName": '"' * 255, "format": "float32-le", "sha256": "f" * 64},
        "metrics": {"values": {m.id: -1.2345678901234567e-300 for m in info.metrics}, "examplesProcessed": 2**53},
        "incomplete": False,
        "chunkOrder": ids,
        "trainedChunkIds": [],
        "remainingChunkIds": [chunk_id for chunk_id in ids if chunk_id not in cut] + list(ranges),
        "remainingWorkItems": {
            part_id: {"partitionId": part_id, "sourceChunkId": source, "recordStart": start, "recordCount": count}
            for part_id, (source, start, count) in ranges.items()
        },
        "experience": {"jobSeed": "9" * 20, "nextUnit": 2**53},
        "auxiliaryWeights": {f"{i}" + "\U0001f600" * 199: "f" * 64 for i in range(8)},
        "aggregationState": {"method": "fedadam", "step": 2**31, "bytes": 2**28, "sha256": "f" * 64},
    }


@settings(max_examples=40)
@given(
    ids=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=16),
        min_size=1,
        max_size=30,
        unique=True,
    ),
    cut=st.integers(0, 256),
    pad=st.integers(0, 3000),
)
def test_no_metadata_outgrows_the_bound(ids, cut, pad):
    info = info_of(capabilities={"recordRanges": True}, big=1e20, pad="é" * pad)
    manifest = manifest_of(*({"id": id_, "fileName": f"{i}"} for i, id_ in enumerate(ids)))
    parts = [
        (max(ids, key=lambda id_: len(json.dumps(id_, ensure_ascii=False).encode())), 100 + i % 20, 100 + i // 20)
        for i in range(cut)
    ]
    size = len(js_json.dumps(metadata_of(manifest, info, parts)).encode())
    assert size <= largest_metadata_bytes(manifest, info)


def test_refuses_a_manifest_whose_checkpoints_could_outgrow_1_mib():
    """10,000 ids of 64 bytes stand in the metadata twice."""
    entries = [{**CHUNK, "id": f"{i:064}", "fileName": str(i)} for i in range(10_000)]
    with pytest.raises(Invalid, match=f"within {MAX_METADATA_BYTES} bytes") as refused:
        parse_manifest(json.dumps(entries).encode(), info_of())
    assert refused.value.field == "manifest"
    assert parse_manifest(json.dumps(entries[:7000]).encode(), info_of())


def test_counts_256_open_parts_for_models_that_cut_chunks():
    manifest = manifest_of({})
    whole = largest_metadata_bytes(manifest, info_of())
    cut = largest_metadata_bytes(manifest, info_of(capabilities={"recordRanges": True}))
    assert cut - whole > 256 * 100


# --- Files ---


def files_of(manifest: DatasetManifest) -> list[FoundFile]:
    return [FoundFile(chunk.file_name, chunk.bytes, chunk.sha256) for chunk in manifest.chunks]


def test_takes_exactly_the_files_of_the_manifest():
    manifest = manifest_of(*numbered(3))
    match_files(manifest, files_of(manifest)[::-1])


def test_lists_every_wrong_file_at_once():
    """C49, F3."""
    hashes = ["a" * 64, "b" * 64, "c" * 64, "d" * 64]
    manifest = manifest_of(*({**chunk, "sha256": hashes[i]} for i, chunk in enumerate(numbered(4))))
    found = [
        FoundFile("training-001.bin", 4095, "e" * 64),
        FoundFile("training-002.bin", 4096, "e" * 64),
        FoundFile("training-003.bin", 4096, "a" * 64),
        FoundFile("other.bin", 1, "0" * 64),
        FoundFile("other.bin", 1, "0" * 64),
    ]
    with pytest.raises(Invalid) as refused:
        match_files(manifest, found)
    assert refused.value.extra["files"] == [
        '"other.bin" was given twice',
        '"training-001.bin" ("chunk-001") must have 4096 bytes, found 4095',
        f'"training-002.bin" ("chunk-002") must have SHA-256 {"b" * 64}, found {"e" * 64}',
        f'"training-003.bin" ("chunk-003") must have SHA-256 {"c" * 64}, found {"a" * 64}',
        '"training-004.bin" ("chunk-004") is missing',
        '"other.bin" is not in the manifest',
    ]
    assert "training-004.bin" in refused.value.message


def test_a_long_list_of_wrong_files_is_cut_in_the_sentence_only():
    with pytest.raises(Invalid, match="and 5 more") as refused:
        match_files(manifest_of(*numbered(25)), [])
    problems = refused.value.extra["files"]
    assert isinstance(problems, list)
    assert len(problems) == 25


def test_takes_the_files_that_a_package_adds():
    manifest = manifest_of({})
    other = manifest_of({"id": "reward", "fileName": "reward.bin"}).chunks[0]
    match_files(manifest, [*files_of(manifest), FoundFile("reward.bin", 4096, "0" * 64)], also=[other])
    with pytest.raises(Invalid, match=r"reward.bin.*is missing"):
        match_files(manifest, files_of(manifest), also=[other])
