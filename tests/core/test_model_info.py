import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.model_info import (
    MAX_MODEL_INFO_BYTES,
    ModelInfo,
    allowed_methods,
    check_against_weights,
    parse_model_info,
    same_declaration,
)

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "model_info.json").read_text(encoding="utf-8"))
HASH = "ab" * 32


def model_info(of: str = "dataset", **changes: object) -> ModelInfo:
    return parse_model_info({**GOLDEN[of], **changes})


def changed_at(value: dict[str, Any], path: list[Any], new: object) -> dict[str, Any]:
    """`value` with `new` at `path`; None takes the field away."""
    value = copy.deepcopy(value)
    holder: Any = value
    for step in path[:-1]:
        holder = holder[step]
    if new is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return value


def test_reads_the_founding_examples():
    dataset, experience = model_info("dataset"), model_info("experience")
    assert (dataset.id, dataset.max_chunk_bytes, dataset.metrics[0].direction) == ("my-model", 8388608, "minimize")
    assert (dataset.is_experience, dataset.reads_data, set(dataset.metric_ids)) == (False, True, {"loss"})
    assert dataset.capabilities.evaluation is False
    assert (experience.is_experience, experience.reads_data) == (True, False)
    assert experience.work_source is not None
    assert experience.work_source.units_per_assignment.maximum == 4096


def test_keeps_the_text_as_received_and_ignores_unknown_fields():
    text = json.dumps({**GOLDEN["dataset"], "later": {"a": [1e2]}}, indent=3)
    info = parse_model_info(text.encode())
    assert info.text == text
    assert "later" not in info.model_dump()


@pytest.mark.parametrize("case", GOLDEN["refused"], ids=lambda case: case["name"])
def test_refuses(case):
    """C13, C47, C86, F11, U16."""
    with pytest.raises(Invalid) as refused:
        parse_model_info(changed_at(GOLDEN[case["of"]], case["at"], case["value"]))
    if case["field"]:
        assert refused.value.field == case["field"]
        assert refused.value.message.startswith(f"{case['field']} ")
    assert refused.value.message.endswith(".")


def test_names_what_was_found_and_what_is_allowed():
    with pytest.raises(Invalid) as refused:
        parse_model_info(changed_at(GOLDEN["dataset"], ["metrics", 0, "direction"], "max"))
    assert refused.value.message == "modelInfo.metrics[0].direction must be 'minimize' or 'maximize'; found \"max\"."


def test_refuses_4097_ranges_and_takes_4096():
    """C13."""
    ranges = [{"offset": 4 * i, "bytes": 4} for i in range(4097)]
    info = model_info(aggregation={"averageOnly": ranges[:4096]})
    check_against_weights(info, 4 * 4096)
    with pytest.raises(Invalid, match=r"averageOnly must be a list of at most 4096; found 4097"):
        model_info(aggregation={"averageOnly": ranges})


def test_takes_ranges_that_touch_in_any_order():
    """C13."""
    ranges = [{"offset": 8, "bytes": 4}, {"offset": 0, "bytes": 8}]
    check_against_weights(model_info(aggregation={"averageOnly": ranges}), 16)


@pytest.mark.parametrize(("offset", "length"), [(12, 8), (16, 4)])
def test_refuses_ranges_past_the_weights(offset, length):
    """C13."""
    info = model_info(aggregation={"averageOnly": [{"offset": offset, "bytes": length}]})
    with pytest.raises(Invalid) as refused:
        check_against_weights(info, 16)
    assert refused.value.field == "modelInfo.aggregation.averageOnly[0]"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=5))
def test_ranges_are_taken_exactly_when_no_float_is_in_two(ranges):
    floats = [index for start, count in ranges for index in range(start, start + count)]
    declared = {"averageOnly": [{"offset": 4 * start, "bytes": 4 * count} for start, count in ranges]}
    try:
        model_info(aggregation=declared)
        taken = True
    except Invalid:
        taken = False
    assert taken == (len(set(floats)) == len(floats))


@pytest.mark.parametrize(
    ("declared", "allowed"),
    [
        (None, ("fedavg", "fedavgm", "fedadam")),
        ({}, ("fedavg", "fedavgm", "fedadam")),
        ({"methods": []}, ("fedavg",)),
        ({"methods": ["fedadam"]}, ("fedavg", "fedadam")),
    ],
)
def test_fedavg_is_always_allowed(declared, allowed):
    """C13."""
    assert allowed_methods(model_info(aggregation=declared)) == allowed


@pytest.mark.parametrize("weight_bytes", [0, -4, 6, 17])
def test_refuses_weights_that_are_no_floats(weight_bytes):
    """W16."""
    with pytest.raises(Invalid, match="whole number of float32"):
        check_against_weights(model_info("experience"), weight_bytes)


