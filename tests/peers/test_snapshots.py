"""What peers say of themselves: cleaned at the edge, kept in the cache, aged by the server's clock.

C70, C76, C86, H8."""

import json
import math
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.domain.snapshot import ASSIGNMENT, MAX_HASHES, SECTIONS, STAGES, UNKNOWN, clean_snapshot
from diagnostics.live import go_on_above, held_snapshots, job_snapshots, last_sequence, snapshot_put
from weei_core import js_json, strict_json
from weei_core.errors import Invalid
from weei_core.protocol import MAX_SNAPSHOT_METRICS, MAX_SNAPSHOT_TEXT

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLE = next(
    message["snapshot"]
    for message in json.loads((GOLDEN / "messages.json").read_text())["client"]
    if message["type"] == "diagnostics"
)
WHOLE = json.loads((GOLDEN / "diagnostics.json").read_text())["whole"]
"""What browsers and agents make of the same events."""


@pytest.mark.parametrize("snapshot", [EXAMPLE, WHOLE], ids=["message", "measured"])
def test_a_whole_snapshot_comes_through_as_it_is(snapshot):
    assert clean_snapshot(snapshot) == snapshot
    # In the order in which peers write it: what is compared as text stays comparable.
    assert list(clean_snapshot(snapshot)["performance"]) == list(snapshot["performance"])


@pytest.mark.parametrize("assignment", ["unknown", 7, [], True, {}, {"jobId": 7}, {"jobId": "unknown"}, {"round": 1}])
def test_an_assignment_is_an_object_or_none(assignment):
    """Pages look into it."""
    assert clean_snapshot({**EXAMPLE, "assignment": assignment})["assignment"] is None


NO_NUMBER = dict.fromkeys(("preparationMs", "compilationMs", "trainingMs", "uploadMs"))
NOTHING = {
    "schemaVersion": 1,
    "sequence": 1,
    "measuredAt": UNKNOWN,
    "environment": dict.fromkeys(("browser", "browserVersion", "os", "logicalCores"), UNKNOWN),
    "execution": {
        **dict.fromkeys(("requested", "actual", "backend", "activeWorkers", "workerLimit"), UNKNOWN),
        "fallbackReason": None,
    },
    "gpu": dict.fromkeys(("webgpu", "adapter", "memoryBudgetMiB", "initializationError"), UNKNOWN),
    "model": UNKNOWN,
    "assignment": None,
    "stage": "waiting",
    "error": None,
    "timings": NO_NUMBER,
    "performance": {
        **dict.fromkeys(("processedExamples", "totalExamples", "optimizerSteps"), UNKNOWN),
        **dict.fromkeys(("currentExamplesPerSecond", "averageExamplesPerSecond", "lastProgressAt")),
    },
    "metrics": None,
}


@pytest.mark.parametrize("section", [None, 7, "unknown", [], {}])
def test_what_is_missing_is_unknown_or_null_and_never_0(section):
    """Pages look into every section: each has all its members."""
    missing = {} if section is None else dict.fromkeys(SECTIONS, section) | {"model": section, "assignment": section}
    assert clean_snapshot({"sequence": 1, "stage": "waiting", **missing}) == NOTHING


