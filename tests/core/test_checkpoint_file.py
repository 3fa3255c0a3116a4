from __future__ import annotations

import hashlib
import io
import json
import struct
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weei_core import js_json
from weei_core.checkpoint_file import (
    MAX_FILE_BYTES,
    AggregationState,
    Artifact,
    CheckpointFile,
    build_metadata,
    read_header,
    verify,
    write_header,
)
from weei_core.errors import Invalid, TooLarge, WeeiError
from weei_core.strict_json import loads


def parsed(text: str) -> Any:
    return loads(text)


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "checkpoints.json").read_text())
GOOD = {vector["name"]: bytes.fromhex(vector["file"]) for vector in GOLDEN["good"]}
BASE = GOOD["version 1"]
WITH_STATE = GOOD["fedavgm"]
METADATA = parsed(GOLDEN["good"][0]["metadata"])
WEIGHTS = bytes.fromhex(GOLDEN["good"][0]["weights"])


def accept(value: object) -> None:
    """Model info and settings have checks of their own, which their owners test."""


def read(data: bytes) -> CheckpointFile:
    file = io.BytesIO(data)
    header = read_header(file, len(data), check_model_info=accept, check_settings=accept)
    verify(file, header)
    return header


def pack(text: bytes, weights: bytes = WEIGHTS) -> bytes:
    return struct.pack("<I", len(text)) + text + weights


def refusal(data: bytes) -> WeeiError:
    with pytest.raises(WeeiError) as refused:
        read(data)
    assert 400 <= refused.value.status < 500
    return refused.value


@pytest.mark.parametrize("vector", GOLDEN["good"], ids=lambda vector: vector["name"])
def test_reads_each_golden_file_and_writes_the_same_bytes(vector):
    """C45: empty lists and no metrics load; what is read is what any reader that follows the layout finds."""
    data = bytes.fromhex(vector["file"])
    header = read(data)
    weights = data[header.weights_offset : header.weights_offset + header.weights_bytes]
    state = data[header.state_offset : header.state_offset + header.state_bytes]
    assert (weights.hex(), state.hex()) == (vector["weights"], vector["state"])
    assert header.metadata == parsed(vector["metadata"])
    assert header.weights_sha256 == hashlib.sha256(weights).hexdigest()
    assert header.state_sha256 == (hashlib.sha256(state).hexdigest() if state else None)
    assert header.round == header.metadata["round"]
    assert js_json.dumps(header.metadata).encode() == header.metadata_text
    assert write_header(header.metadata_text) + weights + state == data


@pytest.mark.parametrize("vector", GOLDEN["refused"], ids=lambda vector: vector["name"])
def test_refuses_each_golden_file_by_name(vector):
    """C40, C45, F5 to F9; a right hash over values that are not finite must say so."""
    error = refusal(bytes.fromhex(vector["file"]))
    assert vector["says"] in error.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\x00\x00",
        b"\x00\x00\x00\x00",
        b"\x02\x00\x00\x00",
        b"\xff\xff\xff\xff" + BASE[4:],
        b"\x00\x00\x00\x00" + BASE[4:],
        struct.pack("<I", len(BASE) - 3) + BASE[4:],
        struct.pack("<I", 1_048_577) + BASE[4:].ljust(1_048_577 + 16),
        BASE[3::-1] + BASE[4:],
    ],
    ids=[
        "0 bytes",
        "3 bytes",
        "4 bytes",
        "4 bytes, 2 claimed",
        "2**32-1",
        "0",
        "past the end",
        "too long",
        "big-endian",
    ],
)
def test_refuses_a_wrong_metadata_length_by_name(data):
    """C37, F4."""
    error = refusal(data)
    assert "metadata length" in error.message
    assert error.code == "metadata_length"


def test_metadata_of_exactly_one_mebibyte_loads():
    """C37: valid JSON padded with spaces."""
    text = json.dumps(METADATA).encode().ljust(1_048_576)
    assert read(pack(text)).metadata == METADATA
    assert write_header(text) == pack(text, b"")
    for size in (0, 1_048_577):
        with pytest.raises(TooLarge, match="1 to 1048576 bytes"):
            write_header(bytes(size))


