import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.training_settings import changed, check_checkpoint_size, parse_settings

GOLDEN_FOLDER = Path(__file__).parent.parent / "golden"
GOLDEN = json.loads((GOLDEN_FOLDER / "settings.json").read_text(encoding="utf-8"))
INFOS = json.loads((GOLDEN_FOLDER / "model_info.json").read_text(encoding="utf-8"))
BASE = GOLDEN["base"]


def dataset_info(**changes: object) -> ModelInfo:
    return parse_model_info({**INFOS["dataset"], **changes})


def experience_info(**changes: object) -> ModelInfo:
    return parse_model_info({**INFOS["experience"], **changes})


@pytest.mark.parametrize("case", GOLDEN["accepted"], ids=lambda case: case["name"])
def test_writes_one_form_for_what_it_reads(case):
    """C47, F14; the texts are what every host passes on."""
    for_experience = case["of"] == "experience"
    settings = parse_settings(case["given"], for_experience=for_experience)
    assert settings.text == case["text"]
    assert settings.train_text == case["trainText"]
    assert parse_settings(strict_json.loads(settings.text), for_experience=for_experience) == settings


@pytest.mark.parametrize("case", GOLDEN["refused"], ids=lambda case: case["name"])
def test_refuses(case):
    """C05, C31, C36, C47, F14, H14."""
    with pytest.raises(Invalid) as refused:
        parse_settings({**BASE, **case["change"]}, for_experience=False)
    if case["field"]:
        assert refused.value.field == case["field"]


@pytest.mark.parametrize("name", ["epochs", "localEpochs", "batchSize", "coordinatorParticipates"])
def test_names_a_missing_field(name):
    with pytest.raises(Invalid, match=rf"^settings\.{name} is missing\.$"):
        parse_settings({key: value for key, value in BASE.items() if key != name}, for_experience=False)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_refuses_what_is_no_object(value):
    with pytest.raises(Invalid, match="settings must be an object"):
        parse_settings(value, for_experience=False)


@pytest.mark.parametrize("name", ["epochs", "rounds"])
@pytest.mark.parametrize(("last", "more"), [(500, 103), (398, 1), (397, None), (396, None), (397.5, None)])
def test_rounds_of_a_continued_experience_job_are_absolute(name, last, more):
    """C31, F10."""
    value = {key: field for key, field in BASE.items() if key != "epochs"} | {name: last}
    if more is None:
        with pytest.raises(Invalid):
            parse_settings(value, for_experience=True, continued_from=397)
    else:
        assert parse_settings(value, for_experience=True, continued_from=397).epochs - 397 == more


def test_passes_of_a_continued_dataset_job_are_its_own():
    assert parse_settings({**BASE, "epochs": 1}, for_experience=False, continued_from=397).epochs == 1


def test_experience_jobs_validate_by_rounds_only():
    value = {**BASE, "validationSchedule": {"enabled": True, "unit": "epoch", "every": 1}}
    assert parse_settings(value, for_experience=False)
    with pytest.raises(Invalid) as refused:
        parse_settings(value, for_experience=True)
    assert refused.value.field == "settings.validationSchedule.unit"


def test_units_default_to_the_models_and_stay_within_its_bounds():
    settings = parse_settings(BASE, for_experience=True, info=experience_info())
    assert settings.units_per_assignment == 32
    assert settings.to_json()["experience"] == {"unitsPerAssignment": 32}
    for units in (0, 4097, True, 1.5):
        with pytest.raises(Invalid) as refused:
            value = {**BASE, "experience": {"unitsPerAssignment": units}}
            parse_settings(value, for_experience=True, info=experience_info())
        assert refused.value.field == "settings.experience.unitsPerAssignment"


def test_units_are_counted_in_32_bits_whatever_the_model_allows():
    bounds = {"default": 2**40, "minimum": 1, "maximum": 2**40}
    info = experience_info(workSource={**INFOS["experience"]["workSource"], "unitsPerAssignment": bounds})
    with pytest.raises(Invalid, match="2147483647") as refused:
        parse_settings(BASE, for_experience=True, info=info)
    assert refused.value.field == "settings.experience.unitsPerAssignment"
    value = {**BASE, "experience": {"unitsPerAssignment": 2**31 - 1}}
    assert parse_settings(value, for_experience=True, info=info).units_per_assignment == 2**31 - 1


def test_refuses_a_method_that_the_model_does_not_allow():
    """C13."""
    info = dataset_info(aggregation={"methods": ["fedavgm"]})
    with pytest.raises(Invalid) as refused:
        parse_settings({**BASE, "aggregation": {"method": "fedadam"}}, for_experience=False, info=info)
    assert refused.value.message == 'settings.aggregation.method must be one of fedavg, fedavgm; found "fedadam".'


