"""What the text policy refuses: always one sentence that names the field, never a trap."""

from pathlib import Path

import pytest

from tests.models import text_policy, transformer
from tests.models.text_policy import units_of
from weei_core.errors import Invalid
from weei_core.generator.text_policy import MAX_UNITS, PolicySettings, TextPolicyArchitecture, make_text_policy

SMALL = text_policy.architecture()
MODEL = text_policy.Model(SMALL)
SETTINGS = {"localEpochs": 1, "batchSize": 4, "learningRate": 0.001}
REQUEST = {"experience": units_of(count=4), "settings": SETTINGS, "round": 1}
WEIGHTS = MODEL.initial_weights()
MLP = Path(__file__).parent / "configured" / "mlp-rows.wasm"


def refused(result, *parts):
    assert list(result) == ["error"]
    assert all(part in result["error"] for part in parts), result


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"settings": {}}, ["settings.localEpochs is missing"]),
        ({"settings": {**SETTINGS, "batchSize": 0}}, ["settings.batchSize is 0", "1 to 1048576"]),
        ({"settings": {**SETTINGS, "learningRate": 101}}, ["settings.learningRate is 101", "to 100"]),
        ({"round": 0}, ["round is 0"]),
        ({"experience": {**units_of(), "seed": "03"}}, ["experience.seed is not"]),
        ({"experience": {**units_of(), "unitCount": MAX_UNITS + 1}}, ["experience.unitCount is 1025", "1 to 1024"]),
    ],
    ids=str,
)
def test_a_malformed_field_is_named(changes, parts):
    refused(MODEL.instance(WEIGHTS).run("train", {**REQUEST, **changes}), *parts)


@pytest.mark.parametrize("operation", ["train", "evaluate", "predict", "loadAuxiliary"])
def test_work_without_weights_is_refused(operation):
    refused(MODEL.instance().run(operation, REQUEST), "no weights are loaded: call loadModel first")


def test_training_without_a_reference_is_refused():
    """Only training needs one; and another load of the weights wants it again."""
    driver = MODEL.instance()
    driver.load(WEIGHTS)
    refused(driver.run("train", REQUEST), "no reference is loaded: call loadAuxiliary first")
    assert driver.progress == [] and "metrics" in driver.run("evaluate", REQUEST)
    driver = MODEL.instance(WEIGHTS)
    driver.load(WEIGHTS)
    refused(driver.run("train", REQUEST), "no reference is loaded")


@pytest.mark.parametrize("id_", [{}, {"id": "Reference"}, {"id": 1}], ids=str)
def test_another_slot_is_refused(id_):
    driver = MODEL.instance(WEIGHTS)
    refused(driver.run("loadAuxiliary", {**id_, "weights": driver.put(WEIGHTS)}), "id is not reference")


@pytest.mark.parametrize("operation", ["loadModel", "loadAuxiliary"])
@pytest.mark.parametrize(
    ("weights", "part"),
    [
        (WEIGHTS[4:], f"weights has {len(WEIGHTS) - 4} bytes, this model has {len(WEIGHTS)}"),
        (WEIGHTS[4:] + b"\0\0\xc0\x7f", "weights holds a value that is not finite"),
    ],
    ids=("short", "NaN"),
)
def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(operation, weights, part):
    driver = MODEL.instance(WEIGHTS)
    refused(driver.run(operation, {"id": "reference", "weights": driver.put(weights)}), part)
    kept = bytes(driver.read(**driver.run("train", REQUEST)["weights"]))
    assert kept == MODEL.train(WEIGHTS, units=units_of(count=4), **SETTINGS)["weights"]


def test_a_training_that_diverges_says_so_and_gives_the_weights_up():
    driver = MODEL.instance(WEIGHTS, MODEL.initial_weights(8))
    wild = {**REQUEST, "settings": {**SETTINGS, "localEpochs": 60, "learningRate": 100}}
    refused(driver.run("train", wild), "training diverged after", "lower settings.learningRate")
    refused(driver.run("train", REQUEST), "no weights are loaded")


@pytest.mark.parametrize(
    ("index", "value", "part"),
    [
        (13, -1, "has no end token, which answers must end with"),
        (15, 1, "group size is 1, allowed: 2 to 256"),
        (15, 2.5, "group size is 2.5, allowed: integers"),
        (16, -1, "KL coefficient is -1"),
        (17, 1, "clip epsilon is 1, allowed: 0 to 0.99"),
        (18, 0, "largest operand is 0, allowed: 1 to 999999999"),
        (18, 999_999_999, "context is 16, allowed with these problems and answers: 23 or more"),
        (19, 0, "temperature is 0"),
        (20, 1, "longest answer is 1, allowed: 2 to 64"),
    ],
)
def test_a_configuration_that_is_none_is_refused(index, value, part):
    values = SMALL.values()
    values[index] = value
    refused(text_policy.Model(SMALL, values=values).instance(WEIGHTS).run("train", REQUEST), part)


def test_a_configuration_without_policy_is_refused():
    model = text_policy.Model(SMALL, values=SMALL.transformer.values())
    refused(model.instance(WEIGHTS).run("train", REQUEST), "has 15 values, group size is missing")


def test_a_vocabulary_without_digits_is_refused():
    letters = transformer.Tokenizer.train(["abcdefghijkl"], "characters", end_token="<end>")
    assert letters.size == text_policy.TOKENIZER.size
    result = text_policy.Model(SMALL, blob=letters.blob()).instance(WEIGHTS).run("train", REQUEST)
    refused(result, "for which the vocabulary has no token")


# --- The generator


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"groupSize": 1}, "policy.groupSize"),
        ({"klCoefficient": -1}, "policy.klCoefficient"),
        ({"clipEpsilon": 1}, "policy.clipEpsilon"),
        ({"largestOperand": 0}, "policy.largestOperand"),
        ({"temperature": 0}, "policy.temperature"),
        ({"longestAnswer": 1}, "policy.longestAnswer"),
        ({"group": 8}, "policy.group"),
    ],
    ids=str,
)
def test_policy_settings_are_refused_by_field(changes, field):
    with pytest.raises(Invalid) as refusal:
        PolicySettings.parse(changes)
    assert refusal.value.field == field


def test_policy_settings_are_what_their_json_says():
    settings = PolicySettings(group_size=3, kl_coefficient=0.5, temperature=2, units_per_assignment=7)
    assert PolicySettings.parse(settings.to_json()) == settings


def test_a_transformer_without_an_end_is_refused():
    with pytest.raises(Invalid, match="must have an end token"):
        TextPolicyArchitecture.of(transformer.architecture(), PolicySettings())


def test_a_module_that_is_no_transformer_is_refused(tmp_path):
    for module, part in ((text_policy.BASE, "found no configuration"), (MLP, 'configured transformer; found "mlp"')):
        with pytest.raises(Invalid, match=part):
            make_text_policy(module.read_bytes(), PolicySettings(), tmp_path)
