"""Log lines: what they are about, on one line, with no secret; and the id by which a person can name a request."""

import json
import logging
import os
import subprocess
import sys
import uuid
from types import SimpleNamespace

import pytest

from tests.api.world import World
from weei_core import log_context
from weei_core.log_context import about, note
from weei_site import logs, metrics_worker

logger = logging.getLogger("weei.test")
INSTANCE = "urn:uuid:"


def test_a_json_line_says_time_level_logger_role_message_and_what_it_is_about(written, monkeypatch):
    stream = written("json")
    monkeypatch.setattr(logs, "role", "fast")
    with about(job="j", round=3, peer=None):
        logger.warning("merged %d updates", 8)
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    expected = {"level": "WARNING", "logger": "weei.test", "role": "fast", "message": "merged 8 updates"}
    assert found == {**expected, "job": "j", "round": "3"}


def test_a_traceback_is_in_the_object_of_its_line(written):
    stream = written("json")
    try:
        raise ValueError("broken\n2026-11-29 INFO forged")
    except ValueError:
        logger.exception("it failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exc_info"]


@pytest.mark.parametrize(
    "forged", ["x\n2026-11-29 00:00:00,000 INFO weei forged", "x\r\ny", "x\x1b[2Ky", "x\u2028y", "x\x00y"]
)
def test_a_message_is_one_line_whatever_was_sent(written, forged):
    line, text = written("line"), written("json")
    with about(route=forged):
        logger.warning("refused %s", forged)
    assert line.getvalue().count("\n") == 1
    assert not set(line.getvalue().rstrip("\n")) & {"\r", "\x1b", "\u2028", "\x00"}
    assert len(text.getvalue().splitlines()) == 1
    assert json.loads(text.getvalue())["message"] == f"refused {forged}"


def test_no_line_of_a_traceback_looks_like_a_record(written):
    stream = written("line")
    try:
        raise ValueError("broken\n2026-11-29 00:00:00,000 INFO weei forged")
    except ValueError:
        logger.exception("it failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("it failed") and rest and all(row.startswith("    ") for row in rest)


@pytest.mark.parametrize(
    "message, secret",
    [
        ("connecting to postgresql://weei:hunter2hunter2@db/weei", "hunter2hunter2"),
        ("redis://:hunter2hunter2@redis:6379 is away", "hunter2hunter2"),
        ("Internal Server Error: /join/Zk3abcdefgh0123456789/", "Zk3abcdefgh0123456789"),
        ("Internal Server Error: /sign-in/MQ:1abcde:abcdefghijklmnop/", "abcdefghijklmnop"),
        ("header Authorization: Bearer abcdefgh0123456789", "abcdefgh0123456789"),
        ("password=hunter2hunter2 was wrong", "hunter2hunter2"),
        ("{'token': 'abcdefgh0123456789'}", "abcdefgh0123456789"),
    ],
)
def test_secrets_are_hidden(written, message, secret):
    line, text = written("line"), written("json")
    logger.error("%s", message)
    try:
        raise ValueError(message)
    except ValueError:
        logger.exception("again")
    for stream in (line, text):
        assert secret not in stream.getvalue() and "[hidden]" in stream.getvalue()


def test_what_is_not_secret_stays():
    for text in ("job 5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01 of http://host:8000/help/", "token unknown", "/join/"):
        assert logs.scrubbed(text) == text


def test_contexts_nest_and_end():
    with about(job="a"):
        with about(round=1):
            note(peer="p")
            assert log_context.current() == {"job": "a", "round": "1", "peer": "p"}
        assert log_context.current() == {"job": "a"}
    assert log_context.current() == {}
    note(job="nowhere")
    assert log_context.current() == {}


# --- At the edges ---


@pytest.fixture
def fields(monkeypatch):
    """What lines that are written during a request are about."""
    seen = []

    class Seen(logging.Handler):
        def emit(self, record):
            seen.append(dict(log_context.current()))

    handler = Seen()
    logging.getLogger().addHandler(handler)
    level = logging.getLogger("weei.requests").level
    logging.getLogger("weei.requests").setLevel(logging.DEBUG)
    yield seen
    logging.getLogger().removeHandler(handler)
    logging.getLogger("weei.requests").setLevel(level)


@pytest.mark.django_db(transaction=True)
def test_a_request_knows_its_id_route_job_and_peer(ask, fields):
    world = World()
    headers = {"Authorization": f"Bearer {world.participant.token}"}
    answer = ask(f"/bytes/jobs/{world.job.pk}/{'0' * 64}", headers=headers)
    assert answer.status in (403, 404)
    found = fields[-1]
    assert found["request"] == answer.headers["x-request-id"]
    assert found["job"] == str(world.job.pk) and found["peer"] == str(world.participant.peer.pk)
    ask(f"/api/v1/jobs/{world.job.pk}/checkpoints/3/ledger")
    assert fields[-1]["round"] == "3" and fields[-1]["job"] == str(world.job.pk) and "ledger" in fields[-1]["route"]
    assert log_context.current() == {}, "the context outlived its request"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/bytes/nothing", "/help/", "/static/nothing.js", "/healthz"])
def test_every_answer_names_its_request_and_a_problem_too(ask, path):
    answer = ask(path)
    name = answer.headers["x-request-id"]
    assert str(uuid.UUID(name)) == name
    if answer.headers.get("Content-Type", answer.headers.get("content-type", "")).startswith(
        "application/problem+json"
    ):
        assert answer.json["instance"] == INSTANCE + name
    assert ask(path).headers["x-request-id"] != name


@pytest.mark.django_db(transaction=True)
def test_a_trusted_proxy_may_choose_the_id_and_nobody_else(ask, settings):
    chosen = str(uuid.uuid4())
    assert ask("/help/", headers={"X-Request-ID": chosen}).headers["x-request-id"] != chosen
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert ask("/help/", headers={"X-Request-ID": chosen}).headers["x-request-id"] == chosen
    assert ask("/help/", headers={"X-Request-ID": chosen.replace("-", "")}).headers["x-request-id"] == chosen
    for forged in ("x", "é" * 16, f"{chosen}\tx", "{}"):
        assert ask("/help/", headers={"X-Request-ID": forged}).headers["x-request-id"] not in (forged, chosen)


def test_a_task_knows_itself_and_ends(fields):
    merge = SimpleNamespace(name="jobs.tasks.merge")
    metrics_worker._task_begins(task_id="t-1", task=merge)
    note(job="j", round=2)
    assert log_context.current() == {"task": "merge", "request": "t-1", "job": "j", "round": "2"}
    metrics_worker._task_ends(task_id="t-1", task=merge, state="FAILURE")
    assert log_context.current() == {}


def test_there_is_no_access_log(settings):
    """It would hold invitation links. uvicorn sets its loggers up before the settings do."""
    code = (
        "import logging; from uvicorn.config import Config; "
        "config = Config('weei_site.asgi:application', access_log=False); config.load(); "
        "logging.getLogger('uvicorn.access').info('GET /join/x'); logging.getLogger('uvicorn.error').info('began')"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "weei_site.settings", "VAR_DIR": str(settings.VAR_DIR)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=settings.BASE_DIR, capture_output=True)
    assert done.returncode == 0 and b"join" not in done.stderr, done.stderr
    assert done.stderr.count(b"began") == 1
