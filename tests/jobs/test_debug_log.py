"""The debug log of a job: what the phases of its rounds took, and what a coordinator's page reads of its events."""

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.urls import reverse
from django.utils.timezone import now

from jobs.domain.debug_log import PHASE_FINISHED, event_of, iso, log_file
from jobs.models import Job, JobEvent, Round
from jobs.selectors.event_log import debug_log
from jobs.services import evaluation
from jobs.services.aggregation import _commit, merge_slots, received_slots
from jobs.services.evaluation import validation_request, validation_run
from jobs.services.events import PhaseClock, job_event
from peers import outbox
from tests.api.world import browser
from tests.jobs.world import Participant, make_job, merge_due, start

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "debug_log.json").read_text(encoding="utf-8"))
SCHEMA = json.loads((ROOT / "docs" / "debug-log.schema.json").read_text(encoding="utf-8"))
EVIL = "<img src=x onerror=alert(1)>"
AT = "2027-03-04T05:06:07.000Z"


@pytest.mark.parametrize("vector", GOLDEN["logs"], ids=lambda vector: vector["name"])
def test_gives_the_golden_figures(vector):
    events = vector["events"]
    made = log_file(events, AT)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    assert made == {
        "schemaVersion": 2,
        "exportedAt": AT,
        "baseline": vector["baseline"],
        "events": events,
    }


@pytest.mark.parametrize("vector", GOLDEN["details"], ids=lambda vector: vector["name"])
def test_keeps_the_golden_details(vector):
    kept = {} if vector["kept"] is None else {"details": vector["kept"]}
    assert event_of(AT, "x", vector["given"]) == {"at": AT, "event": "x", **kept}


def test_times_are_written_in_utc_with_milliseconds():
    assert iso(datetime(2027, 3, 4, 5, 6, 7, 8999, tzinfo=UTC)) == "2027-03-04T05:06:07.008Z"


def test_phases_follow_one_another_on_a_clock_that_nobody_sets():
    times = iter([100.0, 100.0126, 102.5])
    clock = PhaseClock(lambda: next(times))
    first, second = clock.finished("fedavg"), clock.finished("checkpoint-save")
    assert [(phase.name, phase.ms) for phase in (first, second)] == [("fedavg", 12.6), ("checkpoint-save", 2487.4)]


def phases_of(job):
    rows = JobEvent.objects.filter(job=job, event=PHASE_FINISHED).values_list("details_text", flat=True)
    found = [json.loads(text) for text in rows]
    assert all(details["ms"] >= 0 for details in found)
    return [(details["round"], details["phase"]) for details in found]


def trained(rounds=2, **settings):
    job = make_job(chunks=rounds, **settings)
    peer = Participant(job)
    start(job)
    for _ in range(rounds):
        peer.train()
        merge_due(job)
    return job


@pytest.mark.db
@pytest.mark.django_db
def test_every_round_tells_what_its_merge_and_its_checkpoint_took():
    job = trained(aggregation={"method": "fedavgm"})
    assert phases_of(job) == [(n, name) for n in (1, 2) for name in ("fedavgm", "checkpoint-save")]
    log = debug_log(job, now())
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    baseline = log["baseline"]
    assert {name: figures["count"] for name, figures in baseline["phases"].items()} == {
        "checkpoint-save": 2,
        "fedavgm": 2,
    }
    assert baseline["idle"] == {"samples": 0, "totalMs": 0, "avgMs": 0}, "the one begins where the other ends"


@pytest.mark.django_db
def test_of_two_processes_that_merge_a_round_only_the_one_that_commits_tells():
    job = make_job(chunks=2)
    peer = Participant(job)
    start(job)
    peer.train()
    at = Round.objects.select_related("job__module", "job__dataset").get(job=job)
    slots = received_slots(at)
    for merged in [merge_slots(at, slots), merge_slots(at, slots)]:
        _commit(at, slots, merged)
    assert phases_of(job) == [(1, "fedavg"), (1, "checkpoint-save")]


