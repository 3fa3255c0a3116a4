"""`reproduce grpo` in small, and what its report makes of recorded curves."""

from dataclasses import dataclass

import pytest

from jobs.services.experiments.arithmetic import ArithmeticModel
from jobs.services.experiments.grpo import Grpo
from jobs.services.experiments.texts import Arithmetic, Problem
from weei_core.generator.text_policy import PolicySettings


@dataclass(frozen=True)
class Digits(ArithmeticModel):
    """Sums of two digits."""

    @property
    def problems(self) -> Arithmetic:
        return Arithmetic([Problem(left, right) for left in range(10) for right in range(10)], [], [], [])


SMALL = Grpo(
    model=Digits(layers=2, heads=2, width=16, hidden=32, rate=0.003),
    epochs=60,
    policy=PolicySettings(
        group_size=16,
        kl_coefficient=0.01,
        largest_operand=9,
        longest_answer=4,
        learning_rate=5e-4,
        units_per_assignment=256,
    ),
    batch=64,
    rounds=2,
)


def test_a_checkpoint_of_the_transformer_is_tuned_and_answers_better():
    told = []
    result = SMALL.run(told.append, (1,))
    (run,) = result["runs"]
    assert [point["round"] for point in run["curve"]] == [0, 1, 2]
    before, after = run["curve"][0], run["curve"][-1]
    assert 0.1 < before["exact"] < 0.9 and after["exact"] > before["exact"] + 0.05
    assert 0 < after["kl"] < 1 and "kl" not in before
    assert told[0].startswith("seed 1: ") and "exact before" in told[0]
    rose, near = SMALL.report(result).claims
    assert rose.holds and near.holds


def result(*curves):
    runs = [
        {"seed": str(seed), "curve": [{"round": 0, "exact": curve[0]}] + points(curve[1:]), "weights": ""}
        for seed, curve in enumerate(curves, 1)
    ]
    return {
        "policy": PolicySettings().to_json(),
        "settings": {"epochs": 2},
        "epochs": 7,
        "participants": 2,
        "runs": runs,
    }


def points(exact):
    return [
        {"round": number, "exact": value, "sampled": value / 2, "kl": 0.1 * number}
        for number, value in enumerate(exact, 1)
    ]


def test_a_run_that_falls_is_told():
    report = Grpo().report(result([0.5, 0.7, 0.8], [0.6, 0.7, 0.55]))
    rose, near = report.claims
    assert not rose.holds and rose.ours == "before 50 % to 60 %, after 55 % to 80 %"
    assert near.holds and near.ours == "0.2 nats"


def test_the_table_tells_the_best_round_and_what_was_sampled():
    report = Grpo().report(result([0.5, 0.9, 0.8]))
    assert report.tables[0].rows == [["1", "50 %", "80 %", "90 %", "45 %", "40 %", "0.2"]]
    assert [line.name for line in report.charts["grpo"].lines] == ["seed 1", "seed 1, sampled"]
    assert report.charts["grpo"].lines[1].points[0] == (0, None)


@pytest.mark.parametrize("kl", [0.1, 3.0])
def test_a_policy_far_from_its_start_is_told(kl):
    found = result([0.5, 0.9])
    found["runs"][0]["curve"][-1]["kl"] = kl
    assert Grpo().report(found).claims[1].holds == (kl < 1)
