"""/metrics: who may read it, that Prometheus can, what it counts, and that its labels do not grow with use."""

import re
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.utils import timezone
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jobs.models import Job, Round, Sweep
from tests.api.world import World
from tests.checkpoints.conftest import make_world
from tests.site import redis_here
from weei_site import metrics_jobs, metrics_worker
from weei_site.metrics_jobs import Kept

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "a-token-of-operators"
AT_MOST_QUERIES = 16


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(metrics_jobs, "kept", Kept())


def read(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(ask):
    answer = ask("/metrics", client="127.0.0.1")
    assert answer.status == 200, answer.body
    return read(answer.body.decode())


# --- Who ---


@pytest.mark.parametrize("client", ["203.0.113.9", "10.0.0.4", "192.168.1.2", "::ffff:10.0.0.4"])
def test_without_a_token_another_machine_is_refused(ask, client):
    answer = ask("/metrics", client=client)
    assert answer.status == 403 and answer.json["code"] == "forbidden" and "METRICS_TOKEN" in answer.json["title"]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Proto"])
def test_without_a_token_nothing_that_came_through_a_proxy_is_answered(ask, header):
    assert ask("/metrics", client="127.0.0.1", headers={header: "127.0.0.1"}).status == 403


@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
def test_without_a_token_this_machine_is_answered(ask, client):
    answer = ask("/metrics", client=client)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain; version=")


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_with_a_token_only_it_is_answered_also_on_this_machine(ask, settings, given):
    settings.METRICS_TOKEN = TOKEN
    headers = {} if given is None else {"Authorization": given}
    answer = ask("/metrics", client="127.0.0.1", headers=headers)
    assert answer.status == 401 and TOKEN.encode() not in answer.body
    assert ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_reading_only(ask):
    assert ask("/metrics", "POST", client="127.0.0.1").status == 405
    assert ask("/metrics", "HEAD", client="127.0.0.1").body == b""


# --- What a web process counts ---


def test_requests_are_counted_by_route_method_and_class_of_status(ask):
    before = scraped(ask)
    for path in ("/api/v1/site", "/help/", "/nothing/at/all", "/healthz", "/static/nothing.js"):
        ask(path)
    ask("/help/", "BREW")
    after = scraped(ask)

    def more(*labels):
        key = ("weei_http_requests_total", *sorted(labels))
        return after.get(key, 0) - before.get(key, 0)

    assert more("help", "GET", "2xx") == more("healthz", "GET", "2xx") == more("static", "GET", "4xx") == 1
    assert more("unknown", "GET", "4xx") == 1
    assert (
        sum(
            value - before.get(key, 0)
            for key, value in after.items()
            if key[0] == "weei_http_requests_total" and "other" in key
        )
        == 1
    )
    assert not [key for key in after if "BREW" in key]
    assert ("weei_http_request_seconds_count", "GET", "help") in after


def test_an_address_never_becomes_a_label(ask):
    """Neither a job's id nor a stranger's inventions."""
    known = {key for key in scraped(ask) if key[0].startswith("weei_http")}
    for number in range(20):
        ask(f"/jobs/5f2c9f50-7c1b-4c0e-8f55-{number:012d}/")
        ask(f"/invented-{number}/")
        ask(f"/bytes/jobs/5f2c9f50-7c1b-4c0e-8f55-{number:012d}/{'0' * 64}")
    new = {key[1:] for key in scraped(ask) if key[0] == "weei_http_requests_total"} - {key[1:] for key in known}
    assert len(new) <= 4, new


def test_bytes_of_uploads_and_downloads_are_counted(ask):
    data = b"x" * 100_000
    headers = make_world(b"0123").file_headers(data)
    before = scraped(ask)
    answer = ask("/bytes/uploads", "POST", headers, [data])
    assert answer.status == 201, answer
    after = scraped(ask)
    assert after["weei_upload_bytes_total",] - before["weei_upload_bytes_total",] == len(data)
    assert after["weei_download_bytes_total",] - before["weei_download_bytes_total",] == len(answer.body)


# --- What the database knows ---


@pytest.mark.db
def test_jobs_rounds_and_people_are_those_of_the_database(ask):
    world = World()
    Sweep.objects.update_or_create(pk=1, defaults={"ended_at": timezone.now()})
    said = scraped(ask)
    assert said["weei_database_up",] == 1
    for status in Job.Status.values:
        assert said["weei_jobs", status] == Job.objects.filter(status=status).count()
    assert said["weei_attempts_live",] >= 1 and said["weei_participants_active",] >= 1
    assert said["weei_artifact_bytes",] > 0 and said["weei_oldest_closing_round_seconds",] == 0
    assert 0 <= said["weei_sweep_age_seconds",] < 60
    assert world.job.status in Job.Status.values


def test_the_age_of_the_oldest_closing_round(ask):
    world = World()
    closed = timezone.now() - timezone.timedelta(seconds=90)
    Round.objects.filter(job=world.job).update(state=Round.State.CLOSING, closing_at=closed)
    assert 90 <= scraped(ask)["weei_oldest_closing_round_seconds",] < 600


def test_a_scrape_costs_few_queries_and_is_remembered(django_assert_max_num_queries):
    World()
    clock = [0.0]
    kept = Kept(lambda: clock[0])
    with django_assert_max_num_queries(AT_MOST_QUERIES):
        first = kept.text()
    with django_assert_max_num_queries(0):
        assert kept.text() is first
    clock[0] += metrics_jobs.KEEP_SECONDS + 1
    assert kept.text() is not first


def test_what_cannot_be_asked_is_missing_never_zero(monkeypatch, settings, tmp_path):
    def away(now):
        raise OperationalError("the database is away")

    monkeypatch.setattr(metrics_jobs, "_work", away)
    settings.QUEUE_URL = f"unix://{tmp_path}/nobody.sock"
    said = read(Kept().text().decode())
    assert said == {("weei_database_up",): 0, ("weei_broker_up",): 0}


def test_queues_have_their_length(settings, tmp_path):
    import redis

    with redis_here(tmp_path) as settings.QUEUE_URL:
        with redis.Redis.from_url(settings.QUEUE_URL) as broker:
            broker.rpush("slow", "a", "b", "c")
        said = read(Kept().text().decode())
    assert said["weei_broker_up",] == 1
    assert said["weei_queue_length", "slow"] == 3 and said["weei_queue_length", "fast"] == 0


# --- What a worker counts ---


def fetched(port, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return read(answer.read().decode())


def test_a_worker_tells_its_tasks_while_one_runs(settings):
    settings.METRICS_TOKEN = TOKEN
    port = metrics_worker.serve(0)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetched(port)
    merge = SimpleNamespace(name="jobs.tasks.merge")
    before = fetched(port, Authorization=f"Bearer {TOKEN}")
    metrics_worker._task_begins(task_id="1", task=merge)
    # Pool `threads`: each task in a thread of its own.
    other = threading.Thread(target=metrics_worker._task_begins, kwargs={"task_id": "2", "task": merge})
    other.start()
    other.join()
    during = fetched(port, Authorization=f"Bearer {TOKEN}")
    metrics_worker._task_ends(task_id="1", task=merge, state="SUCCESS")
    after = fetched(port, Authorization=f"Bearer {TOKEN}")
    metrics_worker.TASKS_RUNNING.labels("merge").dec()
    running, ended = ("weei_tasks_running", "merge"), ("weei_tasks_total", "done", "merge")
    assert during[running] - before.get(running, 0) == 2
    assert after[running] - before.get(running, 0) == 1
    assert after[ended] - before.get(ended, 0) == 1


def test_a_caller_that_says_nothing_keeps_nobody_waiting():
    port = metrics_worker.serve(0)
    with socket.create_connection(("127.0.0.1", port)):
        assert fetched(port)


def test_a_port_that_is_taken_is_a_log_line_and_no_reason_to_stop(caplog):
    port = metrics_worker.serve(0)
    assert metrics_worker.serve(port) == 0
    assert "METRICS_PORT" in caplog.text


def test_every_metric_is_documented_and_no_other(settings, tmp_path):
    with redis_here(tmp_path) as settings.QUEUE_URL:
        Sweep.objects.update_or_create(pk=1, defaults={"ended_at": timezone.now()})
        text = (generate_latest(REGISTRY) + Kept().text()).decode()
    families = text_string_to_metric_families(text)
    told = {f"{one.name}_total" if one.type == "counter" else one.name for one in families if one.name[:5] == "weei_"}
    page = (Path(settings.BASE_DIR) / "docs/operations.md").read_text()
    table = page[page.index("| metric | of |") : page.index('"Of all"')]
    assert told == set(re.findall(r"`(weei_\w+)`", table)) and len(told) > 25
    alerts = set(re.findall(r"\b(weei_\w+)\b", page[page.index("| alert worth having") : page.index("### Log lines")]))
    assert alerts <= told
