"""`manage.py reproduce`: figures from seeds, as sentences, as JSON and as a page."""

import io
import json
from dataclasses import replace

import pytest
from django.core.management import call_command

from jobs.services.experiments.play import CARTPOLE
from jobs.services.reproducing import EXPERIMENTS, charts_of, claims_of, kept_results, results_page

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
    assert "Does not hold" in text and "Here: 0 of 2 runs (2 are needed)" in text


def test_the_same_seed_gives_the_same_curve(short):
    (_, first), (_, second) = (run("cartpole", "--json", "--seed", "7") for _ in range(2))
    one, other = json.loads(first), json.loads(second)
    assert one["runs"] == other["runs"]
    assert [point["round"] for point in one["runs"][0]["curve"]] == [0, 1, 2, 3]
    assert one["runs"][0]["seed"] == "7"


def test_one_seed_of_the_documented_experiment_reaches_its_figure():
    code, text = run("cartpole", "--json", "--seed", "1")
    result = json.loads(text)
    assert code == 0
    assert [claim.holds for claim in claims_of(result)] == [True]


def test_saving_writes_the_result_the_charts_and_the_page(short, tmp_path, settings):
    settings.BASE_DIR = tmp_path
    tmp_path.joinpath("docs").mkdir()
    run("cartpole", "--save")
    folder = tmp_path / "docs" / "results"
    page = tmp_path.joinpath("docs/results.md").read_text()
    assert page == results_page(kept_results(folder))
    assert "| 1 | 10.34 | never |" in page and "(results/cartpole.svg)" in page
    assert folder.joinpath("cartpole.svg").read_text().startswith("<svg ")


def test_all_of_them_run_to_the_end_whatever_they_show(short, monkeypatch):
    monkeypatch.setattr("jobs.management.commands.reproduce.EXPERIMENTS", {"cartpole": SHORT})
    code, text = run("all")
    assert code == 0 and "Does not hold" in text


def test_the_page_in_the_docs_is_that_of_the_saved_results(settings):
    folder = settings.BASE_DIR / "docs"
    kept = kept_results(folder / "results")
    assert [result["name"] for result in kept] == list(EXPERIMENTS)
    assert folder.joinpath("results.md").read_text() == results_page(kept)
    charts = {name: text for result in kept for name, text in charts_of(result).items()}
    assert {path.name: path.read_text() for path in folder.glob("results/*.svg")} == charts
