"""The benches measure what they say. How fast anything is, no test asks."""

import json
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import cartpole, cartpole_rounds, chromium
from benchmarks.measured import Duration, Measured


def test_a_figure_is_one_line_of_json():
    measured = Measured("speed", 123456.0, "steps/s", "the other", 2000.0, 50)
    assert json.loads(measured.line) == {
        "name": "speed",
        "value": 123000,
        "unit": "steps/s",
        "peer": "the other",
        "peer_value": 2000,
        "ratio": 61.7,
        "goal": 50,
    }


@pytest.mark.parametrize(("value", "code"), [(100.0, 0), (99.0, 1)])
def test_the_exit_code_says_whether_a_figure_missed_its_goal(monkeypatch, capsys, value, code):
    figures = iter([Measured("speed", value, "steps/s", "the other", 2.0, 50)])
    monkeypatch.setattr(command, "BENCHES", {"one": lambda: figures})
    monkeypatch.setattr(sys, "argv", ["bench", "one"])
    assert command.main() == code
    assert json.loads(capsys.readouterr().out)["ratio"] == value / 2


@pytest.mark.parametrize(
    ("value", "goal", "missed"), [(150.0, 150, False), (150.1, 150, True), (1e9, None, False), (None, None, True)]
)
def test_a_duration_misses_when_it_is_longer_than_its_goal_or_never_ended(value, goal, missed):
    measured = Duration("time", value, "ms", goal)
    assert measured.missed == missed
    assert json.loads(measured.line)["ratio"] is None


def test_a_round_is_divided_by_what_its_agents_say():
    """The slower agent's training and transfer count; overhead is the rest of the time to the next round."""
    one = [
        {"event": "assigned", "round": 1, "at": 1000},
        {"event": "trained", "round": 1, "at": 1030, "seconds": 0.02},
        {"event": "uploaded", "round": 1, "at": 1040},
        {"event": "assigned", "round": 2, "at": 1100},
    ]
    other = [
        {"event": "assigned", "round": 1, "at": 1005},
        {"event": "trained", "round": 1, "at": 1050, "seconds": 0.04},
        {"event": "uploaded", "round": 1, "at": 1070},
        {"event": "assigned", "round": 2, "at": 1102},
    ]
    assert cartpole_rounds.rounds_of([one, other]) == [{"training": 40.0, "transfer": 20, "overhead": 60.0}]


def test_an_unknown_bench_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "cartpole", "cartpool"])
    with pytest.raises(SystemExit):
        command.main()
    assert "there is no bench cartpool; the benches are cartpole" in capsys.readouterr().err


@pytest.mark.parametrize("trained", [False, True])
def test_module_and_peer_play_the_same_policy(trained):
    """By how long their episodes are: some 20 steps untrained, all 500 trained."""
    module = cartpole.CartPole()
    weights = module.trained_weights() if trained else module.initial_weights()
    peer = cartpole.Peer(weights)
    theirs = sum(peer.episode() for _ in range(160)) / 160
    # One batch each: all of it is played before the first update.
    ours = sum(module.train(weights, 16 * k, 16)[1] for k in range(10)) / 160
    assert ours == pytest.approx(theirs, rel=0.15)
    assert (ours > 450) == trained


def test_chromium_measures_in_a_worker(monkeypatch):
    for name, small in {"EPISODES": 4, "REPEATS": 2, "WARM_UP": 1}.items():
        monkeypatch.setattr(cartpole, name, small)
    rates = cartpole.rates_in_chromium(cartpole.CartPole().initial_weights())
    assert len(rates) == 2 and min(rates) > 0


def test_a_worker_that_fails_is_an_error():
    with pytest.raises(chromium.ChromiumFailed, match="The Worker failed"):
        chromium.answer_of_page("/benchmarks/no_such_worker.js", {}, b"")
