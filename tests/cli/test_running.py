import io
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.fake_api import checkpoint
from weei_cli.inviting import expiry
from weei_cli.outcomes import Failed

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize("action", ["start", "pause", "resume", "finish"])
def test_an_action_answers_the_job(weei, api, action):
    job = api.add()
    assert json.loads(weei(action, job["id"], "--json")[1])["id"] == job["id"]
    assert api.asked[-1] == f"POST /api/v1/jobs/{job['id']}/{action}"


def test_settings_are_shown_or_changed(weei, api):
    job = api.add()
    assert weei("settings", job["id"])[1].split() == ["epochs", "2"]
    changes = ("--set", "learningRate=0.5", "--set", "validationSchedule=null", "--set", "seed=7")
    assert json.loads(weei("settings", job["id"], *changes, "--json")[1])["learningRate"] == 0.5
    assert api.bodies[-1] == {"learningRate": 0.5, "validationSchedule": None, "seed": "7"}


def answer(monkeypatch, text):
    stdin = io.StringIO(text)
    stdin.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", stdin)


def test_deleting_asks_for_the_name(weei, api, monkeypatch):
    job = api.add("Digits")
    answer(monkeypatch, "digits\n")
    assert weei("delete", job["id"])[0] == 1 and api.jobs
    answer(monkeypatch, "Digits\n")
    assert weei("delete", job["id"])[0] == 0 and not api.jobs


def test_where_nobody_can_be_asked_nothing_is_deleted_without_yes(weei, api, monkeypatch):
    job = api.add()
    monkeypatch.setattr(sys, "stdin", io.StringIO("Toy job\n"))
    code, _, err = weei("delete", job["id"])
    assert code == 2 and "--yes" in err and api.jobs
    assert weei("delete", job["id"], "--yes")[0] == 0 and not api.jobs


def test_validation_is_waited_for(weei, api):
    job = api.add()
    states = ("due", "running", "done")
    made = [checkpoint(1, validation=state, validationMetrics={"values": {"accuracy": 0.75}}) for state in states]
    api.checkpoints[job["id"]] = made[:1]
    rows = iter(made[1:])
    real = api.of_job
    api.of_job = lambda method, job, rest, query, body: (
        (api.checkpoints.__setitem__(job["id"], [next(rows)]) if rest == "/checkpoints/1" else None)
        or real(method, job, rest, query, body)
    )
    code, out, _ = weei("validate", job["id"])
    assert code == 0 and out.splitlines()[0] == "The validation of round 1 is done." and "0.75" in out


def test_a_validation_that_fails_is_a_failure(weei, api):
    job = api.add()
    api.checkpoints[job["id"]] = [checkpoint(1, validation="failed", validationError="The module trapped.")]
    code, _, err = weei("validate", job["id"])
    assert code == 1 and "The module trapped." in err


def test_a_validation_may_only_be_asked_for(weei, api):
    job = api.add()
    api.checkpoints[job["id"]] = [checkpoint(1, validation="due")]
    assert "is asked for" in weei("validate", job["id"], "--no-wait", "--round", "1")[1]


@pytest.mark.parametrize(
    "text, at",
    [
        (None, NOW + timedelta(days=7)),
        ("90m", NOW + timedelta(minutes=90)),
        ("12h", NOW + timedelta(hours=12)),
        ("3d", NOW + timedelta(days=3)),
        ("2026-12-31T18:00+01:00", datetime(2026, 12, 31, 17, tzinfo=UTC)),
    ],
)
def test_when_a_link_ends(text, at):
    assert expiry(text, NOW) == at


@pytest.mark.parametrize("text", ["", "soon", "7w", "-1d", "2026-13-01"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Failed, match="90m, 12h, 7d"):
        expiry(text, NOW)


def test_a_link_is_alone_on_standard_output(weei, api):
    job = api.add()
    code, out, err = weei("invite", job["id"], "--uses", "3", "--expires", "1d")
    assert code == 0 and out == "https://weei.example/join/secret/\n" and "3 participants" in err
    assert api.bodies[-1]["uses"] == 3


def test_links_are_listed_and_one_is_revoked_by_the_beginning_of_its_id(weei, api):
    job = api.add()
    api.invitations = [
        {"id": f"{first}000", "uses": 0, "maxUses": 1, "expiresAt": 1, "state": "open"} for first in ("ab", "ac", "d")
    ]
    assert len(json.loads(weei("invite", job["id"], "--list", "--json")[1])) == 3
    code, _, err = weei("invite", job["id"], "--revoke", "a")
    assert code == 1 and "ab000, ac000" in err
    assert weei("invite", job["id"], "--revoke", "x")[0] == 1
    assert weei("invite", job["id"], "--revoke", "d")[0] == 0
    assert api.asked[-1] == f"POST /api/v1/jobs/{job['id']}/invitations/d000/revoke"
