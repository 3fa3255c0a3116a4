"""Two of each process, as docker-compose.yml starts them, on PostgreSQL, a Redis with a password and S3: a job whose
processes are killed in turn has the checkpoints of one machine with SQLite and files; restarts and a database that goes
away lose nothing. I1, I4, S1, S2, S5, S7, S8, S13."""

import contextlib
import json
import re
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.chaos.installation import Postgres
from tests.stack.composed import COMPOSE, ONCE, OURS, Composed
from tests.stack.model_jobs import Agent, DigitsJob
from tests.stack.shared import shared_environment

PASSES = 3
ROUNDS = PASSES * 12 // 2
SETTINGS = {"epochs": PASSES, "seed": "20261129", "aggregation": {"method": "fedavgm"}}
# What is lost in a kill is found again sooner than in life, so that the test waits less. Leases are as in life.
QUICK = {"SWEEP_SECONDS": "1", "MERGE_LEASE_SECONDS": "6", "DRAIN_SECONDS": "2"}
DRAINED_SECONDS = 30
BURST = 150


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def installation(postgres):
    with shared_environment(postgres.url(postgres.port)) as shared, Composed(shared, QUICK) as running:
        yield running


def exported(job, facts):
    """The last checkpoint as its owner downloads it. Only the job's id differs between two equal jobs."""
    with contextlib.closing(job.stack.signed_in()) as client:
        answer = client.get(f"/bytes/jobs/{job.id}/checkpoints/{facts['rounds'][-1]}").raise_for_status()
    assert answer.content.count(job.id.encode()) == 1
    return answer.content.replace(job.id.encode(), b"0" * len(job.id))


def on_one_machine(stack):
    job = DigitsJob(stack, **SETTINGS)
    with Agent(stack, job.link, f"{job.id[:8]}-a"), Agent(stack, job.link, f"{job.id[:8]}-b"):
        job.start(wanted=2)
        facts = job.wait_until_completed(120)
    return facts, exported(job, facts)


def test_the_processes_are_those_of_the_composition(installation):
    """Two of each, and the two that run once; nothing but what the file says."""
    assert sorted(installation.services) == ["fast-1", "fast-2", "slow-1", "slow-2", "web-1", "web-2"]
    assert set(ONCE) == {"migrate", "bucket"} and set(OURS) == {"web-1", "web-2", "fast", "slow", *ONCE}
    for one in installation.processes.values():
        said = COMPOSE["services"][one.service]
        assert set(one.environment) - {"VAR_DIR", "RUN_DIR", *QUICK} == set(said["environment"]) - set(QUICK)
        assert len(one.command) == len(said["command"].split())


def test_kills_of_all_six_leave_the_bytes_of_one_machine(stack, installation):
    facts, bytes_of_one = on_one_machine(stack)
    job = DigitsJob(installation, **SETTINGS)
    options = ("--rest", "0.7")
    with Agent(installation, job.link, "a", *options), Agent(installation, job.link, "b", *options):
        job.start(wanted=2)
        job.wait_for_round(1, 60)
        for name in ("web-1", "fast-2", "slow-1", "web-2", "fast-1", "slow-2"):
            installation.wait_for_restart(name, installation.kill(name))
        assert job.status()["status"] == "running", "the job ended before the last kill; make it longer"
        # A deploy in the middle of a round: told to end, one web process and one worker of each queue after the other.
        for name in ("web-1", "fast-1", "slow-1"):
            installation.wait_for_restart(name, installation.kill(name, signal.SIGTERM), DRAINED_SECONDS)
        grown_up = job.wait_until_completed(180)

    assert grown_up["expired"] == 0
    assert grown_up["rounds"] == facts["rounds"] == list(range(ROUNDS + 1))
    assert grown_up["sha256"] == facts["sha256"]
    assert grown_up["validation"] == facts["validation"]
    for _ in installation.webs:
        assert exported(job, grown_up) == bytes_of_one, "the web processes serve different bytes"
    _every_process_says_how_it_is(installation)
    _a_worker_knows_that_it_lives(installation)
    _lines_say_what_they_are_about(installation, job)


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _every_process_says_how_it_is(installation):
    for name in installation.webs:
        # One that was started again a moment ago may still be opening its first connection.
        up = lambda name=name: samples(installation.metrics(name))["weei_database_up",] == 1  # noqa: E731
        installation.wait(up, 60, f"{name} to reach the database: {installation.said(name, 'is 0')}")
        said = samples(installation.metrics(name))
        assert said["weei_broker_up",] == 1, installation.said(name, "is 0")
        assert said["weei_rounds_done",] == ROUNDS and said["weei_jobs", "completed"] == 1
        assert said["weei_queue_length", "fast"] == 0 and said["weei_artifact_bytes",] > 0
        assert said["weei_sweep_age_seconds",] < 60 and said["weei_sweeps_total", "done"] > 0
    merged = [
        samples(installation.metrics(name)).get(("weei_tasks_total", "done", "merge"), 0)
        for name in installation.services
        if name.startswith("fast")
    ]
    assert sum(merged) > 0, "no worker counted a merge"
    assert installation.answer("web-1", "/metrics")[0] == installation.answer("fast-1", "/metrics")[0] == 401


