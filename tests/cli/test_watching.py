import io
import json

import httpx
import pytest

from tests.cli.fake_api import checkpoint
from weei_cli.output import Printer
from weei_cli.watching import Moment, picture


def looks(api, job, *changes):
    """What one look after the other finds."""
    api.answers[f"GET /api/v1/jobs/{job['id']}"] = [httpx.Response(200, json={**job, **change}) for change in changes]


def watch(weei, job, *arguments):
    return weei("watch", job["id"], "--every", "0.05", *arguments)


def test_it_tells_each_change_once_and_ends_with_the_job(weei, api):
    job = api.add("Digits")
    api.checkpoints[job["id"]].append(checkpoint(1))
    running = {"status": "running", "round": 1}
    looks(api, job, {}, running, running, {"status": "completed", "round": 1})
    code, out, err = watch(weei, job, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["status"] for line in lines] == ["ready", "running", "completed"] and err == ""
    assert lines[-1]["checkpoint"]["metrics"] == {"loss": 0.5} and lines[-1]["checkpoint"]["round"] == 1


def test_for_people_it_is_a_line_and_the_end_a_sentence(weei, api):
    job = api.add("Digits")
    looks(api, job, {"status": "completed", "incomplete": True})
    code, out, err = watch(weei, job)
    assert code == 0 and out.startswith("completed, round 0; 0 of 4 in pass 1 of 2")
    assert err == "“Digits” is completed after round 0. It is incomplete: work was left out.\n"


def test_it_waits_for_the_last_evaluation(weei, api):
    job = api.add()
    done = {"status": "completed"}
    looks(api, job, {**done, "validating": [1]}, done)
    assert watch(weei, job)[0] == 0
    assert api.asked.count(f"GET /api/v1/jobs/{job['id']}") == 2


def test_a_job_that_an_error_stopped_is_a_failure(weei, api):
    job = api.add("Digits")
    looks(api, job, {"status": "paused"}, {"status": "paused", "error": "The step is not finite."})
    code, _, err = watch(weei, job, "--json")
    assert code == 1 and json.loads(err)["code"] == "job_stopped" and "not finite" in json.loads(err)["title"]


def test_it_may_end_at_a_round(weei, api):
    job = api.add(status="running")
    api.checkpoints[job["id"]] += [checkpoint(1), checkpoint(2)]
    code, _, err = watch(weei, job, "--until-round", "2")
    assert code == 0 and "The checkpoint of round 2" in err


def test_the_picture_shows_people_metrics_and_time_left(api):
    people = {"p1": {"label": "Firefox [red]", "state": "training"}}
    progress = {"datasetEpoch": 1, "plannedEpochs": 2, "remainingChunks": 1, "totalChunks": 4}
    slots = [{"peerId": "p1", "chunkId": "c", "status": "training"}]
    job = api.add("A\x1b[2J", participants=people, progress={**progress, "estimatedRemainingMs": 61_000}, slots=slots)
    printer = Printer(as_json=False, out=(out := io.StringIO()))
    printer.console.print(picture(Moment(job, [checkpoint(1), checkpoint(0)])))
    text = out.getvalue()
    for said in ("3 of 4", "2 of 2", "1 min 01 s", "Firefox [red]", "c, training", "loss", "0.5"):
        assert said in text
    assert "\x1b" not in text


def events(api, count):
    api.events = [
        {"id": n, "at": f"t{n}", "event": "round.dealt", "details": {"round": n}} for n in range(1, count + 1)
    ]


def test_the_log_shows_the_newest_oldest_first(weei, api):
    job = api.add()
    events(api, 1200)
    assert (
        weei("log", job["id"], "--limit", "2")[1] == "t1199  round.dealt  round=1199\nt1200  round.dealt  round=1200\n"
    )
    assert [row["id"] for row in json.loads(weei("log", job["id"], "--limit", "1100", "--json")[1])] == [
        *range(101, 1201)
    ]


@pytest.mark.parametrize("later", [1, 1100])
def test_followed_it_goes_on_until_the_job_ends_and_misses_nothing(weei, api, later):
    job = api.add(status="completed")
    events(api, 3)
    grown = [{"id": n, "at": "t", "event": "e"} for n in range(1, 4 + later)]

    class Later(list):
        """The second look at the job finds more events."""

        def pop(self, index):
            api.events = grown
            return None

    api.answers[f"GET /api/v1/jobs/{job['id']}"] = Later([None])
    out = weei("log", job["id"], "--limit", "2", "--follow", "--json")[1]
    assert [json.loads(line)["id"] for line in out.splitlines()] == [*range(2, 4 + later)]