def test_unknown_members_of_the_whole_are_dropped():
    assert "owner" not in clean_snapshot({**EXAMPLE, "owner": 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_know_are_missing(number):
    """C76: the other values stay."""
    odd = {"currentExamplesPerSecond": number, "totalExamples": number}
    cleaned = clean_snapshot({**EXAMPLE, "performance": EXAMPLE["performance"] | odd, "metrics": {"a": 1, "b": number}})
    assert cleaned["performance"] == EXAMPLE["performance"] | {
        "currentExamplesPerSecond": None,
        "totalExamples": UNKNOWN,
    }
    assert cleaned["metrics"] == {"a": 1}


def test_metrics_are_few_and_may_be_negative():
    many = {f"m{n}": -1.5 for n in range(1_000)} | {"x" * 1_000: 1}
    assert clean_snapshot({**EXAMPLE, "metrics": many})["metrics"] == dict(list(many.items())[:MAX_SNAPSHOT_METRICS])
    assert clean_snapshot({**EXAMPLE, "metrics": {"a": True, "b": "1", "c": 10**400, "d": -2}})["metrics"] == {"d": -2}


@pytest.mark.parametrize("reason", [UNKNOWN, "", "  ", 7, None, {}, ["x"], " unknown "])
def test_unknown_is_never_a_reason(reason):
    execution = {**EXAMPLE["execution"], "fallbackReason": reason}
    cleaned = clean_snapshot({**EXAMPLE, "execution": execution, "error": reason})
    assert (cleaned["execution"]["fallbackReason"], cleaned["error"]) == (None, None)


@pytest.mark.parametrize(
    "error, kept", [(None, None), (UNKNOWN, UNKNOWN), (7, UNKNOWN), ("Device lost.", "Device lost.")]
)
def test_a_gpu_that_was_not_tried_differs_from_one_that_worked(error, kept):
    cleaned = clean_snapshot({**EXAMPLE, "gpu": {**EXAMPLE["gpu"], "initializationError": error}})
    assert cleaned["gpu"]["initializationError"] == kept


@pytest.mark.parametrize(
    "section, member, allowed",
    [
        ("execution", "requested", ["auto", "cpu", "gpu", "hybrid"]),
        ("execution", "actual", ["cpu", "gpu", "hybrid", UNKNOWN]),
        ("gpu", "webgpu", ["available", "unavailable"]),
    ],
)
def test_words_are_those_of_the_interface(section, member, allowed):
    def kept(word):
        return clean_snapshot({**EXAMPLE, section: {**EXAMPLE[section], member: word}})[section][member]

    assert [kept(word) for word in allowed] == allowed
    assert {kept(word) for word in ("CPU", "", "quantum", None, 1)} == {UNKNOWN}


def test_texts_are_cleaned_and_cut_and_the_rest_is_kept():
    """C86: NUL, a lone surrogate and a description of 100,000 characters."""
    adapter = {"vendor": "a\0b\ud800c", "architecture": 7, "description": "x" * 100_000}
    gpu = clean_snapshot({**EXAMPLE, "gpu": {**EXAMPLE["gpu"], "adapter": adapter}})["gpu"]
    cleaned = {"vendor": "ab?c", "architecture": UNKNOWN, "device": UNKNOWN, "description": "x" * MAX_SNAPSHOT_TEXT}
    assert gpu == {**EXAMPLE["gpu"], "adapter": cleaned}


def test_a_member_of_another_type_is_unknown_and_one_that_nobody_knows_is_dropped():
    """H8: pages compute with these."""
    odd = {"processedExamples": "<b>", "totalExamples": [1], "optimizerSteps": True, "lastProgressAt": -1, "owner": 1}
    cleaned = clean_snapshot({**EXAMPLE, "performance": odd, "environment": {"browser": None, "os": {"x": 1}}})
    assert cleaned["performance"] == {
        **dict.fromkeys(("processedExamples", "totalExamples", "optimizerSteps"), UNKNOWN),
        **dict.fromkeys(("currentExamplesPerSecond", "averageExamplesPerSecond", "lastProgressAt"), None),
    }
    assert set(cleaned["environment"].values()) == {UNKNOWN}


def test_the_members_are_those_of_the_golden_example():
    """The peers' own snapshots are tested against the same example."""
    for name, members in {**SECTIONS, "assignment": ASSIGNMENT}.items():
        assert set(members) == set(EXAMPLE[name]) == set(WHOLE[name])
    assert set(clean_snapshot({"sequence": 1, "stage": "waiting"})) == set(EXAMPLE) == set(WHOLE)


HASH = "0f" * 32


@pytest.mark.parametrize(
    "change",
    [
        {"wasmSha256": "f" * 63},
        {"wasmSha256": HASH.upper()},
        {"wasmSha256": None},
        {"wgsl": None},
        {"wgsl": {"present": 1, "sha256": []}},
        {"wgsl": {"present": True, "sha256": "none"}},
        {"wgsl": {"present": True, "sha256": [HASH, "x"]}},
        {"wgsl": {"present": True, "sha256": [HASH] * (MAX_HASHES + 1)}},
    ],
)
def test_a_model_without_its_hashes_is_unknown(change):
    """Participants are compared by them."""
    assert clean_snapshot({**EXAMPLE, "model": {**EXAMPLE["model"], **change}})["model"] == UNKNOWN


def test_a_model_tells_the_hashes_of_all_its_shaders():
    model = {**EXAMPLE["model"], "wgsl": {"present": True, "sha256": [HASH] * MAX_HASHES}}
    assert clean_snapshot({**EXAMPLE, "model": model})["model"] == model


@pytest.mark.parametrize("sequence", [None, -1, 1.5, "1", True, 2**53 + 1, [], {}])
def test_without_a_sequence_it_is_no_snapshot(sequence):
    with pytest.raises(Invalid, match="snapshot.sequence"):
        clean_snapshot({"sequence": sequence, "stage": "waiting"})


@pytest.mark.parametrize("stage", [None, "", "resting", 1, [], {}, ["waiting"]])
def test_without_a_stage_that_is_known_it_is_no_snapshot(stage):
    with pytest.raises(Invalid, match="snapshot.stage"):
        clean_snapshot({"sequence": 1, "stage": stage})


PARTS = {**SECTIONS, "assignment": ASSIGNMENT}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {"sequence": st.integers(0, 2**53), "stage": st.sampled_from(sorted(STAGES))},
        optional={
            **dict.fromkeys(("measuredAt", "error", "model", "metrics"), JSON),
            **{name: JSON | st.fixed_dictionaries(dict.fromkeys(members, JSON)) for name, members in PARTS.items()},
        },
    )
)
def test_whatever_it_holds_the_result_is_json_that_a_strict_reader_takes(value):
    cleaned = clean_snapshot(value)
    text = js_json.dumps(cleaned)
    assert strict_json.loads(text) is not None
    assert clean_snapshot(cleaned) == cleaned