def _a_worker_knows_that_it_lives(installation):
    """The command of the composition's health check, by the worker's own name."""
    for name in ("fast-1", "slow-2"):
        one = installation.processes[name]
        *_, module, _ = COMPOSE["services"][one.service]["healthcheck"]["test"]
        before, installation.environment = installation.environment, {**installation.environment, **one.environment}
        worker = one.command[one.command.index("-n") + 1]
        said = installation.python("-m", module, worker)
        installation.environment = before
        assert said in ("Waits for tasks.\n",) or said.startswith("At work on "), said


def _lines_say_what_they_are_about(installation, job):
    """One JSON object a line, of every process; no password in any."""
    rows = []
    for name in installation.services:
        text = (installation.folder / f"var/log/{name}.log").read_text()
        assert installation.environment["AWS_SECRET_ACCESS_KEY"] not in text
        said = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        # A worker learns its name a moment after it has loaded the settings.
        assert {row["role"] for row in said} <= {
            name.partition("-")[0],
            *(["manage"] if name not in installation.webs else []),
        }
        rows += said
    assert {row["role"] for row in rows} >= {"web"}
    assert all({"time", "level", "logger", "message"} <= set(row) for row in rows)


def hello_socket(installation, name):
    """A socket at one process that a peer of its own has greeted."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{installation.processes[name].port}/api/v1/peers", b"{}",
        {"Host": f"localhost:{installation.port}", "Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=15) as answer:
        token = json.loads(answer.read())["token"]
    socket = connect(
        f"ws://127.0.0.1:{installation.processes[name].port}/ws/peer",
        additional_headers={"Host": f"localhost:{installation.port}"},
        origin=f"http://localhost:{installation.port}",
        legacy=True,
    )
    socket.send(json.dumps({"type": "hello", "protocol": 1, "token": token, "train": False}))
    assert json.loads(socket.recv(15))["type"] == "welcome"
    return socket


def test_a_web_process_that_is_told_to_end_says_so_first_and_then_closes_its_sockets(installation):
    """S13: /readyz turns to 503 while requests are still answered; then 1012; then it is gone, within 30 s."""
    name = "web-2"
    socket = hello_socket(installation, name)
    began = time.monotonic()
    old = installation.kill(name, signal.SIGTERM)
    said = []

    def draining():
        said.append(installation.answer(name, "/readyz"))
        return said[-1][0] == 503

    installation.wait(draining, 5, "readiness to turn")
    assert json.loads(said[-1][1])["status"] == "draining"
    assert installation.answer(name, "/sign-in/")[0] == 200, "it stopped answering before it was left out"
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(DRAINED_SECONDS)
    assert closed.value.rcvd.code == 1012
    installation.wait_for_restart(name, old, DRAINED_SECONDS - (time.monotonic() - began))
    assert installation.answer("web-1", "/readyz")[0] == 200
    installation.wait_until_up()


def threads(pid):
    return int(re.search(r"Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def test_without_its_database_the_site_says_when_to_come_back_and_then_is_there_again(installation, postgres):
    """S7 and S8: 503 with Retry-After from both web processes, no 500; /healthz goes on; nothing piles up."""
    caller = {"Authorization": "Bearer x", "Cookie": f"weei_session_{installation.port}={'x' * 32}"}
    postgres.kill()
    try:
        for name in installation.webs:
            installation.wait(lambda name=name: installation.answer(name, "/readyz")[0] == 503, 20, f"{name} to notice")
            ready = json.loads(installation.answer(name, "/readyz")[1])
            assert ready["status"] == "not ready" and ready["parts"]["database"]["state"] == "failed"
            assert installation.answer(name, "/healthz")[0] == 200
            for path in (
                "/api/v1/peer/state",
                "/jobs/",
                f"/bytes/jobs/5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01/{'0' * 64}",
            ):
                status, body, headers = installation.answer(name, path, caller)
                assert status == 503, (path, status, body[:500])
                assert int(headers["retry-after"]) > 0, path
            with ThreadPoolExecutor(BURST) as crowd:
                asked = crowd.map(
                    lambda _, name=name: installation.answer(name, "/api/v1/peer/state", caller), range(BURST)
                )
                assert {status for status, _, _ in asked} == {503}
            assert threads(installation.pid(name)) < BURST, "each request left a thread waiting"
            assert samples(installation.metrics(name))["weei_database_up",] == 0
    finally:
        postgres.start()
    for name in installation.webs:
        installation.wait(lambda name=name: installation.answer(name, "/readyz")[0] == 200, 15, f"{name} to be ready")
        installation.wait(
            lambda name=name: samples(installation.metrics(name))["weei_database_up",] == 1, 30, "its metrics"
        )
        assert '"status": 5' not in installation.answer(name, "/api/v1/site")[1]