@pytest.mark.django_db
def test_a_merge_that_fails_finished_no_phase():
    job = make_job(chunks=2, aggregation={"method": "fedadam", "epsilon": 0})
    peer = Participant(job)
    start(job)
    peer.upload(peer.assignment, weights=unchanged(job))
    merge_due(job)
    assert job.status == Job.Status.PAUSED
    assert phases_of(job) == []


def unchanged(job):
    """The weights as they were: FedAdam with epsilon 0 then divides 0 by 0."""
    return bytes(job.checkpoints.get(round=0).weights.body)


@pytest.mark.django_db
def test_a_validation_tells_what_it_took_once_it_succeeds(monkeypatch):
    job = make_job(validation=True)
    monkeypatch.setattr(evaluation, "_evaluate", lambda checkpoint: '{"metrics":{},"examplesProcessed":1}')
    validation_run(validation_request(job).pk)
    assert phases_of(job) == [(0, "validation")]
    monkeypatch.setattr(evaluation, "_evaluate", refuse)
    validation_run(validation_request(job).pk)
    assert phases_of(job) == [(0, "validation")]


def refuse(checkpoint):
    raise evaluation.Conflict("The module failed.", field="module")


@pytest.mark.django_db(transaction=True)
def test_watching_pages_are_told_of_every_event(monkeypatch):
    job = make_job(chunks=1)
    sent = []
    monkeypatch.setattr(outbox._loop, "send", lambda group, message: sent.append((group, message.get("what"))))
    job_event(job.pk, "item.retried", item=1)
    assert sent == [(outbox.job_group(job.pk), ["events"])]


def ids(answer):
    return [event["id"] for event in answer.json()]


@pytest.mark.db
@pytest.mark.django_db
def test_the_api_gives_the_newest_events_between_two_ids_oldest_first():
    job = make_job(chunks=1)
    other = make_job(chunks=1)
    for n in range(6):
        job_event(job.pk, "item.retried", item=n)
        job_event(other.pk, "item.skipped", item=n)
    alice = browser("alice")
    path = f"/api/v1/jobs/{job.pk}/log"
    everything = alice.get(path).json()
    assert [event["event"] for event in everything] == ["item.retried"] * 6
    assert [event["details"] for event in everything] == [{"item": n} for n in range(6)]
    known = [event["id"] for event in everything]
    assert known == sorted(known)
    assert ids(alice.get(f"{path}?limit=2")) == known[-2:]
    assert ids(alice.get(f"{path}?after={known[1]}")) == known[2:]
    assert ids(alice.get(f"{path}?after={known[1]}&limit=2")) == known[-2:]
    assert ids(alice.get(f"{path}?before={known[2]}")) == known[:2]
    assert ids(alice.get(f"{path}?after={known[-1]}")) == []
    for query in ("after=-1", "before=x", "limit=501", "limit=0", f"after={2**70}"):
        assert alice.get(f"{path}?{query}").status_code == 422, query


@pytest.mark.django_db
def test_the_file_holds_the_last_thousand_events(client):
    job = make_job(chunks=1)
    JobEvent.objects.bulk_create(
        JobEvent(job=job, at=now(), event="item.retried", details_text=f'{{"item":{n}}}') for n in range(1005)
    )
    events = debug_log(job, now())["events"]
    assert [event["details"]["item"] for event in events] == list(range(5, 1005))


@pytest.mark.django_db
def test_hostile_names_are_data_in_the_download_and_its_name_is_quoted(client):
    """C78."""
    job = make_job(chunks=1)
    Job.objects.filter(pk=job.pk).update(name=f'a"/{EVIL}\r\nX: y')
    job_event(job.pk, "slot.stopped", item=EVIL, reason=f"{EVIL} https://weei.test/join/{'t' * 43}/")
    client.force_login(job.owner)
    answer = client.get(reverse("job-log", args=[job.pk]))
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="a__') and '"' not in disposition.split('"')[1]
    assert unquote(disposition.rpartition("''")[2]).endswith("X: y-debug-log.json")
    assert not set("\r\n/") & set(unquote(disposition.rpartition("''")[2]))
    [event] = answer.json()["events"]
    assert event["details"] == {"item": EVIL, "reason": f"{EVIL} https://weei.test/join/…/"}
