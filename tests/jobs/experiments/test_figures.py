"""What the reports make of recorded curves, whatever these show."""

import pytest

from jobs.services.experiments.arithmetic import CHARACTERS, MERGES, ArithmeticStudy
from jobs.services.experiments.methods import FEDADAM, FEDADAM_SMALL, FEDAVG, FEDAVGM, Methods
from jobs.services.experiments.momentum_trap import WARNING, MomentumTrap
from jobs.services.experiments.report import Table, markdown_table, share, span
from jobs.services.experiments.text_runs import answer_of, first_round_at_most, mean_curve

ROUNDS = 33


def run(values, name="loss", **tags):
    """A run whose curve holds `values`, from round 0."""
    curve = [{"round": number, name: value} for number, value in enumerate(values)]
    return {"seed": "1", "advice": [], "stopped": "", "trainSeconds": 40.0, "weights": "", "curve": curve, **tags}


def falling(last, start=5.0):
    """A straight line from `start` to `last` over all rounds."""
    return [start + (last - start) * number / ROUNDS for number in range(ROUNDS + 1)]


def methods(rate=1e-3, **lasts):
    named = {FEDAVG: "avg", FEDAVGM: "avgm", FEDADAM: "adam", FEDADAM_SMALL: "small"}
    return [run(falling(lasts[short]), method=method, rate=rate) for method, short in named.items() if short in lasts]


def claims(study, runs, **more):
    result = {"runs": runs, "request": study.request, **more} if isinstance(study, Methods) else {"runs": runs, **more}
    return study.report(result).claims


def test_a_method_that_gets_there_sooner_and_ends_lower():
    faster, lower, slow, never = claims(Methods(), methods(avg=2.0, avgm=1.0, adam=2.5, small=3.0))
    assert faster.holds and faster.ours == "25 rounds instead of 33: FedAvgM(0.9), local rate 0.001"
    assert lower.holds and lower.ours == "at most 50 % lower"
    assert slow.holds and slow.ours == "behind after round 3 in 2 of 2 runs"
    assert never.holds and never.ours == "never in 1 of 1 runs"


def test_a_figure_that_does_not_match_is_told():
    faster, lower, slow, never = claims(Methods(), methods(avg=1.0, avgm=2.0, adam=0.99, small=0.5))
    assert faster.holds, "FedAdam(0.003) is there first"
    assert lower.ours == "at most 50 % lower"
    assert not slow.holds and slow.ours == "behind after round 3 in 0 of 2 runs"
    assert not never.holds and never.ours == "never in 0 of 1 runs"


def test_where_nothing_beats_fedavg_it_says_so():
    faster, lower, *_ = claims(Methods(), methods(avg=1.0, avgm=2.0, adam=2.0, small=2.0))
    assert not faster.holds and faster.ours == "in no setting with every seed"
    assert not lower.holds and lower.ours == "never lower"


def test_every_rate_has_its_chart_its_columns_and_its_winner():
    runs = methods(2e-4, avg=2.0, avgm=1.0, adam=2.5, small=3.0) + methods(1e-3, avg=1.0, avgm=1.5, adam=2.5, small=3.0)
    report = Methods().report({"runs": runs, "request": Methods().request})
    assert list(report.charts) == ["methods-0.0002", "methods-0.001"]
    assert report.tables[0].rows[0] == [FEDAVG, "2", "1"]
    assert report.remarks[:1] == [
        "FedAvgM(0.9) ends lowest at a local rate of 0.0002 (mean 1); "
        "FedAvg ends lowest at a local rate of 0.001 (mean 1)."
    ]


def test_a_rate_of_fewer_seeds_is_told_as_such():
    """A seed that a rate was not run with is no run that never got there."""
    runs = methods(1e-3, avg=2.0, avgm=1.0) + methods(3e-3, avg=2.0, avgm=1.0)
    runs += [{**one, "seed": "2"} for one in methods(1e-3, avg=2.0, avgm=1.0)]
    finals = Methods().report({"runs": runs, "request": Methods().request}).tables[0]
    assert finals.head == ["method", "local rate 0.001 (2 seeds)", "local rate 0.003 (1 seed)"]
    assert finals.rows[0] == [FEDAVG, "2", "2"]


def test_a_run_that_had_to_stop_has_no_final_figure():
    runs = methods(avg=1.0, avgm=2.0, adam=2.0, small=2.0)
    runs[1]["stopped"], runs[1]["curve"] = "not finite", runs[1]["curve"][:4]
    report = Methods().report({"runs": runs, "request": Methods().request})
    assert report.tables[0].rows[1] == [FEDAVGM, "never"]


def answers(vocabulary, seen, held_out=0.5, larger=0.0, advice=()):
    points = [{"round": 0, "loss": 3.0}, {"round": 1, "loss": 1.0}]
    points[-1] |= {"seen": seen, "heldOut": held_out, "larger": larger}
    return {**run([], vocabulary=vocabulary), "curve": points, "trainSeconds": 3.5, "advice": list(advice)}


