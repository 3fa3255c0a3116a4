"""/healthz and /readyz: what they look at, what they say, and that asking them costs nobody anything."""

import asyncio
import signal
import threading

import pytest
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder

from checkpoints.store import store
from tests.site import redis_here
from weei_core.errors import Unavailable
from weei_site import health
from weei_site.health import Part, Readiness
from weei_site.health_drain import Drain, drain

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def parts(monkeypatch):
    """Fresh parts that remember nothing; `parts(name=function)` replaces what one looks at."""

    def replaced(**looks):
        kept = {"database": health.look_at_database, "store": health.look_at_store, "redis": lambda: None, **looks}
        made = tuple(Part(name, look, keep_seconds=0, needed=name != "redis") for name, look in kept.items())
        monkeypatch.setattr(health, "readiness", Readiness(made))

    return replaced


def away():
    raise OperationalError('connection to server at "10.1.2.3", port 5432 failed: password "hunter2"')


def test_a_process_is_alive_whatever_is_away(ask, parts):
    parts(database=away, store=away, redis=away)
    answer = ask("/healthz")
    assert (answer.status, answer.json) == (200, {"status": "alive"})


def test_ready_with_the_time_of_each_part(ask, parts):
    parts()
    answer = ask("/readyz")
    assert answer.status == 200 and answer.json["status"] == "ready"
    assert answer.headers["cache-control"] == "no-store"
    for name in ("database", "store", "redis"):
        assert answer.json["parts"][name]["state"] == "ok" and answer.json["parts"][name]["ms"] >= 0


def test_without_redis_it_is_degraded_but_ready(ask, parts):
    parts(redis=away)
    answer = ask("/readyz")
    assert answer.status == 200 and answer.json["status"] == "degraded"
    assert answer.json["parts"]["redis"]["state"] == "degraded"


@pytest.mark.parametrize("name", ["database", "store"])
def test_without_what_it_needs_it_is_not_ready_and_tells_no_secret(ask, parts, name):
    parts(**{name: away})
    answer = ask("/readyz")
    assert answer.status == 503 and answer.json["status"] == "not ready"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json["parts"][name]["state"] == "failed"
    assert b"hunter2" not in answer.body and b"10.1.2.3" not in answer.body


@pytest.mark.db
def test_a_database_without_a_migration_is_not_ready(ask, parts):
    parts()
    recorder = MigrationRecorder.Migration.objects
    row = recorder.filter(app="jobs").latest("pk")
    recorder.filter(pk=row.pk).delete()
    try:
        answer = ask("/readyz")
    finally:
        recorder.create(pk=row.pk, app=row.app, name=row.name, applied=row.applied)
    assert answer.status == 503 and answer.json["parts"]["database"]["reason"] == "1 migrations are not applied"


def test_a_database_that_is_ahead_is_fine(ask, parts):
    """While a newer version is rolled out."""
    parts()
    newer = MigrationRecorder.Migration.objects.create(app="jobs", name="9999_of_the_next_version")
    try:
        assert ask("/readyz").status == 200
    finally:
        newer.delete()


def test_a_store_that_takes_nothing_is_not_ready(ask, parts, monkeypatch):
    def refuse(self):
        raise Unavailable("The artifact store does not answer; try again.")

    monkeypatch.setattr(type(store()), "check_writable", refuse)
    parts()
    assert ask("/readyz").json["parts"]["store"]["state"] == "failed"


def test_redis_is_asked_for_real(parts, settings, tmp_path):
    settings.QUEUE_URL = f"unix://{tmp_path}/nobody.sock?db=0"
    with pytest.raises(Exception, match="nobody.sock"):
        health.look_at_redis()
    with redis_here(tmp_path) as settings.QUEUE_URL:
        health.look_at_redis()


def test_many_who_ask_at_once_make_one_look():
    looked, go = [], threading.Event()

    def slow():
        looked.append(1)
        assert go.wait(10)

    part = Part("slow", slow, keep_seconds=60)

    async def everybody():
        asking = [asyncio.create_task(part.state()) for _ in range(50)]
        await asyncio.sleep(0.05)
        go.set()
        return await asyncio.gather(*asking)

    assert all(found.ok for found in asyncio.run(everybody())) and len(looked) == 1
    assert asyncio.run(part.state()).ok and len(looked) == 1, "it was not remembered"


def test_one_that_does_not_answer_is_given_up_on_and_holds_one_thread():
    go, looked = threading.Event(), []

    def hangs():
        looked.append(1)
        go.wait(30)

    part = Part("hanging", hangs, keep_seconds=0, patience=0.05)
    found = [asyncio.run(part.state()) for _ in range(3)]
    go.set()
    assert not any(one.ok for one in found) and found[0].reason == "no answer for 0.05 s"
    assert len(looked) == 1, "each caller began another look"


def test_whoever_drains_is_not_ready_but_alive(ask, parts, monkeypatch):
    parts()
    monkeypatch.setattr(drain, "begun", True)
    answer = ask("/readyz")
    assert answer.status == 503 and answer.json["status"] == "draining"
    assert ask("/healthz").status == 200


@pytest.mark.parametrize("seconds, stops_at_once", [(0, True), (0.2, False)])
def test_the_signal_turns_readiness_first_and_stops_the_server_after(settings, seconds, stops_at_once):
    settings.DRAIN_SECONDS = seconds
    before, stopped = signal.getsignal(signal.SIGTERM), []

    async def server():
        signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
        draining = Drain()
        draining.install()
        signal.raise_signal(signal.SIGTERM)
        assert draining.begun and bool(stopped) is stops_at_once
        async with asyncio.timeout(10):
            while not stopped:
                await asyncio.sleep(0.01)
        signal.raise_signal(signal.SIGTERM)

    try:
        asyncio.run(server())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped == [signal.SIGTERM] * 2, "a second signal did not stop it at once"


def test_whatever_the_host_and_no_method_but_reading(ask, parts):
    """Who asks knows an address, not a name; the answer repeats nothing of the request."""
    parts()
    for path in ("/healthz", "/readyz"):
        answer = ask(path, headers={"Host": "10.0.0.7:8000"})
        assert answer.status == 200 and b"10.0.0.7" not in answer.body
        assert ask(path, "POST").status == 405
        assert ask(path, headers={"Host": "evil.example"}).status == 200
    assert ask("/healthz/").status == 404


def test_the_log_tells_once_that_a_part_is_away_and_once_that_it_is_back(caplog):
    caplog.set_level("INFO", "weei_site.health")
    looks = [away, away, lambda: None, lambda: None]
    part = Part("database", lambda: looks.pop(0)(), keep_seconds=0)
    for _ in range(4):
        asyncio.run(part.state())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and "is not ready" in lines[0] and lines[1] == "database is ready again"
