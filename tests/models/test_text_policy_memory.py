"""The maximum that a configured `text_policy` declares is enough for its largest training, and hardly more."""

import json

import pytest

from tests.models import text_policy
from weei_core.generator.text_policy import MAX_UNITS, TextPolicyArchitecture

FORMS = [
    ({}, {}),
    ({"context": 300, "layers": 1, "heads": 1, "optimizer": "sgd"}, {"groupSize": 16, "largestOperand": 999_999_999}),
    ({"context": 40, "layers": 3}, {"groupSize": 2, "longestAnswer": 20}),
]
SPARE_PAGES = 9
"""What a prediction would need beyond these trainings, and the rounding of tables."""


def test_memory_begins_where_the_generator_says():
    model = text_policy.Model(text_policy.architecture())
    begin = TextPolicyArchitecture.heap_begin
    assert model.instance().call("alloc", 16) == begin, "set heap_begin in text_policy.py to this"


@pytest.mark.parametrize(("sizes", "policy"), FORMS, ids=str)
def test_the_largest_batch_trains_with_the_declared_pages(sizes, policy):
    of = text_policy.architecture(sizes, **policy)
    pages = -(-of.memory_bytes(MAX_UNITS, 0) // 65536)
    model = text_policy.Model(of, pages=pages)
    driver = model.instance(bytes(of.weight_bytes))
    request = {
        "experience": {"seed": str(2**64 - 1), "unitStart": 2**53, "unitCount": MAX_UNITS},
        "settings": {"localEpochs": 1, "batchSize": MAX_UNITS, "learningRate": 0.00012345678901234567},
        "round": 2**31 - 1,
    }
    assert len(json.dumps(request)) < 1024
    trained = driver.run("train", request)
    assert trained.get("uniqueExamples") == MAX_UNITS, trained
    assert pages - SPARE_PAGES <= driver.memory.size(driver.store) <= pages
    answer = driver.run("predict", {"input": {"text": "1" * 32_000, "maxTokens": of.transformer.context}})
    assert "output" in answer, answer
