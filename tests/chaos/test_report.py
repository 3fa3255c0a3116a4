"""Summaries become sentences and the tables of docs/reliability.md, and only between their markers."""

import copy

import pytest

from tests.chaos import report
from tests.chaos.schedule import Fault


def outcome(step, kind, target, *, took=1.5, not_run="", violations=None):
    fault = Fault(step, kind, target, 0.0, 0.0).to_json()
    told = {"at": "12:00:00", "pid": 7, "resumed": [], "not_run": not_run, "recovery_seconds": took}
    return {"fault": fault, **told, "violations": violations or {}}


def summary(*outcomes, at_the_end=None):
    found = report.begun(7, 2)
    for one in outcomes:
        report.add(found, one)
    report.end(found, at_the_end or {}, {"rounds": {"digits": 12}, "receipts": 99}, 90.0)
    return found


CALM = (outcome(1, "kill", "web-a"), outcome(2, "kill", "web-a", took=3.0), outcome(3, "flush", "redis"))


def test_a_run_without_a_violation_says_so_and_counts_what_ran():
    found = summary(*CALM, outcome(4, "clock", "back", not_run="no libfaketime", took=None))
    assert (found["kills_done"], found["other_faults_done"], found["violations"]) == (2, 1, [])
    page = report.chaos_page(found)
    assert "no violation" in page and "Not run: clock back: no libfaketime." in page
    assert "| kill web-a | 2 | 3.0 | 3.0 |" in page and "| flush redis | 1 | 1.5 | 1.5 |" in page


def test_a_violation_is_told_with_its_step_and_kept_for_a_replay():
    broken = outcome(2, "kill", "fast", took=None, violations={"I1": ["a checkpoint is missing"]})
    found = summary(CALM[0], broken, at_the_end={"I8": ["a file was left"]})
    assert [(one["step"], one["invariant"]) for one in found["violations"]] == [(2, "I1"), (None, "I8")]
    assert "VIOLATED I1 (step 2): a checkpoint is missing" in report.as_text(found)
    assert report.as_failed_seed(found) == "SEED=7 KILLS=2  step 2  I1: a checkpoint is missing"
    assert "| kill fast | 1 | never | never |" in report.chaos_page(found)


def test_a_table_replaces_what_stands_between_its_markers_and_nothing_else():
    page = "a\n<!-- chaos: begin -->\nold\n<!-- chaos: end -->\nb\n<!-- soak: begin -->\n<!-- soak: end -->\n"
    found = report.rendered(page, "chaos", "new")
    assert found == page.replace("old", "new")
    with pytest.raises(ValueError):
        report.rendered(page, "other", "new")


def test_the_page_has_the_markers_of_both_tables():
    page = report.PAGE.read_text(encoding="utf-8")
    for kind in report.PAGES:
        assert report.rendered(page, kind, "x") != page


def test_a_summary_is_kept_as_json(tmp_path):
    found = summary(*CALM)
    assert report.written(tmp_path, copy.deepcopy(found)).name == "7.json"
