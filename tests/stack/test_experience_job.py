"""A CartPole job on the real processes: participants are killed, and not a bit is different."""

import json
import struct
import time

import pytest

from jobs.services.simulating import Simulation
from tests.models import auxiliary
from tests.stack.model_jobs import Agent, CartPoleJob, ModelJob, preset_of

ROUNDS = 12
SETTINGS = {
    "epochs": ROUNDS,
    "seed": "20261129",
    "experience": {"unitsPerAssignment": 96},
    "workers": 2,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 3},
}
REST = ("--rest", "0.7", "--workers", "2")


def simulate(folder, module, settings, **options):
    seed = int(settings["seed"])
    with Simulation(
        module, folder, settings=settings, job_seed=seed, participants=2, device=2, **options
    ) as simulation:
        return list(simulation.run())


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The same job by the same rules in one process: its hashes by round, and what the schedule evaluated."""
    folder, preset = preset_of("cartpole")
    return simulate(tmp_path_factory.mktemp("simulated"), folder / preset["module"], preset["settings"] | SETTINGS)


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
        end = time.monotonic() + 180
        while (at := job.status())["status"] == "running" and time.monotonic() < end:
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


ECHO = {
    "name": "Echo",
    "module": auxiliary.MODULE.name,
    "manifest": auxiliary.PACKAGE.name,
    "files": [auxiliary.REWARD.name],
    "settings": {
        "epochs": 5,
        "localEpochs": 1,
        "batchSize": 1,
        "workers": 2,
        "seed": "77",
        "coordinatorParticipates": False,
        "validationSchedule": {"enabled": True, "unit": "round", "every": 1},
    },
}


def test_files_and_snapshots_fill_the_slots_of_divided_assignments(stack, tmp_path):
    """Weight 0 of a checkpoint tells its round, so the weights say which checkpoints filled the slots."""
    job = ModelJob(stack, auxiliary.FOLDER, ECHO)
    names = [f"{job.id[:8]}-{who}" for who in "ab"]
    with Agent(stack, job.link, names[0], "--workers", "2"):
        job.wait_for_participants(1)
        with Agent(stack, job.link, names[1], "--workers", "2"):
            job.start(wanted=2)
            facts = job.wait_until_completed(60)
    files = {"reward": auxiliary.REWARD}
    simulated = simulate(tmp_path, auxiliary.MODULE, ECHO["settings"], files=files)
    assert facts["sha256"] == [made.sha256 for made in simulated]
    first = [struct.unpack("<7f", made.weights.read_bytes()) for made in simulated]
    begin, end = first[0], first[-1]
    assert end[0] == begin[0] + 1 + 2 + 3 + 4 + 5
    assert end[4] == begin[4] + 5 * 0.625
    assert end[5] == begin[5] + 5 * begin[0]
    assert end[6] == begin[6] + sum(first[max(0, loaded - 2)][0] for loaded in range(5))
    old = [json.loads(text)["metrics"]["old"] for text in facts["validation"]]
    assert old == pytest.approx([first[max(0, number - 2)][0] for number in range(6)], rel=1e-8)
    rebuilt = stack.manage("rebuild", job.id, "--all").splitlines()
    assert len(rebuilt) == 6 and all(": equal (" in line for line in rebuilt), rebuilt
