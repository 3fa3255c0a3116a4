"""`manage.py reproduce`: figures from seeds, as a table, as JSON and as a page."""

import io
import json
from dataclasses import replace

import pytest
from django.core.management import call_command

from jobs.services import reproducing
from jobs.services.reproducing import CARTPOLE, EXPERIMENTS, results_page

SHORT = replace(CARTPOLE, changes={**CARTPOLE.changes, "epochs": 3}, seeds=(1, 2), needed=2)


@pytest.fixture
def short(monkeypatch):
    """Three rounds only, which are too few."""
    monkeypatch.setitem(EXPERIMENTS, "cartpole", SHORT)


def run(*arguments):
    out = io.StringIO()
    code = 0
    try:
        call_command("reproduce", *arguments, stdout=out, stderr=io.StringIO())
    except SystemExit as ended:
        code = ended.code
    return code, out.getvalue()


def test_a_run_that_does_not_show_the_claim_is_told_as_it_is(short):
    code, text = run("cartpole")
    assert code == 1
    assert "seed 1: return before 10.34, first round at 500 never" in text
    assert "0 of 2 runs reached it, 2 are needed" in text


def test_the_same_seed_gives_the_same_curve(short):
    (_, first), (_, second) = (run("cartpole", "--json", "--seed", "7") for _ in range(2))
    one, other = json.loads(first), json.loads(second)
    assert one["runs"] == other["runs"]
    assert [point["round"] for point in one["runs"][0]["curve"]] == [0, 1, 2, 3]
    assert one["runs"][0]["seed"] == "7" and one["needed"] == 1


def test_one_seed_of_the_documented_experiment_reaches_its_figure():
    code, text = run("cartpole", "--json", "--seed", "1")
    result = json.loads(text)
    assert (code, result["reached"]) == (0, 1)
    assert result["runs"][0]["figures"]["first round at 500"] <= 30


def test_saving_writes_the_result_and_the_page_of_all_results(short, tmp_path, settings):
    settings.BASE_DIR = tmp_path
    tmp_path.joinpath("docs").mkdir()
    run("cartpole", "--save")
    kept = json.loads(tmp_path.joinpath("docs/results/cartpole.json").read_text())
    page = tmp_path.joinpath("docs/results.md").read_text()
    assert page == results_page([kept])
    assert "| 1 | 10.34 | never |" in page


def test_the_page_in_the_docs_is_that_of_the_saved_results(settings):
    folder = settings.BASE_DIR / "docs"
    kept = [json.loads(path.read_text()) for path in sorted((folder / "results").glob("*.json"))]
    assert {result["name"] for result in kept} == set(EXPERIMENTS)
    assert folder.joinpath("results.md").read_text() == results_page(kept)


def test_every_experiment_says_how_many_runs_it_needs():
    assert all(0 < made.needed <= len(made.seeds) for made in reproducing.EXPERIMENTS.values())
