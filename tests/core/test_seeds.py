import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core import seeds
from weei_core.errors import Invalid

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "seeds.json").read_text())
JOBS = pytest.mark.parametrize("job", GOLDEN["jobs"], ids=lambda job: job["jobSeed"])


@pytest.mark.parametrize("text", GOLDEN["refusedTexts"], ids=repr)
def test_refuses_seed_text_that_languages_read_differently(text):
    """C36: int() and BigInt() accept different subsets of these."""
    with pytest.raises(
        Invalid, match=r"^experience.jobSeed must be text of decimal digits from 0 to 18446744073709551615"
    ):
        seeds.parse_seed(text, "experience.jobSeed")


@pytest.mark.parametrize("value", [42, 42.0, True, None, b"42", ["42"]])
def test_refuses_seeds_that_are_not_text(value):
    """C36, F9: a JavaScript number would have lost bits."""
    with pytest.raises(Invalid):
        seeds.parse_seed(value, "seed")


@given(st.integers(0, 2**64 - 1))
def test_seed_text_round_trips(seed):
    assert seeds.parse_seed(seeds.format_seed(seed), "seed") == seed


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_writes_no_text_that_it_would_not_read(seed):
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        seeds.format_seed(seed)


@JOBS
def test_derives_the_golden_seeds(job):
    seed = seeds.parse_seed(job["jobSeed"], "jobSeed")
    assert seeds.initial_weights_seed(seed) == int(job["initialWeights"])
    assert seeds.evaluation_seed(seed) == int(job["evaluation"])
    for vector in job["experience"]:
        assert seeds.experience_seed(seed, vector["unitStart"]) == int(vector["seed"])
    for vector in job["dataset"]:
        derived = seeds.dataset_seed(seed, vector["round"], vector["chunkIndex"], vector["recordStart"])
        assert derived == int(vector["seed"])


@JOBS
def test_shuffles_in_the_golden_order(job):
    for vector in job["shuffles"]:
        order = seeds.shuffle_order(int(job["jobSeed"]), vector["n"], range(vector["count"]))
        assert order == vector["order"]


def test_draws_again_where_the_remainder_would_be_unfair(monkeypatch):
    """2**64 leaves a remainder of 1 for three items, so the highest draw must not count."""
    draws = iter([2**64 - 1, 0, 0])
    monkeypatch.setattr(seeds, "_derive", lambda *parts: next(draws))
    assert seeds.shuffle_order(1, 1, "abc") == ["b", "c", "a"]
    assert list(draws) == []


def test_the_evaluation_seed_is_no_training_seed():
    """C34: and it does not depend on the round."""
    training = {seeds.experience_seed(9, start) for start in range(2000)}
    assert len(training) == 2000
    assert seeds.evaluation_seed(9) not in training


@pytest.mark.parametrize("vector", GOLDEN["splits"], ids=lambda vector: f"{vector['unitCount']}/{vector['split']}")
def test_splits_in_the_golden_ranges(vector):
    ranges = seeds.split_ranges(vector["unitStart"], vector["unitCount"], vector["split"])
    assert ranges == [(part["unitStart"], part["unitCount"]) for part in vector["ranges"]]
    derived = [seeds.range_seed(int(vector["assignmentSeed"]), k, start) for k, (start, _) in enumerate(ranges)]
    assert derived == [int(part["seed"]) for part in vector["ranges"]]


@given(st.integers(0, 2**53), st.integers(1, 5000), st.integers(1, 64))
def test_ranges_cover_the_units_evenly(start, count, split):
    if split > count:
        with pytest.raises(Invalid, match="^split must be from 1 to the"):
            seeds.split_ranges(start, count, split)
        return
    ranges = seeds.split_ranges(start, count, split)
    sizes = [size for _, size in ranges]
    assert [first for first, _ in ranges] == [start + sum(sizes[:k]) for k in range(split)]
    assert sum(sizes) == count
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