@pytest.mark.parametrize("size", [65_535, 65_536, 70_000, 2**20 - 1])
def test_headers_longer_than_one_or_two_bytes_can_count_load(size):
    """C38: filled up by remainingChunkIds."""
    lists: dict[str, Any] = {"trainedChunkIds": [], "remainingChunkIds": []}
    room = size - len(js_json.dumps(METADATA | lists).encode())
    lists["remainingChunkIds"] = [f"chunk-{i:07d}" for i in range(room // 16 - 1)]
    left = size - len(js_json.dumps(METADATA | lists).encode())
    lists["remainingChunkIds"].append("x" * (left - len(',""')))
    text = js_json.dumps(METADATA | lists).encode()
    assert len(text) == size
    header = read(pack(text))
    assert header.weights_offset == 4 + size
    assert header.metadata["remainingChunkIds"] == lists["remainingChunkIds"]


@pytest.mark.parametrize("size", [255, 256])
def test_short_headers_load(size):
    """C38: what another implementation may leave out is left out here."""
    minimal = {
        "version": 1,
        "round": 0,
        "checkpoint": {"format": "float32-le", "bytes": 16, "sha256": hashlib.sha256(WEIGHTS).hexdigest()},
        "modelInfo": {},
        "settings": {},
        "metrics": {"values": {}, "examplesProcessed": 0},
    }
    text = js_json.dumps(minimal).encode().ljust(size)
    assert len(text) == size
    assert read(pack(text)).metadata == minimal


@pytest.mark.parametrize("data", [BASE, WITH_STATE], ids=["version 1", "version 2"])
@pytest.mark.parametrize("change", [-16, -4, -1, 1, 4, 16])
def test_a_cut_or_extended_file_names_both_sizes(data, change):
    """C39, F6."""
    changed = data[:change] if change < 0 else data + bytes(change)
    error = refusal(changed)
    assert error.code == "wrong_size"
    assert f"must be {len(data)} bytes" in error.message
    assert f"found {len(changed)}" in error.message


def test_a_file_cut_inside_its_metadata_names_the_length():
    """C39."""
    assert "metadata length" in refusal(BASE[:100]).message


def test_a_file_that_shrinks_while_it_is_read_is_an_error():
    for cut in (2, 100, len(BASE) - 1):
        file = io.BytesIO(BASE[:cut])
        with pytest.raises(Invalid) as refused:
            verify(file, read_header(file, len(BASE), check_model_info=accept, check_settings=accept))
        assert refused.value.code == "truncated"


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + js_json.dumps(METADATA).encode(),
        js_json.dumps(METADATA).encode("utf-16"),
        js_json.dumps(METADATA | {"jobId": "@"}).encode().replace(b"@", b"\xff"),
        js_json.dumps(METADATA).encode().replace(b'{"version":1', b'{"version":1,"round":2'),
        js_json.dumps(METADATA).encode().replace(b'"loss":0.5', b'"loss":NaN'),
        js_json.dumps(METADATA).encode().replace(b'"round":3', b'"round":1e400'),
        js_json.dumps(METADATA).encode()[:-1],
        b"[" * 100_000,
    ],
    ids=["BOM", "UTF-16", "byte ff", "key twice", "NaN", "1e400", "cut", "deep"],
)
def test_refuses_metadata_that_readers_disagree_on(text):
    """C42, F5."""
    error = refusal(pack(text))
    assert error.code == "invalid_json"
    assert error.message.startswith("checkpoint metadata is not valid JSON")


def test_metadata_that_is_no_object_is_refused():
    assert "checkpoint metadata must be an object" in refusal(pack(b"[]")).message


def test_whole_numbers_written_as_floats_and_hashes_in_capitals_load():
    """C40: round 3.0 counts as 3."""
    text = js_json.dumps(METADATA).replace('"round":3', '"round":3.0')
    text = text.replace(METADATA["checkpoint"]["sha256"], METADATA["checkpoint"]["sha256"].upper())
    header = read(pack(text.encode()))
    assert header.round == 3
    assert header.weights_sha256 == METADATA["checkpoint"]["sha256"]


def test_fields_of_newer_versions_are_kept():
    newer = METADATA | {"signature": {"by": "someone"}}
    assert read(pack(js_json.dumps(newer).encode())).metadata == newer


def test_a_file_past_the_limit_is_refused_before_it_is_read():
    class Unread(io.BytesIO):
        def readinto(self, buffer):
            raise AssertionError("the size alone decides")

    with pytest.raises(TooLarge, match=f"at most {MAX_FILE_BYTES} bytes; found {MAX_FILE_BYTES + 1}"):
        read_header(Unread(), MAX_FILE_BYTES + 1, check_model_info=accept, check_settings=accept)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x10\x00"])
def test_nothing_is_allocated_by_a_claimed_length(length):
    """C37, F4: also not by weights that claim the limit."""
    claims = METADATA | {"checkpoint": METADATA["checkpoint"] | {"bytes": MAX_FILE_BYTES}}
    for data in (length + BASE[4:], pack(js_json.dumps(claims).encode())):
        tracemalloc.start()
        try:
            refusal(data)
            assert tracemalloc.get_traced_memory()[1] < 500_000
        finally:
            tracemalloc.stop()


def test_model_info_and_settings_are_judged_by_their_owners():
    def refuse(value: dict[str, Any]) -> None:
        raise Invalid(f"no {sorted(value)[0]}")

    for checks, says in [((refuse, accept), "no abiVersion"), ((accept, refuse), "no batchSize")]:
        with pytest.raises(Invalid, match=says):
            read_header(io.BytesIO(BASE), len(BASE), check_model_info=checks[0], check_settings=checks[1])


def test_lengths_are_compared_before_the_contents_are_judged():
    def unasked(value: object) -> None:
        raise AssertionError("the length is wrong, so nobody looks at the rest")

    with pytest.raises(Invalid, match="must be"):
        read_header(io.BytesIO(BASE), len(BASE) + 1, check_model_info=unasked, check_settings=unasked)


