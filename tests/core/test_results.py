import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.errors import Invalid, ModelError
from weei_core.results import (
    TrainResult,
    UpdateReport,
    module_error_text,
    parse_evaluation,
    parse_inspection,
    parse_prediction,
    parse_report,
    parse_train_result,
)

RESULT = {
    "weights": {"pointer": 65536, "bytes": 16},
    "metrics": {"loss": 0.5},
    "examplesProcessed": 384,
    "uniqueExamples": 128,
}
REPORT = {"examplesProcessed": 384, "uniqueExamples": 128, "metrics": {"loss": 0.5}}


def train_result(value: object, *, assigned: int = 128, experience: bool = False) -> TrainResult:
    return parse_train_result(value, assigned=assigned, experience=experience, declared_metrics={"loss", "accuracy"})


def report(value: object, *, assigned: int = 128, experience: bool = False) -> UpdateReport:
    return parse_report(value, assigned=assigned, experience=experience, declared_metrics={"loss", "accuracy"})


def test_reads_a_train_result():
    """C21: three local epochs over 128 records weigh 128."""
    result = train_result({**RESULT, "optimizerSteps": 12, "later": 1})
    assert (result.pointer, result.bytes, result.metrics) == (65536, 16, {"loss": 0.5})
    assert (result.examples_processed, result.unique_examples, result.optimizer_steps) == (384, 128, 12)


@pytest.mark.parametrize("unique", [1, 120, 128, 128.0])
def test_the_weight_is_what_was_finished_up_to_what_was_assigned(unique):
    """C21, C50."""
    assert train_result({**RESULT, "uniqueExamples": unique}).unique_examples == unique
    assert report({**REPORT, "uniqueExamples": unique}).unique_examples == unique


@pytest.mark.parametrize("unique", [0, -1, 129, 10_000_000, 128.5, float("nan"), True, "128", None])
def test_refuses_another_weight(unique):
    """C21, C50, U8."""
    with pytest.raises(ModelError):
        train_result({**RESULT, "uniqueExamples": unique})
    with pytest.raises(Invalid) as refused:
        report({**REPORT, "uniqueExamples": unique})
    assert (refused.value.field, refused.value.code) == ("report.uniqueExamples", "invalid_report")


def test_no_finished_unit_is_a_weight_for_experience():
    """C06, U9."""
    assert train_result({**RESULT, "uniqueExamples": 0}, experience=True).unique_examples == 0
    assert report({**REPORT, "uniqueExamples": 0}, experience=True).unique_examples == 0


@pytest.mark.parametrize(
    "change",
    [
        {"weights": None},
        {"weights": {"pointer": -1, "bytes": 4}},
        {"weights": {"pointer": 0, "bytes": 2**32}},
        {"metrics": None},
        {"metrics": [1]},
        {"metrics": {"loss": "0.5"}},
        {"metrics": {"loss": True}},
        {"metrics": {f"m{i}": 0.0 for i in range(65)}},
        {"examplesProcessed": -1},
        {"optimizerSteps": 1.5},
    ],
)
def test_refuses_a_train_result_that_does_not_fit(change):
    """W7, W8."""
    with pytest.raises(ModelError) as refused:
        train_result({**RESULT, **change})
    assert refused.value.operation == "train"
    assert refused.value.message.startswith("The module's answer to train does not fit: train.")


@pytest.mark.parametrize("value", [None, [], "x", 3, {}])
def test_refuses_what_is_no_result(value):
    for read in (train_result, lambda v: parse_evaluation(v, set()), parse_inspection, parse_prediction):
        with pytest.raises(ModelError):
            read(value)


