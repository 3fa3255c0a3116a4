"""Self-play's parts in browsers: a file and snapshots fill the slots of divided assignments, with two Workers each."""

import hashlib

import pytest

from jobs.services.simulating import Simulation
from tests.browser.people import Participant, undisturbed
from tests.models import auxiliary
from tests.stack.model_jobs import ModelJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
SEED, ROUNDS = 20261129, 6
SETTINGS = {"epochs": ROUNDS, "localEpochs": 1, "batchSize": 16, "experience": {"unitsPerAssignment": 7}}
PRESET = {
    "name": "Echo",
    "module": auxiliary.MODULE.name,
    "manifest": auxiliary.PACKAGE.name,
    "files": [auxiliary.REWARD.name],
    "settings": SETTINGS,
}
SPLITS = """
from jobs.models import Slot
answer = sorted(set(Slot.objects.filter(round__job=job_id).values_list("split", flat=True)))
"""


@pytest.fixture
def played(stack, chromium, firefox, workers):
    """The job, what the database says after it, and what Bob's browser fetched for it."""
    for _ in range(3):
        job = ModelJob(stack, auxiliary.FOLDER, PRESET, seed=str(SEED), workers=workers)
        with Participant(chromium, "bob") as bob, Participant(firefox, "carol") as carol:
            for person in (bob, carol):
                person.open(job.link).accept()
            job.start(2)
            facts = job.wait_until_completed(120)
            bob.page.title()  # what the browser has said until now is heard by this answer at the latest
            fetched = [request.rsplit("/", 1)[-1] for request in bob.fetched(f"/bytes/jobs/{job.id}/")]
        if undisturbed(facts):
            return job, facts, fetched
    return pytest.fail("Firefox stood still in three jobs: that is more than its driver's fault")


def test_browsers_fill_the_slots_as_a_simulation_does(stack, workers, played, tmp_path):
    job, facts, fetched = played
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (auxiliary.MODULE, auxiliary.REWARD)]
    # Two rounds ago, never before the first checkpoint. What is held is not fetched again; small weights come inline.
    assert fetched == [*files, *facts["sha256"][: ROUNDS - 2]]
    with Simulation(
        auxiliary.MODULE,
        tmp_path,
        settings={**SETTINGS, "workers": workers, "coordinatorParticipates": False},
        job_seed=SEED,
        participants=2,
        device=2,
        files={"reward": auxiliary.REWARD},
    ) as simulation:
        assert facts["sha256"] == [made.sha256 for made in simulation.run()]
    assert stack.shell(SPLITS, job_id=job.id) == [workers]
