"""The benches measure what they say. How fast anything is, no test asks."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import aggregation, cartpole, cartpole_rounds, chromium, latest, report
from benchmarks.measured import Compared, Duration, Measured, NotMeasured, Rate


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


@pytest.fixture
def results(monkeypatch, tmp_path):
    """The results and the page of a checkout that is not this one."""
    monkeypatch.setattr(latest, "FILE", tmp_path / "latest.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "performance.md")
    report.PAGE.write_text(f"before\n{report.BEGIN}{report.END}\nafter\n")
    return latest.read


@pytest.mark.parametrize(("value", "code"), [(100.0, 0), (99.0, 1)])
def test_the_exit_code_says_whether_a_figure_missed_its_goal(monkeypatch, capsys, results, value, code):
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


@pytest.mark.parametrize(("value", "missed"), [(1.5, False), (1.6, True)])
def test_where_less_is_better_a_ratio_misses_above_its_goal(value, missed):
    assert Compared("time", value, "ms", "the smaller", 1.0, 1.5).missed == missed


@pytest.mark.parametrize(("value", "goal", "missed"), [(20.0, 20, False), (19.9, 20, True), (None, None, True)])
def test_a_rate_misses_below_its_goal_or_when_it_never_came(value, goal, missed):
    assert Rate("rounds", value, "rounds/s", goal).missed == missed


def test_every_kind_of_figure_is_printed_with_the_same_members():
    figures = [
        Measured("a", 1.0, "s", "peer", 2.0),
        Compared("b", 1.0, "s", "peer", 2.0),
        Duration("c", 1.0, "s"),
        Rate("d", 1.0, "1/s"),
        NotMeasured("e", "It is not installed."),
    ]
    members = ["name", "value", "unit", "peer", "peer_value", "ratio", "goal"]
    assert [list(json.loads(figure.line)) for figure in figures] == [members] * len(figures)


def test_a_bench_replaces_its_own_figures_and_keeps_those_of_the_others(results):
    latest.record("one", [Rate("one_a", 1.0, "1/s"), Rate("one_b", 1.0, "1/s")])
    latest.record("two", [Rate("two", 2.0, "1/s")])
    latest.record("one", [Rate("one_a", 3.0, "1/s", 4)])
    found = {figure["name"]: figure for figure in results()["figures"]}
    assert {name: figure["value"] for name, figure in found.items()} == {"one_a": 3.0, "two": 2.0}
    assert (found["one_a"]["missed"], found["two"]["missed"]) == (True, False)
    assert results()["machine"]["cores"] and results()["versions"]["python"]
    latest.forget_all_but(["two"])
    assert [figure["name"] for figure in results()["figures"]] == ["two"]


def test_figures_of_another_machine_are_not_kept_beside_those_of_this_one(monkeypatch, results):
    latest.record("one", [Rate("one", 1.0, "1/s")])
    monkeypatch.setattr(latest, "machine", lambda: {"cpu": "another", "cores": 1, "memoryGiB": 1, "kernel": "x"})
    latest.record("two", [Rate("two", 1.0, "1/s")])
    assert [figure["name"] for figure in results()["figures"]] == ["two"]


def test_a_bench_that_breaks_down_says_so_and_the_others_go_on(monkeypatch, capsys, results):
    def broken():
        yield Rate("first", 1.0, "1/s")
        raise OSError("no space left\nsecond line")

    monkeypatch.setattr(command, "BENCHES", {"one": broken, "two": lambda: iter([Rate("two", 1.0, "1/s")])})
    monkeypatch.setattr(sys, "argv", ["bench"])
    assert command.main() == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == ["first", "one", "two"]
    assert lines[1]["peer"] == "The bench broke down: no space left"
    page = report.PAGE.read_text()
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "| `two` | 1 1/s |" in page


def test_the_table_of_the_page_is_what_the_last_runs_measured():
    page = report.PAGE.read_text(encoding="utf-8")
    assert report.BEGIN in page and report.END in page
    assert report.rendered(page, latest.read()) == page, "run python -m benchmarks.report"


def test_every_bench_has_figures_on_the_page():
    assert {figure["bench"] for figure in latest.read()["figures"]} == set(command.BENCHES)


def test_every_miss_has_its_reason_and_reasons_are_of_figures():
    figures = {figure["name"]: figure["missed"] for figure in latest.read()["figures"]}
    assert {name for name, missed in figures.items() if missed} <= set(report.REASONS) <= set(figures)


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
    assert "there is no bench cartpool; the benches are aggregation" in capsys.readouterr().err


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


def test_the_merger_merges_what_a_worker_would_as_often_as_asked():
    """Two rounds' worth of updates of 1 MiB: weights and two vectors of state, the same each time, and no leftovers."""
    with aggregation.Merger("fedadam", 2, 1) as merger:
        assert len(merger.ask("where")["paths"]) == 2
        first, second = merger.ask("hashed"), merger.ask("hashed")
        assert first["sha256"] == second["sha256"] == hashlib.sha256(Path(second["copy"]).read_bytes()).hexdigest()
        assert merger.ask("durable")["bytes"] == merger.ask("durable")["bytes"] == 3 * 2**20
        assert not merger.memory("memory").missed
        folder = merger.folder
    assert not folder.exists()


def test_chromium_measures_in_a_worker(monkeypatch):
    for name, small in {"EPISODES": 4, "REPEATS": 2, "WARM_UP": 1}.items():
        monkeypatch.setattr(cartpole, name, small)
    rates = cartpole.rates_in_chromium(cartpole.CartPole().initial_weights())
    assert len(rates) == 2 and min(rates) > 0


def test_a_worker_that_fails_is_an_error():
    with pytest.raises(chromium.ChromiumFailed, match="The Worker failed"):
        chromium.answer_of_page("/benchmarks/no_such_worker.js", {}, b"")
