import json

import httpx
import pytest

from tests.cli.fake_api import checkpoint, problem

A, B = "aaaaaaaa-0000-4000-8000-000000000001", "aaaabbbb-0000-4000-8000-000000000002"


def test_jobs_are_listed_page_by_page(weei, api):
    for number in range(5):
        api.add(f"Job {number}", status="completed" if number % 2 else "ready")
    code, out, err = weei("jobs", "--limit", "2")
    assert code == 0 and "Job 0" in out and "Job 1" in out and "Job 2" not in out and "--page 2" in err
    again = json.loads(weei("jobs", "--limit", "2", "--page", "2", "--json")[1])
    assert [job["name"] for job in again["jobs"]] == ["Job 2", "Job 3"] and again["next"] == "4"
    last = json.loads(weei("jobs", "--limit", "2", "--page", "4", "--json")[1])
    assert [job["name"] for job in last["jobs"]] == ["Job 4"] and last["next"] is None


def test_of_a_status_there_are_as_many_as_asked_for_and_none_is_passed_over(weei, api):
    for number in range(6):
        api.add(f"Job {number}", status="completed" if number % 2 else "ready")
    found, cursor = [], None
    while True:
        page = ["--page", cursor] if cursor else []
        answer = json.loads(weei("jobs", "--status", "completed", "--limit", "2", "--json", *page)[1])
        found += [job["name"] for job in answer["jobs"]]
        cursor = answer["next"]
        if cursor is None:
            break
    assert found == ["Job 1", "Job 3", "Job 5"]


def test_all_of_them(weei, api):
    for number in range(501):
        api.add(f"Job {number}")
    assert len(json.loads(weei("jobs", "--all", "--json")[1])["jobs"]) == 501


def test_an_empty_list_says_what_to_do(weei):
    assert weei("jobs")[1] == "You have no job yet; see weei create.\n"
    assert "no job that is paused" in weei("jobs", "--status", "paused")[1]


def test_who_is_connected_is_counted_among_those_who_take_part(weei, api):
    """`peers` of a job are those whom it may invite."""
    here, away = ({"label": "Firefox", "state": "approved", "connected": connected} for connected in (True, False))
    api.add("Digits", A, participants={A: here, B: away}, peers=[A, B, "c"])
    assert "1 connected of 2" in weei("show", "Digits")[1]


@pytest.mark.parametrize("name", ["aaaaa", "AAAAAAAA-0000", "Digits", A])
def test_a_job_is_named_by_its_id_its_beginning_or_its_name(weei, api, name):
    api.add("Digits", A)
    api.add("Other", B)
    assert json.loads(weei("show", name, "--json")[1])["id"] == A


def test_what_may_be_several_is_refused_with_all_of_them(weei, api):
    api.add("Digits", A)
    api.add("Digits", B)
    for name in ("Digits", "aaaa"):
        code, out, err = weei("show", name)
        assert code == 1 and not out and A in err and B in err and err.count("\n") == 1
    found = json.loads(weei("show", "aaaa", "--json")[2])
    assert found["code"] == "ambiguous" and found["candidates"] == [A, B]


def test_a_name_that_reads_as_an_id_still_counts_as_a_name(weei, api):
    api.add("aaaab", A)
    api.add("Other", B)
    assert weei("show", "aaaab")[0] == 1
    assert weei("show", "aaaaa")[0] == 0


def test_a_job_that_is_not_there_is_one_sentence(weei, api):
    assert weei("show", "none")[::2] == (1, "weei: You have no job whose name is 'none' or whose id begins with it.\n")


def test_text_from_outside_cannot_write_on_the_terminal(weei, api):
    api.add("evil \x1b[2J\n[bold]name[/bold]", A)
    for command in (("jobs",), ("show", "aaaa")):
        out = weei(*command)[1]
        assert "\x1b" not in out and "[bold]name[/bold]" in out


def test_the_servers_refusal_is_its_own_sentence_and_its_own_object(weei, api):
    job = api.add()
    api.answers[f"POST /api/v1/jobs/{job['id']}/pause"] = problem(
        409, "wrong_status", "It is ready.", field="job.status"
    )
    assert weei("pause", job["id"]) == (1, "", "weei: It is ready.\n")
    found = json.loads(weei("pause", job["id"], "--json")[2])
    assert (found["code"], found["status"], found["field"]) == ("wrong_status", 409, "job.status")


def test_what_has_no_answer_is_asked_again_and_then_given_up(weei, api):
    api.add("Toy")
    api.answers["GET /api/v1/jobs"] = [httpx.ConnectError("refused"), httpx.Response(502), None]
    assert weei("jobs")[0] == 0
    api.answers["GET /api/v1/jobs"] = httpx.ConnectError("refused")
    code, _, err = weei("jobs", "--patience", "0.2")
    assert code == 1 and "did not answer for 0.2 seconds; giving up" in err


def test_a_proxys_page_is_not_an_answer(weei, api):
    api.answers["GET /api/v1/jobs"] = httpx.Response(200, text="<html>")
    code, _, err = weei("jobs")
    assert code == 1 and "does not answer as a Weei server does" in err
    api.answers["GET /api/v1/jobs"] = httpx.Response(502, text="<html>")
    assert weei("jobs", "--patience", "0.1")[0] == 1


def test_ctrl_c_ends_with_130(weei, api, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("weei_cli.main._run", interrupted)
    assert weei("jobs") == (130, "", "")


def test_missing_metrics_are_shown_as_missing(weei, api):
    job = api.add()
    tested = {"validationMetrics": {"values": {"accuracy": 0.5}}}
    api.checkpoints[job["id"]] += [checkpoint(1), checkpoint(2, **tested)]
    lines = weei("checkpoints", job["id"])[1].splitlines()
    assert lines[0].split()[:4] == ["Round", "loss", "held-out", "accuracy"]
    assert [line.split()[:3] for line in lines[1:]] == [["2", "0.333333", "0.5"], ["1", "0.5", "–"], ["0", "–", "–"]]
    assert len(json.loads(weei("checkpoints", job["id"], "--limit", "2", "--json")[1])) == 2


def test_participants_are_listed_with_what_they_work_on(weei, api):
    job = api.add(slots=[{"peerId": "p1", "chunkId": "train-001", "status": "training"}])
    assert "Nobody was invited" in weei("participants", job["id"])[1]
    api.participants = [{"peerId": f"p{n}", "label": f"Firefox {n}", "state": "training"} for n in range(3)]
    out = weei("participants", job["id"])[1]
    assert "train-001, training" in out and "Firefox 2" in out
    assert len(json.loads(weei("participants", job["id"], "--json")[1])) == 3
