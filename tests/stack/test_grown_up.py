"""The same job on one machine with SQLite and files, and on two web processes and two workers of each queue that share
PostgreSQL, a Redis with a password and S3: the same bytes come out. I1, I4, S1, S2, S5."""

import contextlib

import pytest

from tests.stack.model_jobs import Agent, DigitsJob
from tests.stack.shared import shared_environment
from tests.stack.stack import Stack

PASSES = 3
ROUNDS = PASSES * 12 // 2
SETTINGS = {"epochs": PASSES, "seed": "20261129", "aggregation": {"method": "fedavgm"}}


@pytest.fixture(scope="module")
def two_machines():
    with shared_environment() as shared, Stack(shared) as first, Stack(shared) as second:
        yield first, second


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


def test_two_machines_that_share_everything_give_the_bytes_of_one_with_sqlite(stack, two_machines):
    first, second = two_machines
    facts, bytes_of_one = on_one_machine(stack)

    job = DigitsJob(first, **SETTINGS)
    options = ("--rest", "0.7")
    with Agent(first, job.link, "a", *options), Agent(second, job.link_at(second), "b", *options):
        job.start(wanted=2)
        job.wait_for_round(1, 60)
        for machine, name in ((first, "web"), (second, "fast"), (first, "slow")):
            machine.wait_for_restart(name, machine.kill(name))
        assert job.status()["status"] == "running", "the job ended before the last kill; make it longer"
        grown_up = job.wait_until_completed(180)

    assert grown_up["expired"] == 0
    assert grown_up["rounds"] == facts["rounds"] == list(range(ROUNDS + 1))
    assert grown_up["sha256"] == facts["sha256"]
    assert grown_up["validation"] == facts["validation"]
    assert exported(job, grown_up) == bytes_of_one
    job.stack = second
    assert exported(job, grown_up) == bytes_of_one, "the other web process serves other bytes"