ARITHMETIC = {
    "problems": {"training": 9500, "heldOut": 500, "asked": 200},
    "requests": {MERGES: {"architecture": {"context": 16, "layers": 2, "width": 64}}},
    "cuts": {MERGES: ["7+4"], CHARACTERS: ["7"]},
}


def test_exact_answers_are_told_by_vocabulary():
    runs = [answers(MERGES, 0.02, advice=["tokenizer-joins-operators"]), answers(CHARACTERS, 0.985, 0.93)]
    fails, succeeds, seconds, unseen, warned = claims(ArithmeticStudy(), runs, **ARITHMETIC)
    assert fails.holds and fails.ours == "2 % exact"
    assert succeeds.holds and succeeds.ours == "98.5 % exact on problems from 0 to 99"
    assert seconds.holds and seconds.ours == "3.5 s"
    assert unseen.ours == "93 % of held-out pairs, 0 % of three-digit sums"
    assert warned.holds


def test_the_answers_of_the_first_seed_are_shown():
    runs = [answers(MERGES, 0.0) | {"samples": {"1+1=": "5"}}, answers(CHARACTERS, 1.0) | {"samples": {"1+1=": "2"}}]
    table = ArithmeticStudy().report({"runs": runs, **ARITHMETIC}).tables[2]
    assert table.rows == [[MERGES, "`1+1=5`"], [CHARACTERS, "`1+1=2`"]]


def test_a_vocabulary_that_works_after_all_breaks_the_claim():
    fails, succeeds, *_, warned = claims(
        ArithmeticStudy(), [answers(MERGES, 0.9), answers(CHARACTERS, 0.4)], **ARITHMETIC
    )
    assert not fails.holds and not succeeds.holds and not warned.holds


def trap(plain, momentum, advice=(WARNING,)):
    return [run(plain, method=FEDAVG, rate=0.01), run(momentum, method=FEDAVGM, rate=0.01, advice=list(advice))]


def test_momentum_that_climbs_while_plain_averaging_falls():
    runs = trap(falling(0.9)[:31], [3.0, 1.0, *[2.0 + number / 3 for number in range(29)]])
    falls, climbs, warned = claims(MomentumTrap(), runs)
    assert falls.holds and climbs.holds and warned.holds
    assert climbs.ours == "11.3, from a lowest of 1"


def test_momentum_that_ends_in_numbers_that_are_not_finite_has_climbed():
    runs = trap(falling(0.9)[:31], [3.0, 1.0, 1.2])
    runs[1]["stopped"] = "Round 3: the weights are not finite."
    report = MomentumTrap().report({"runs": runs})
    assert report.claims[1].holds and report.claims[1].ours == "never, from a lowest of 1"
    assert report.remarks[1:] == ["FedAvgM(0.9), local rate 0.01, seed 1: Round 3: the weights are not finite."]


def test_every_rate_of_the_trap_has_its_own_claims_and_chart():
    runs = trap(falling(0.9)[:31], falling(0.8)[:31])
    more = [{**one, "rate": 0.004} for one in runs]
    report = MomentumTrap().report({"runs": runs + more})
    assert len(report.claims) == 5 and list(report.charts) == ["momentum-trap-0.004", "momentum-trap-0.01"]


def test_momentum_that_only_swings_has_not_climbed():
    assert not claims(MomentumTrap(), trap(falling(0.9)[:31], [3.0, *[1.0, 1.5] * 15]))[1].holds


def test_momentum_that_falls_too_breaks_the_claim():
    _, climbs, warned = claims(MomentumTrap(), trap(falling(0.9)[:31], falling(0.8)[:31], advice=()))
    assert not climbs.holds and not warned.holds


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0], "1"),
        ([1.0, 1.0], "1"),
        ([2.0, 1.5], "1.5 to 2"),
        ([None, 2.0], "2 (in 1 of 2 runs never)"),
        ([None], "never"),
    ],
)
def test_the_span_of_several_runs(values, text):
    assert span(values) == text


def test_shares_are_percents():
    assert (share(0.385), share(1.0), share(None)) == ("38.5 %", "100 %", "unknown")


def test_curves_of_several_seeds_have_a_mean_where_all_have_values():
    runs = [run([4.0, 2.0, None]), run([2.0, 1.0, 1.0])]
    assert mean_curve(runs, "loss") == [(0, 3.0), (1, 1.5), (2, None)]
    assert first_round_at_most(runs[0], "loss", 2.5) == 1
    assert first_round_at_most(runs[0], "loss", 0.5) is None


@pytest.mark.parametrize("text", ["85", "85<EOS>", "85<EOS>\n12+1=13<EOS>", " 85\n"])
def test_an_answer_ends_where_its_line_ends(text):
    assert answer_of(text) == "85"


def test_cells_cannot_break_the_table():
    assert markdown_table(Table(["a|b"], [["c\nd"]])) == "| a\\|b |\n| --- |\n| c d |"
