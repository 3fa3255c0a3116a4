"""Every process is killed five times during a job; the job goes on by itself and not a bit is different."""

import random

from tests.stack.model_jobs import Agent, DigitsJob
from tests.stack.stack import SERVICES

PASSES = 6
ROUNDS = PASSES * 12 // 2
KILLS = 5
SETTINGS = {
    "epochs": PASSES,
    "seed": "20261129",
    "validationSchedule": {"enabled": True, "unit": "round", "every": 6},
}


def run(stack, disturb, *options, seconds):
    job = DigitsJob(stack, **SETTINGS)
    name = job.id[:8]
    with Agent(stack, job.link, f"{name}-a", *options), Agent(stack, job.link, f"{name}-b", *options):
        job.start(wanted=2)
        disturb(job)
        return job, job.wait_until_completed(seconds)


def kill_everything(stack, job, kills):
    """One after the other in changing order, as soon as the last one is back; then a round must come through."""
    order = random.Random(KILLS)
    for _ in range(KILLS):
        for name in order.sample(SERVICES, len(SERVICES)):
            old = stack.kill(name)
            stack.wait_for_restart(name, old)
            kills.append(name)
        assert job.status()["status"] == "running", "the job ended before the last kill; make it longer"
        job.wait_for_round(job.status()["checkpoints"] + 1, 60)


def test_twenty_kills_leave_one_checkpoint_per_round_and_the_same_bytes(stack):
    """S1, S2, S5, S6; I1, I2, I4, I6, I9."""
    _, calm = run(stack, lambda job: None, seconds=120)
    kills = []
    job, facts = run(stack, lambda job: kill_everything(stack, job, kills), "--rest", "0.7", seconds=240)
    assert len(kills) == KILLS * len(SERVICES)
    assert facts["expired"] == 0, "a lease ended, so the two runs cannot be compared"
    assert facts["rounds"] == calm["rounds"] == list(range(ROUNDS + 1))
    assert facts["sha256"] == calm["sha256"]
    assert facts["validation"] == calm["validation"]
    assert [bool(text) for text in facts["validation"]].count(True) >= PASSES
    everything = {chunk for _, chunk in facts["trained"]}
    assert len(facts["trained"]) == PASSES * 12 and len(everything) == 12
    assert len({tuple(item) for item in facts["trained"]}) == PASSES * 12
    rebuilt = stack.manage("rebuild", job.id, "--all").splitlines()
    assert len(rebuilt) == ROUNDS + 1 and all(": equal (" in line for line in rebuilt), rebuilt