def test_drops_metrics_that_are_not_declared_or_not_finite():
    """C07, C17, U10: the update is kept."""
    metrics = {"loss": float("nan"), "accuracy": 1, "f1": 0.5, "perplexity": None}
    assert train_result({**RESULT, "metrics": metrics}).metrics == {"accuracy": 1.0}
    assert report({**REPORT, "metrics": metrics}).metrics == {"accuracy": 1.0}
    assert report({**REPORT, "metrics": {"loss": float("-inf")}}).metrics == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metrics": {f"m{i}": 0.0 for i in range(65)}}, "report.metrics"),
        ({"metrics": {"other": "0.5"}}, "report.metrics.other"),
        ({"metrics": {"loss": True}}, "report.metrics.loss"),
        ({"metrics": {"loss": [1]}}, "report.metrics.loss"),
        ({"metrics": None}, "report.metrics"),
        ({"examplesProcessed": -1}, "report.examplesProcessed"),
        ({"optimizerSteps": "3"}, "report.optimizerSteps"),
        ({"round": 0}, "report.round"),
        ({"owner": "me"}, "report.owner"),
    ],
)
def test_refuses_a_report_that_does_not_fit(change, field):
    """U8, U10, H14."""
    with pytest.raises(Invalid) as refused:
        report({**REPORT, **change})
    assert (refused.value.field, refused.value.code) == (field, "invalid_report")


def test_reads_a_report():
    read = report({**REPORT, "round": 3, "optimizerSteps": 12})
    assert (read.round, read.examples_processed, read.unique_examples, read.optimizer_steps) == (3, 384, 128, 12)
    assert report(REPORT).round is None


def test_takes_64_metrics():
    metrics = {f"m{i}": 0.0 for i in range(64)}
    assert report({**REPORT, "metrics": metrics}).metrics == {}


def test_reads_the_other_results():
    evaluation = parse_evaluation({"metrics": {"loss": 0.25, "x": 1.0}, "examplesProcessed": 7}, {"loss"})
    assert (evaluation.metrics, evaluation.examples_processed) == ({"loss": 0.25}, 7)
    assert parse_inspection({"exampleCount": 128}) == 128
    assert parse_prediction({"output": {"digit": 3}}) == {"digit": 3}


def test_a_modules_refusal_is_shown_as_it_stands():
    for read in (train_result, parse_inspection):
        with pytest.raises(ModelError, match=r"^the chunk is empty$"):
            read({"error": "the chunk is empty"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"error": "bad shape"}, "bad shape"),
        ({"error": ""}, 'Model m failed in train without a reason in words; it gave "".'),
        ({"error": "  "}, 'Model m failed in train without a reason in words; it gave "  ".'),
        ({"error": 42}, "Model m failed in train without a reason in words; it gave 42."),
        ({"error": {}}, "Model m failed in train without a reason in words; it gave {}."),
        ({"error": {"code": 7}}, 'Model m failed in train without a reason in words; it gave {"code": 7}.'),
        (51885088, "Model m failed in train without a reason in words; it gave 51885088."),
        ("51885088", 'Model m failed in train without a reason in words; it gave "51885088".'),
        (None, "Model m failed in train without a reason in words; it gave nothing."),
        ("undefined", 'Model m failed in train without a reason in words; it gave "undefined".'),
        ("[object Object]", "Model m failed in train without a reason in words; it gave an object."),
        (object, "Model m failed in train without a reason in words; it gave a value of type type."),
    ],
)
def test_anything_but_words_becomes_a_sentence(value, text):
    """C63."""
    assert module_error_text(value, operation="train", model_id="m") == text


def test_a_reason_is_cut_at_500_characters_and_can_be_stored():
    """C86, W14."""
    text = module_error_text({"error": "<script>\0\ud800" + "x" * 2**20})
    assert len(text) == 500
    assert text.startswith("<script>\ufffd\ufffdxxx")
    assert text.endswith("…")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_every_error_value_has_a_text(value):
    """C63."""
    for given_ in (value, {"error": value}):
        text = module_error_text(given_)
        assert 0 < len(text) <= 500
        assert text.strip()
        text.encode()
        assert "\0" not in text


@given(st.dictionaries(st.sampled_from([*REPORT, "optimizerSteps", "x"]), JSON))
def test_a_report_is_read_or_refused(value):
    """I8."""
    try:
        read = report(value)
    except Invalid:
        return
    assert 1 <= read.unique_examples <= 128
