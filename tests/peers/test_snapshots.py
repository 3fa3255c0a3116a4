"""What peers say of themselves: cleaned at the edge, kept in the cache, aged by the server's clock.

C70, C76, C86, H8."""

import json
import math
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.domain.snapshot import MAX_HASHES, MAX_TEXT, SECTIONS, STAGES, UNKNOWN, clean_snapshot
from diagnostics.live import job_snapshots, last_sequence, snapshot_put, snapshots
from weei_core import js_json, strict_json
from weei_core.errors import Invalid

EXAMPLE = next(
    message["snapshot"]
    for message in json.loads((Path(__file__).parents[1] / "golden" / "messages.json").read_text())["client"]
    if message["type"] == "diagnostics"
)


def test_a_whole_snapshot_comes_through_as_it_is():
    assert clean_snapshot(EXAMPLE) == EXAMPLE


@pytest.mark.parametrize("assignment", ["unknown", 7, [], True])
def test_an_assignment_is_an_object_or_none(assignment):
    """Pages look into it."""
    assert clean_snapshot({**EXAMPLE, "assignment": assignment})["assignment"] is None


def test_sections_that_are_missing_are_unknown_and_no_assignment_is_none():
    cleaned = clean_snapshot({"sequence": 1, "stage": "waiting"})
    assert cleaned["assignment"] is None
    assert {cleaned[name] for name in SECTIONS if name != "assignment"} == {UNKNOWN}
    assert cleaned["schemaVersion"] == 1


def test_unknown_members_of_the_whole_are_dropped():
    assert "owner" not in clean_snapshot({**EXAMPLE, "owner": 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_know_are_unknown(number):
    """C76: the other values stay."""
    performance = {**EXAMPLE["performance"], "currentExamplesPerSecond": number}
    cleaned = clean_snapshot({**EXAMPLE, "performance": performance})["performance"]
    assert cleaned == {**EXAMPLE["performance"], "currentExamplesPerSecond": UNKNOWN}


def test_texts_are_cleaned_and_cut_and_the_rest_is_kept():
    """C86: NUL, a lone surrogate and a description of 100,000 characters."""
    adapter = {"vendor": "a\0b\ud800c", "architecture": 7, "description": "x" * 100_000}
    gpu = clean_snapshot({**EXAMPLE, "gpu": {**EXAMPLE["gpu"], "adapter": adapter}})["gpu"]
    cleaned = {"vendor": "ab?c", "architecture": UNKNOWN, "device": UNKNOWN, "description": "x" * MAX_TEXT}
    assert gpu == {**EXAMPLE["gpu"], "adapter": cleaned}


def test_a_member_of_another_type_is_unknown_and_one_that_nobody_knows_is_dropped():
    """H8: pages compute with these."""
    odd = {"processedExamples": "<b>", "totalExamples": [1], "optimizerSteps": True, "lastProgressAt": -1, "owner": 1}
    cleaned = clean_snapshot({**EXAMPLE, "performance": odd, "environment": {"browser": None, "os": {"x": 1}}})
    assert cleaned["performance"] == {
        **dict.fromkeys(("processedExamples", "totalExamples", "optimizerSteps", "lastProgressAt"), UNKNOWN),
        **dict.fromkeys(("currentExamplesPerSecond", "averageExamplesPerSecond"), None),
    }
    assert set(cleaned["environment"].values()) == {UNKNOWN}


def test_the_members_are_those_of_the_golden_example():
    """The peers' own snapshots are tested against the same example."""
    for name, members in SECTIONS.items():
        assert set(members) == set(EXAMPLE[name])


def test_hashes_of_shaders_are_bounded():
    model = {**EXAMPLE["model"], "wgsl": {"present": True, "sha256": ["x"] * 1_000}}
    assert len(clean_snapshot({**EXAMPLE, "model": model})["model"]["wgsl"]["sha256"]) == MAX_HASHES


@pytest.mark.parametrize("sequence", [None, -1, 1.5, "1", True, 2**53 + 1, [], {}])
def test_without_a_sequence_it_is_no_snapshot(sequence):
    with pytest.raises(Invalid, match="snapshot.sequence"):
        clean_snapshot({"sequence": sequence, "stage": "waiting"})


@pytest.mark.parametrize("stage", [None, "", "resting", 1, [], {}, ["waiting"]])
def test_without_a_stage_that_is_known_it_is_no_snapshot(stage):
    with pytest.raises(Invalid, match="snapshot.stage"):
        clean_snapshot({"sequence": 1, "stage": stage})


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
            **dict.fromkeys(("measuredAt", "error"), JSON),
            **{name: JSON | st.fixed_dictionaries(dict.fromkeys(members, JSON)) for name, members in SECTIONS.items()},
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
    assert snapshots([peer]) == {str(peer): {"snapshot": {"sequence": 1, "measuredAt": 9e15}, "heldMs": 10_000}}
    snapshot_put(peer, {"sequence": 2})
    now[0] -= 3_600
    assert snapshots([peer])[str(peer)]["heldMs"] == 0
    assert last_sequence(peer) == 2 and last_sequence(peer_id()) == 0
    assert snapshots([]) == {} and snapshots([peer_id()]) == {}


def test_a_snapshot_of_another_job_is_not_shown():
    mine, other = uuid.uuid4(), uuid.uuid4()
    waiting, here, elsewhere = peer_id(), peer_id(), peer_id()
    snapshot_put(waiting, {"sequence": 1, "assignment": None})
    snapshot_put(here, {"sequence": 1, "assignment": {"jobId": str(mine)}})
    snapshot_put(elsewhere, {"sequence": 1, "assignment": {"jobId": str(other)}})
    assert set(job_snapshots(mine, [waiting, here, elsewhere])) == {str(waiting), str(here)}


@pytest.mark.parametrize("assignment", ["unknown", [], 7, {"jobId": 7}])
def test_an_odd_assignment_breaks_nothing(assignment):
    peer = peer_id()
    snapshot_put(peer, {"sequence": 1, "assignment": assignment})
    assert set(job_snapshots(uuid.uuid4(), [peer])) <= {str(peer)}