def peer_id():
    return uuid.uuid4()


def test_the_latest_is_kept_and_its_age_is_the_servers(monkeypatch):
    """C70: the peer's own clock, right or wrong, moves nothing; the age is never negative."""
    now = [1_000.0]
    monkeypatch.setattr("diagnostics.live.time.time", lambda: now[0])
    peer = peer_id()
    snapshot_put(peer, {"sequence": 1, "measuredAt": 9e15})
    now[0] += 10
    job = uuid.uuid4()
    shown = {"snapshot": {"sequence": 1, "measuredAt": 9e15}, "heldMs": 10_000}
    assert job_snapshots(job, [peer]) == {str(peer): shown}
    snapshot_put(peer, {"sequence": 2})
    now[0] -= 3_600
    assert job_snapshots(job, [peer])[str(peer)]["heldMs"] == 0
    assert last_sequence(peer) == 2 and last_sequence(peer_id()) == 0
    assert held_snapshots([]) == {} and held_snapshots([peer_id()]) == {}


def test_where_nothing_is_kept_the_sequence_goes_on_above_all_that_was_told_before(monkeypatch):
    """Redis was emptied, or the peer was away for more than an hour: a page that stayed open still shows its last one.
    It was told above this clock of an earlier time, and no peer sends a thousand snapshots a second."""
    now = [1_764_421_200.0]
    monkeypatch.setattr("diagnostics.live.time.time", lambda: now[0])
    first = go_on_above(0)
    assert go_on_above(17) == 17
    told = first + 10 * 60
    now[0] += 60
    assert go_on_above(0) > told


def test_a_snapshot_of_another_job_is_not_shown():
    """Also one without an assignment: its error and its model are of the job that the peer had then."""
    mine, other = uuid.uuid4(), uuid.uuid4()
    cases = {
        "waiting here": (None, str(mine)),
        "here": (str(mine), str(mine)),
        "not known where": (str(mine), None),
        "elsewhere": (str(other), str(other)),
        "waiting elsewhere": (None, str(other)),
        "late from elsewhere": (str(other), str(mine)),
        "without a job": (None, "none"),
    }
    peers = {name: peer_id() for name in cases}
    for name, (assignment, job) in cases.items():
        snapshot = {"sequence": 1, "assignment": {"jobId": assignment} if assignment else None}
        snapshot_put(peers[name], snapshot, job_id=job)
    shown = job_snapshots(mine, peers.values())
    assert {name for name, peer in peers.items() if str(peer) in shown} == {"waiting here", "here", "not known where"}


@pytest.mark.parametrize("assignment", ["unknown", [], 7, {"jobId": 7}])
def test_an_odd_assignment_breaks_nothing(assignment):
    peer = peer_id()
    snapshot_put(peer, {"sequence": 1, "assignment": assignment})
    assert set(job_snapshots(uuid.uuid4(), [peer])) <= {str(peer)}
