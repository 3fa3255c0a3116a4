"""The benches measure what they say. How fast anything is, no test asks."""

import json
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import cartpole, chromium
from benchmarks.measured import Measured


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
