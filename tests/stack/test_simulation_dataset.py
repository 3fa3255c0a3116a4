"""A dataset job on the real processes, against the same job by the same rules in one process: not a bit differs."""

import json

import pytest

from jobs.services.simulated_work import ChunkFile
from jobs.services.simulating import Simulation
from tests.stack.model_jobs import Agent, DigitsJob, preset_of

SETTINGS = {
    "epochs": 2,
    "localEpochs": 1,
    "seed": "20261130",
    "validationSchedule": {"enabled": True, "unit": "round", "every": 3},
    "aggregation": {"method": "fedavgm", "momentum": 0.5},
}
PARTICIPANTS = 2

METADATA = """
from checkpoints.models import Checkpoint
from jobs.services.export import checkpoint_metadata
answer = checkpoint_metadata(Checkpoint.objects.get(job_id=job_id, round=number)).decode()
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder, preset = preset_of("digits")
    data = folder / "data"
    chunks = [
        ChunkFile(entry["id"], data / entry["fileName"], entry["format"], entry["exampleCount"])
        for entry in json.loads((data / "manifest.json").read_text())
    ]
    validation = ChunkFile("validation", data / "validation.bin", chunks[0].format, 297)
    with Simulation(
        folder / preset["module"],
        tmp_path_factory.mktemp("simulated"),
        settings={**preset["settings"], "coordinatorParticipates": False, **SETTINGS},
        job_seed=int(SETTINGS["seed"]),
        participants=PARTICIPANTS,
        chunks=chunks,
        validation=validation,
        processes=2,
    ) as simulation:
        return list(simulation.run())


def test_a_networked_job_makes_the_simulated_checkpoints(stack, simulated, tmp_path):
    job = DigitsJob(stack, **SETTINGS)
    names = [f"{job.id[:8]}-{who}" for who in "ab"]
    with Agent(stack, job.link, names[0]):
        job.wait_for_participants(1)
        with Agent(stack, job.link, names[1]):
            job.start(wanted=PARTICIPANTS)
            facts = job.wait_until_completed(120)
    assert len(simulated) == 1 + 2 * 6
    assert facts["expired"] == 0
    assert facts["sha256"] == [made.sha256 for made in simulated]
    evaluated = [text and json.loads(text)["metrics"] for text in facts["validation"]]
    assert evaluated == [made.evaluation or "" for made in simulated]

    told = stack.manage("simulate", job.id, "--participants", str(PARTICIPANTS), "--json", "--out", str(tmp_path))
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["sha256"] for line in lines if line["event"] == "checkpoint"] == facts["sha256"]
    metadata = stack.shell(METADATA, job_id=job.id, number=12).encode()
    weights, state = simulated[-1].weights.read_bytes(), simulated[-1].state.read_bytes()
    file = (tmp_path / "round-12.weei-checkpoint").read_bytes()
    assert file == len(metadata).to_bytes(4, "little") + metadata + weights + state
