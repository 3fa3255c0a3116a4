"""Every process is killed five times during a job; the job goes on by itself and not a bit is different."""

import pytest

from tests.stack.digits import Agent, DigitsJob
from tests.stack.stack import SERVICES, Stack

PASSES = 12
KILLS = 5


@pytest.fixture(scope="module")
def stack():
    with Stack() as running:
        yield running


def run(stack, disturb, *options, seconds):
    job = DigitsJob(
        stack, epochs=PASSES, seed="20261129", validationSchedule={"enabled": False, "unit": "round", "every": 1}
    )
    name = job.id[:8]
    with Agent(stack, job.link, f"{name}-a", *options), Agent(stack, job.link, f"{name}-b", *options):
        job.start(wanted=2)
        disturb(job)
        return job, job.wait_until_completed(seconds)


def test_twenty_kills_leave_one_checkpoint_per_round_and_the_same_bytes(stack):
    """S1, S2, S5, S6; I1, I2, I4, I6, I9."""
    _, calm = run(stack, lambda job: None, seconds=120)
    kills = []

    def kill_everything(job):
        for _ in range(KILLS):
            for name in SERVICES:
                old = stack.kill(name)
                stack.wait_for_restart(name, old)
                kills.append(name)
        assert job.facts()["status"] == "running", "the job ended before the last kill; make it longer"

    job, facts = run(stack, kill_everything, "--rest", "1.5", seconds=240)
    assert len(kills) == KILLS * len(SERVICES)
    assert facts["expired"] == 0, "a lease ended, so the two runs cannot be compared"
    assert facts["rounds"] == list(range(PASSES * 12 // 2 + 1))
    assert facts["sha256"] == calm["sha256"]
    everything = {chunk for _, chunk in facts["trained"]}
    assert len(facts["trained"]) == PASSES * 12 and len(everything) == 12
    rebuilt = stack.manage("rebuild", job.id, "--all")
    assert rebuilt.count("equal") >= len(facts["rounds"]), rebuilt
