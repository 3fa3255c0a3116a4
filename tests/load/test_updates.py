import hashlib

import numpy as np
import pytest

from tests.load.behaviour import BAD
from tests.load.updates import broken, report_of, update_of

START = "ab" * 32
ASSIGNMENT = {"round": 3, "exampleCount": 8}


def test_an_update_is_a_function_of_its_start_and_its_item_and_finite():
    update = update_of(START, "c1", "7", 456)
    assert update == update_of(START, "c1", "7", 456) and len(update) == 456
    assert (
        len({update, *(update_of(*of, 456) for of in ((START, "c2", "7"), (START, "c1", "8"), ("cd", "c1", "7")))}) == 4
    )
    values = np.frombuffer(update, "<f4")
    assert np.isfinite(values).all() and values.min() >= -1 and values.max() < 1


@pytest.mark.parametrize("kind", BAD)
def test_each_kind_of_bad_update_is_bad_in_one_way(kind):
    good, report = update_of(START, "c1", "7", 456), report_of(ASSIGNMENT)
    update, told, declared = broken(kind, good, report)
    faults = {
        "non_finite": not np.isfinite(np.frombuffer(update, "<f4")).all(),
        "wrong_size": len(update) != len(good),
        "hash_mismatch": hashlib.sha256(update).hexdigest() != declared,
        "invalid_report": told["uniqueExamples"] > ASSIGNMENT["exampleCount"],
    }
    assert [name for name, there in faults.items() if there] == [kind]