def test_builds_the_metadata_that_node_writes():
    """Keys in the order of the format, numbers as JavaScript writes them."""
    for vector in GOLDEN["good"]:
        fields = parsed(vector["metadata"])
        module, weights, state = fields["module"], fields["checkpoint"], fields.get("aggregationState")
        experience = fields.get("experience", {})
        seed = experience.get("jobSeed")
        text = build_metadata(
            job_id=fields["jobId"],
            module=Artifact(module["artifactId"], module["fileName"], module["bytes"], module["sha256"]),
            model_info=fields["modelInfo"],
            settings=fields["settings"],
            round_number=fields["round"],
            weights=Artifact(weights["artifactId"], weights["fileName"], weights["bytes"], weights["sha256"]),
            metrics=dict(reversed(fields["metrics"]["values"].items())),
            examples_processed=fields["metrics"]["examplesProcessed"],
            incomplete=fields["incomplete"],
            chunk_order=fields.get("chunkOrder"),
            trained_chunk_ids=fields.get("trainedChunkIds"),
            remaining_chunk_ids=fields.get("remainingChunkIds"),
            remaining_work_items=fields.get("remainingWorkItems"),
            job_seed=None if seed is None else int(seed),
            next_unit=experience.get("nextUnit"),
            auxiliary_weights=fields.get("auxiliaryWeights"),
            aggregation_state=None if state is None else AggregationState(**state),
        )
        assert text.decode() == vector["metadata"]


def test_reads_from_an_open_descriptor_as_well():
    with tempfile.TemporaryFile() as file:
        file.write(WITH_STATE)
        file.flush()
        header = read_header(file, len(WITH_STATE), check_model_info=accept, check_settings=accept)
        verify(file.fileno(), header)


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(floats, min_size=1, max_size=20), st.sampled_from(["", "fedavgm", "fedadam"]), st.data())
def test_every_file_that_is_written_is_read_back(values, method, data):
    weights = struct.pack(f"<{len(values)}f", *values)
    vectors = {"": 0, "fedavgm": 1, "fedadam": 2}[method]
    state = b"".join(struct.pack("<f", data.draw(floats)) for _ in range(vectors * len(values)))
    record = AggregationState(method, 1, len(state), hashlib.sha256(state).hexdigest()) if method else None
    ids = data.draw(st.lists(st.text("ab1é", min_size=1, max_size=4), unique=True, max_size=6))
    metrics = data.draw(st.dictionaries(st.text("lo9", min_size=1), st.floats(allow_nan=False, allow_infinity=False)))
    text = build_metadata(
        job_id="job",
        module=Artifact("m", "model.wasm", 8, "00" * 32),
        model_info={"id": "toy"},
        settings={},
        round_number=data.draw(st.integers(0, 10**9)),
        weights=Artifact("w", "w.bin", len(weights), hashlib.sha256(weights).hexdigest()),
        metrics=metrics,
        examples_processed=data.draw(st.integers(0, 2**53)),
        incomplete=data.draw(st.booleans()),
        trained_chunk_ids=ids[:2],
        remaining_chunk_ids=ids[2:],
        job_seed=data.draw(st.integers(0, 2**64 - 1)),
        next_unit=data.draw(st.integers(0, 2**52)),
        aggregation_state=record,
    )
    written = write_header(text) + weights + state
    header = read(written)
    assert header.metadata_text == text
    assert header.metadata["metrics"]["values"] == metrics  # type: ignore[index, call-overload]
    assert write_header(js_json.dumps(header.metadata).encode()) + written[header.weights_offset :] == written


edits = st.lists(st.tuples(st.integers(0, len(WITH_STATE) - 1), st.integers(0, 3), st.binary(max_size=4)), max_size=4)


@given(st.sampled_from(sorted(GOOD.values())), edits)
@example(BASE, [])
def test_changed_bytes_never_raise_anything_but_our_own_errors(data, changes):
    """I8: hostile input is an answer, not a crash."""
    for position, removed, inserted in changes:
        data = data[:position] + inserted + data[position + removed :]
    try:
        header = read(data)
    except WeeiError as error:
        error.message.encode()
    else:
        assert header.weights_offset + header.weights_bytes + header.state_bytes == len(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("a@é"),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text("ab"), children, max_size=3),
    max_leaves=5,
)
fields = sorted({key for vector in GOLDEN["good"] for key in parsed(vector["metadata"])})


@given(st.sampled_from(GOLDEN["good"]), st.sampled_from(fields), json_values, st.data())
def test_any_value_in_any_field_is_read_or_refused(vector, field, value, data):
    metadata = parsed(vector["metadata"])
    inner = metadata.get(field)
    if isinstance(inner, dict) and inner and data.draw(st.booleans()):
        inner[data.draw(st.sampled_from(sorted(inner)))] = value
    else:
        metadata[field] = value
    text = js_json.dumps(metadata).encode()
    try:
        read(pack(text, bytes.fromhex(vector["weights"] + vector["state"])))
    except WeeiError as error:
        error.message.encode()