def test_a_schedule_needs_a_model_that_can_evaluate():
    value = {**BASE, "validationSchedule": {"enabled": True, "unit": "round", "every": 1}}
    off = {**BASE, "validationSchedule": {"enabled": False, "unit": "round", "every": 1}}
    without_units = {**INFOS["experience"]["workSource"], "evaluationUnits": 0}
    assert parse_settings(value, for_experience=True, info=experience_info())
    assert parse_settings(off, for_experience=False, info=dataset_info())
    for info in (dataset_info(), experience_info(workSource=without_units)):
        with pytest.raises(Invalid) as refused:
            parse_settings(value, for_experience=info.is_experience, info=info)
        assert refused.value.field == "settings.validationSchedule.enabled"


@pytest.mark.parametrize(("method", "copies"), [("fedavg", 1), ("fedavgm", 2), ("fedadam", 3)])
def test_checkpoints_stay_within_256_mb(method, copies):
    largest = (256 * 2**20 - 2**20) // copies // 4 * 4
    check_checkpoint_size(method, largest)
    with pytest.raises(Invalid) as refused:
        value = {**BASE, "aggregation": {"method": method}}
        parse_settings(value, for_experience=False, info=dataset_info(), weight_bytes=largest + 4)
    assert refused.value.field == "settings.aggregation.method"


def test_a_change_keeps_the_other_fields():
    settings = parse_settings({**BASE, "learningRate": 0.1, "seed": "7"}, for_experience=False)
    new = changed(settings, {"aggregation": {"method": "fedavgm"}, "rounds": 9}, for_experience=False)
    assert (new.epochs, new.learning_rate, new.seed, new.aggregation.method) == (9, 0.1, "7", "fedavgm")


def test_a_change_takes_the_whole_settings_or_takes_a_field_away():
    settings = parse_settings({**BASE, "learningRate": 0.1, "seed": "7"}, for_experience=False)
    assert changed(settings, settings.to_json(), for_experience=False) == settings
    assert changed(settings, {"learningRate": None}, for_experience=False).learning_rate is None
    with pytest.raises(Invalid, match="batchSize is missing"):
        changed(settings, {"batchSize": None}, for_experience=False)
    with pytest.raises(Invalid, match="the same"):
        changed(settings, {"epochs": 4, "rounds": 5}, for_experience=False)


@pytest.mark.parametrize("seed", ["8", None])
def test_a_change_never_changes_the_seed(seed):
    settings = parse_settings({**BASE, "seed": "7"}, for_experience=False)
    with pytest.raises(Invalid) as refused:
        changed(settings, {"seed": seed}, for_experience=False)
    assert refused.value.field == "settings.seed"


ANY_SETTINGS = st.fixed_dictionaries(
    {
        "epochs": st.integers(1, 2**31 - 1),
        "localEpochs": st.integers(1, 1000),
        "batchSize": st.integers(1, 2**31 - 1),
        "coordinatorParticipates": st.booleans(),
    },
    optional={
        "learningRate": st.floats(0, 1e6),
        "aggregation": st.one_of(
            st.just({"method": "fedavg"}),
            st.fixed_dictionaries({"method": st.just("fedavgm"), "momentum": st.floats(0, 0.99)}),
            st.fixed_dictionaries({"method": st.just("fedadam"), "epsilon": st.floats(0, 1)}),
        ),
        "workers": st.integers(1, 64),
        "seed": st.integers(0, 2**64 - 1).map(str),
        "stragglerFactor": st.floats(0, 1000),
        "validationSchedule": st.fixed_dictionaries(
            {"enabled": st.booleans(), "unit": st.sampled_from(["round", "epoch"]), "every": st.integers(1, 100)}
        ),
    },
)


@given(ANY_SETTINGS)
def test_text_reads_back_to_the_same_settings(value):
    settings = parse_settings(value, for_experience=False)
    again = parse_settings(strict_json.loads(settings.text), for_experience=False)
    assert again == settings
    assert again.text == settings.text


def test_unknown_fields_are_no_error_inside_a_checkpoint_file():
    value = {"epochs": 3, "localEpochs": 1, "batchSize": 8, "coordinatorParticipates": True, "fromTheFuture": {"x": 1}}
    with pytest.raises(Invalid, match="fromTheFuture"):
        parse_settings(value, for_experience=False)
    assert parse_settings(value, for_experience=False, keep_unknown=True).epochs == 3
