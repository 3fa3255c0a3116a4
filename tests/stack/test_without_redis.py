"""Messages are hints: a job is completed without any, and survives a Redis that is away for a while. S6, P12, I9."""

import contextlib
import time

import pytest

from tests.stack.model_jobs import Agent, DigitsJob
from tests.stack.stack import Stack

OUTAGE_SECONDS = 15
GOES_ON_SECONDS = 10
QUIET = {"enabled": False, "unit": "round", "every": 1}

RECEIVED = """
from jobs.models import Attempt, JobEvent
attempts = Attempt.objects.filter(slot__round__job_id=job_id)
answer = {"received": attempts.filter(state="received").count(), "expired": attempts.filter(state="expired").count()}
"""


def test_a_job_is_completed_though_no_hint_arrives():
    """With the channel layer off, polls find the work."""
    with Stack({"DJANGO_SETTINGS_MODULE": "tests.stack.settings_without_hints"}) as stack:
        job = DigitsJob(stack, epochs=1, seed="7", validationSchedule=QUIET)
        with contextlib.ExitStack() as agents:
            running = [agents.enter_context(Agent(stack, job.link, f"agent-{n}")) for n in range(4)]
            job.start(wanted=4)
            facts = job.wait_until_completed(180)
            names = {event["event"] for agent in running for event in agent.events()}
        assert "a socket without hints" in stack.logs(10_000)
        assert facts["rounds"] == [0, 1, 2, 3] and facts["expired"] == 0
        assert len(facts["trained"]) == 12
        assert "uploaded" in names and "error" not in names


@pytest.fixture
def as_in_life():
    """With the times that an installation has, because how soon the job goes on is what matters here."""
    with Stack() as running:
        yield running


def test_participants_go_on_while_redis_is_away_and_the_job_when_it_is_back(as_in_life):
    """Updates are taken in during the outage; the merge they ask for is queued again after it: in ten seconds on a
    machine that has nothing else to do."""
    stack = as_in_life
    job = DigitsJob(stack, epochs=2, seed="7", validationSchedule=QUIET)
    with Agent(stack, job.link, "outage-a", "--rest", "2"), Agent(stack, job.link, "outage-b", "--rest", "2"):
        job.start(wanted=2)
        job.wait_for_round(2, 60)
        # Now both rest, and have their next assignment: what they train on is dealt, and Redis is not needed for it.
        stack.wait(lambda: (at := job.status()["round"])["state"] == "open" and at["live"] == 2, 60, "a dealt round")
        stack.supervisor.stopProcess("valkey")
        away_since = time.monotonic()
        before = job.status()
        received = stack.shell(RECEIVED, job_id=job.id)["received"]

        def both_uploaded() -> bool:
            return stack.shell(RECEIVED, job_id=job.id)["received"] >= received + before["round"]["live"]

        stack.wait(both_uploaded, 60, "the updates of the round that was dealt")
        stack.wait(lambda: time.monotonic() - away_since > OUTAGE_SECONDS, OUTAGE_SECONDS + 1, "the outage to pass")
        during = job.status()
        assert during["status"] == "running"
        stack.supervisor.startProcess("valkey")
        back_at = time.monotonic()
        job.wait_for_round(during["checkpoints"] + 1, 3 * GOES_ON_SECONDS)
        print(f"the job went on {time.monotonic() - back_at:.1f} s after Redis was back")
        facts = job.wait_until_completed(180)
    assert during["checkpoints"] == before["checkpoints"], "a merge went through without its queue"
    assert during["round"] == {"number": before["round"]["number"], "state": "closing", "live": 0, "received": 2}
    assert facts["rounds"] == list(range(2 * 12 // 2 + 1)) and facts["expired"] == 0
