"""What the operations of a configured text policy answer."""

from dataclasses import replace

import numpy as np
import pytest

from tests.models import text_policy, transformer
from tests.models.text_policy import units_of
from weei_core.errors import Invalid

SMALL = text_policy.architecture()
MODEL = text_policy.Model(SMALL)


@pytest.fixture(scope="module")
def start():
    """Weights of a transformer that adds about half of the digits right."""
    return text_policy.supervised(SMALL, 60, learningRate=0.003)


def moved(weights, start):
    return np.abs(np.frombuffer(weights, "<f4") - np.frombuffer(start, "<f4")).max()


def test_model_info_is_the_configurations_own_text():
    assert MODEL.instance().run("getModelInfo", {}) == text_policy.info(SMALL)


def test_the_weights_are_those_of_the_transformer():
    """Same block, same initial values, same predictions."""
    same = transformer.Model(SMALL.transformer, text_policy.TOKENIZER.blob())
    weights = MODEL.initial_weights(9)
    assert weights == same.initial_weights(9)
    asked = {"input": {"text": "3+4=", "maxTokens": 5, "seed": "2"}}
    assert MODEL.instance(weights).run("predict", asked) == same.predict(weights, "3+4=", maxTokens=5, seed="2")


def test_training_counts_problems_and_steps(start):
    result = MODEL.train(start, units=units_of(count=20), batchSize=8, localEpochs=3)
    assert (result["uniqueExamples"], result["examplesProcessed"], result["optimizerSteps"]) == (20, 20, 9)
    assert set(result["metrics"]) == {"exact", "kl", "loss"} and moved(result["weights"], start) > 1e-4
    progress = result["progress"]
    assert [report["processedExamples"] for report in progress] == [8, 16, 20]
    assert [report["optimizerSteps"] for report in progress] == [3, 6, 9]
    assert progress[-1]["metrics"] == result["metrics"]


def test_the_same_assignment_gives_the_same_bits_and_other_work_others(start):
    first = MODEL.train(start)["weights"]
    assert MODEL.train(start)["weights"] == first
    assert MODEL.train(start, units=units_of(seed=4))["weights"] != first
    assert MODEL.train(start, units=units_of(start=16))["weights"] != first


def test_a_unit_is_the_same_problem_in_every_range(start):
    """Greedy answers of a range are those of its parts."""
    whole = MODEL.evaluate(start, units_of(count=90))["metrics"]["exact"] * 90
    parts = [MODEL.evaluate(start, units_of(start=at, count=30))["metrics"]["exact"] * 30 for at in (0, 30, 60)]
    assert whole == pytest.approx(sum(parts)) and 10 < whole < 80


def test_greedy_answers_are_those_of_predict(start):
    """The share of an evaluation is what `predict` answers to the same problems; all of them, since there are few."""
    right = 0
    for left in range(10):
        for other in range(10):
            asked = {"input": {"text": f"{left}+{other}=", "temperature": 0, "maxTokens": 4}}
            output = MODEL.instance(start).run("predict", asked)["output"]
            right += output["text"] == str(left + other) and output["stopped"] == "end"
    found = MODEL.evaluate(start, units_of(count=1024))["metrics"]["exact"]
    assert found == pytest.approx(right / 100, abs=0.06)


def test_rewards_raise_exact_answers(start):
    model = text_policy.Model(text_policy.architecture(groupSize=16, klCoefficient=0.01))
    weights = start
    for number in range(3):
        units = units_of(seed=number, count=256)
        weights = model.train(weights, start, units, batchSize=64, learningRate=5e-4)["weights"]
    before, after = (model.evaluate(of, units_of(9, count=400))["metrics"]["exact"] for of in (start, weights))
    assert after > before + 0.2


def test_right_or_wrong_alone_there_is_nothing_to_learn(start):
    """A group without a difference has no advantage, and the reference is the policy: only decay and rounding move."""
    never = text_policy.architecture({"weightDecay": 0}, largestOperand=9, longestAnswer=2)
    result = text_policy.Model(never).train(MODEL.initial_weights(), units=units_of(count=4), batchSize=4)
    assert result["metrics"]["exact"] == 0 and result["metrics"]["loss"] == pytest.approx(0, abs=1e-9)
    assert result["weights"] == MODEL.initial_weights()


def test_a_penalty_draws_the_policy_back(start):
    """From another start, without any reward: the distance to the reference falls."""
    strict = text_policy.Model(text_policy.architecture(klCoefficient=100))
    other = MODEL.initial_weights(8)
    first = strict.train(start, other, units_of(count=256), learningRate=0.003)
    later = strict.train(first["weights"], other, units_of(seed=5, count=256), learningRate=0.003)
    assert later["metrics"]["kl"] < first["metrics"]["kl"] / 2


def test_ratios_are_clipped_only_behind_the_first_pass(start):
    clipped, free = (text_policy.Model(text_policy.architecture(clipEpsilon=epsilon)) for epsilon in (0.01, 0))
    once = {"localEpochs": 1, "learningRate": 0.01}
    assert clipped.train(start, **once)["weights"] == free.train(start, **once)["weights"]
    often = {"localEpochs": 4, "learningRate": 0.01}
    assert clipped.train(start, **often)["weights"] != free.train(start, **often)["weights"]


def test_sampling_is_colder_or_warmer(start):
    """Near temperature 0 the sampled answers are the likeliest, and more of them are right."""
    shares = []
    for temperature in (0.05, 1, 5):
        model = text_policy.Model(text_policy.architecture(temperature=temperature))
        shares.append(model.train(start, units=units_of(count=200), batchSize=200)["metrics"]["exact"])
    greedy = MODEL.evaluate(start, units_of(count=200))["metrics"]["exact"]
    assert shares[0] == pytest.approx(greedy, abs=0.03) and shares[0] > shares[1] > shares[2]


def test_answers_that_fill_the_context():
    """Two rows more would not fit."""
    of = text_policy.architecture({"context": 16}, largestOperand=99, longestAnswer=11)
    result = text_policy.Model(of).train(text_policy.Model(of).initial_weights(), units=units_of(count=3))
    assert result["uniqueExamples"] == 3
    with pytest.raises(Invalid, match="context must be 17 or more"):
        text_policy.TextPolicyArchitecture.of(of.transformer, replace(of.policy, longest_answer=12))
