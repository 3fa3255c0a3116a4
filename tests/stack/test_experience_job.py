"""A CartPole job on the real processes: participants are killed, and not a bit is different."""

import json
import time

import pytest

from jobs.services.simulating import Simulation
from tests.stack.model_jobs import Agent, CartPoleJob
from tests.stack.stack import ROOT

ROUNDS = 12
SETTINGS = {
    "epochs": ROUNDS,
    "seed": "20261129",
    "experience": {"unitsPerAssignment": 96},
    "workers": 2,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 3},
}
REST = ("--rest", "0.7", "--workers", "2")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The same job by the same rules in one process: its hashes by round, and what the schedule evaluated."""
    module = ROOT / "reference_models/cartpole/cartpole.wasm"
    chosen = {"localEpochs": 1, "batchSize": 16, "coordinatorParticipates": False, **SETTINGS}
    folder = tmp_path_factory.mktemp("simulated")
    with Simulation(module, folder, settings=chosen, job_seed=20261129, participants=2, device=2) as simulation:
        return list(simulation.run())


def test_a_participant_killed_in_every_third_round_changes_no_bit(stack, simulated):
    """Restarted within its lease it gets its own assignment again, with the same units and the same seed."""
    job = CartPoleJob(stack, **SETTINGS)
    names = [f"{job.id[:8]}-{who}" for who in "ab"]
    agents, kills = {}, 0
    try:
        for count, name in enumerate(names, 1):  # the first to accept plays the first units
            agents[name] = Agent(stack, job.link, name, *REST)
            job.wait_for_participants(count)
        job.start(wanted=2)
        while (at := job.status())["status"] == "running":
            number = at["round"]["number"]
            if number % 3 == 0 and kills < number // 3 and at["round"]["live"]:
                name = names[kills % 2]
                agents[name].kill()
                agents[name] = Agent(stack, job.link, name, *REST)
                kills += 1
            time.sleep(0.02)
        facts = job.wait_until_completed(60)
    finally:
        for agent in agents.values():
            agent.__exit__()
    assert kills == ROUNDS // 3
    assert facts["expired"] == 0
    assert "replaced" in facts["attempts"], "no assignment was interrupted"
    assert facts["sha256"] == [made.sha256 for made in simulated]
    assert [item for _, item in facts["trained"]] == [f"units-{n}-{n + 96}" for n in range(0, ROUNDS * 192, 96)]
    evaluated = [text and json.loads(text)["metrics"] for text in facts["validation"]]
    assert evaluated == [made.evaluation or "" for made in simulated]
    rebuilt = stack.manage("rebuild", job.id, "--all").splitlines()
    assert len(rebuilt) == ROUNDS + 1 and all(": equal (" in line for line in rebuilt), rebuilt