def slot(**changes: object) -> dict[str, Any]:
    return {"id": "s", "role": "r", "bytes": 16, **changes}


def test_a_snapshot_has_the_size_of_the_weights():
    info = model_info("experience", auxiliaryWeights=[slot(source={"kind": "checkpoint", "roundsAgo": 0})])
    check_against_weights(info, 16)
    with pytest.raises(Invalid) as refused:
        check_against_weights(info, 20)
    assert refused.value.field == "modelInfo.auxiliaryWeights[0].bytes"


def test_slots_and_twice_the_weights_fit_into_3_gib():
    """F11 and the memory rule: 2 GiB of slots leave 512 MiB for the weights."""
    info = model_info("experience", auxiliaryWeights=[slot(sha256=HASH, bytes=2**31)])
    check_against_weights(info, 2**29)
    with pytest.raises(Invalid, match="fit into 3221225472 bytes; found 3221225480"):
        check_against_weights(info, 2**29 + 4)


@pytest.mark.parametrize(
    ("evaluation", "inputs", "units", "file", "possible"),
    [
        (True, "none", 32, False, True),
        (True, "none", 0, False, False),
        (False, "none", 32, False, False),
        (True, "dataset", 0, True, True),
        (True, "dataset", 32, False, False),
        (False, "dataset", 0, True, False),
    ],
)
def test_evaluates_on_its_own_units_or_on_a_file(evaluation, inputs, units, file, possible):
    source = {**GOLDEN["experience"]["workSource"], "inputs": inputs, "evaluationUnits": units}
    formats = GOLDEN["dataset"]["dataFormats"]
    declared = {"workSource": source, "dataFormats": formats, "capabilities": {"evaluation": evaluation}}
    info = model_info("experience", **declared)
    assert info.can_evaluate(validation_file=file) is possible
    assert info.evaluation_units == (32 if possible and inputs == "none" else 0)


def test_a_dataset_model_evaluates_on_a_file():
    info = model_info(capabilities={"evaluation": True})
    assert (info.can_evaluate(validation_file=True), info.can_evaluate(validation_file=False)) == (True, False)


def test_hashes_of_slots_come_out_in_lower_case():
    """C46."""
    assert model_info("experience", auxiliaryWeights=[slot(sha256="AB" * 32)]).auxiliary_weights[0].sha256 == HASH


def test_takes_256_kib_and_refuses_one_byte_more():
    empty = len(json.dumps({**GOLDEN["dataset"], "pad": ""}).encode())
    fits = json.dumps({**GOLDEN["dataset"], "pad": "x" * (MAX_MODEL_INFO_BYTES - empty)}).encode()
    assert len(parse_model_info(fits).text) == MAX_MODEL_INFO_BYTES
    with pytest.raises(Invalid, match="at most 262144 bytes; found 262145"):
        parse_model_info(fits + b" ")


@pytest.mark.parametrize("data", [b"[]", b"null", b"", b"\xff", b'{"id": NaN}', b'{"id":"a","id":"b"}'])
def test_refuses_what_is_no_json_object(data):
    """W8."""
    with pytest.raises(Invalid):
        parse_model_info(data)


def test_two_answers_are_compared_as_json_values():
    """W13."""
    info = model_info()
    reordered = parse_model_info(dict(reversed(GOLDEN["dataset"].items())))
    assert same_declaration(info, reordered)
    assert same_declaration(info, parse_model_info(json.dumps(GOLDEN["dataset"], indent=1).encode()))
    assert not same_declaration(info, model_info(version="1.0.1"))
    assert not same_declaration(model_info(later=1), model_info(later=True))
    assert not same_declaration(model_info(later=[1]), model_info(later=[1, 2]))


def test_tensors_cover_the_weights_in_order():
    info = model_info(tensors=[{"name": "w", "shape": [2, 3]}, {"name": "scale", "shape": []}], aggregation={})
    check_against_weights(info, 28)
    assert [tensor.values for tensor in info.tensors] == [6, 1]
    with pytest.raises(Invalid, match=r"modelInfo.tensors must name all 8 values of the weights; found 7\."):
        check_against_weights(info, 32)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ([{"name": "w", "shape": [2]}, {"name": "w", "shape": [1]}], 'differ; found "w" twice'),
        ([{"name": "__metadata__", "shape": [2]}], "names other than __metadata__"),
        ([{"name": "w", "shape": [0]}], "tensors"),
        ([{"name": "w", "shape": [1] * 9}], "at most 8"),
        ([{"name": f"w{i}", "shape": [1]} for i in range(4097)], "at most 4096"),
    ],
)
def test_tensors_that_no_file_could_hold_are_refused(tensors, said):
    with pytest.raises(Invalid, match=said):
        model_info(tensors=tensors)
