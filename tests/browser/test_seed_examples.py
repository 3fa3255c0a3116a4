"""The founding text's examples run as they stand on a page of our own origin (test_other_origin.py: on another)."""

import pytest

from tests.browser.own_page import OwnPage
from tests.browser.people import CHUNKS, DIGITS, Coordinator, Participant

pytestmark = pytest.mark.usefixtures("nobody_complains")
CARTPOLE = DIGITS.parent / "cartpole"
ROUNDS = 36
FILES = {
    "wasmInput": [DIGITS / "digits.wasm"],
    "manifestInput": [DIGITS / "data/manifest.json"],
    "datasetInput": CHUNKS,
}
WATCH = """() => {
  window.tables = [];
  console.table = (rows) => window.tables.push(...rows);
}"""
INPUTS = "{ wasmInput, manifestInput, datasetInput }"


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def mine(stack, alice):
    return OwnPage(alice, stack)


def choose(mine):
    for field, files in FILES.items():
        mine.page.locator(f"#{field}").set_input_files(files)


@pytest.fixture(scope="module")
def job(stack, mine, alice):
    """The job of the example, which has begun."""
    lines = []
    alice.page.on("console", lambda message: lines.append(message.text))
    choose(mine)
    mine.call(f"async () => void (await examples.runAJob({INPUTS}))")
    state = mine.call("training.getState()")
    assert (state["job"]["status"], state["job"]["role"], state["job"]["owner"]) == (
        "running",
        "coordinator",
        state["myPeerId"],
    )
    mine.wait("s.job.checkpoints.length > 2", 60)
    assert any(line.startswith("running 0 / 3") and state["myPeerId"] in line for line in lines), lines[-3:]
    return state["job"]["id"]


def test_a_job_is_run_and_its_method_switched(mine, job):
    mine.call("training.pause()")
    mine.call("examples.switchToFedAvgM({ training })")
    chosen = mine.call("training.getState().job.settings.aggregation")
    assert (chosen["method"], chosen["momentum"]) == ("fedavgm", 0.9)
    made = mine.call("training.getState().job.checkpoints.length")
    mine.call(WATCH)
    mine.call("async () => void (await examples.compareParticipants())")
    mine.call("training.resume()")
    mine.wait("s.job.checkpoints.at(-1).aggregation", 60)
    mine.wait("s.job.status === 'completed' && s.job.checkpoints.length === argument", 120, ROUNDS + 1)
    state = mine.call("training.getState()")
    rounds = [checkpoint["artifact"]["round"] for checkpoint in state["job"]["checkpoints"]]
    assert rounds == list(range(ROUNDS + 1))
    assert state["job"]["checkpoints"][-1]["aggregation"]["method"] == "fedavgm"
    assert "aggregation" not in state["job"]["checkpoints"][made - 2]
    assert (state["job"]["progress"]["datasetEpoch"], state["job"]["queue"], state["job"]["incomplete"]) == (
        3,
        [],
        False,
    )
    assert [len(c["remaining"]) for c in state["job"]["checkpoints"][:13]] == list(range(12, -1, -1))


def test_participants_were_compared(mine, job):
    """The table of the example, while the job ran."""
    rows = mine.call("window.tables")
    trained = [row for row in rows if row["mode"] == "cpu"]
    assert trained and {row["fresh"] for row in trained} == {"live"}
    me = mine.call("training.getState().myPeerId")
    assert {row["peer"] for row in rows} == {me} and trained[0]["browser"].startswith("Chrom")
    assert {(row["batch"], row["examples"]) for row in trained if row["batch"] != "—"} == {(32, 125)}


def test_a_checkpoint_is_read_outside_weei(mine, job):
    found = mine.call(
        """async () => {
          const { metadata, weights, state } = await examples.readCheckpoint(await training.exportCheckpoint());
          return { metadata, weights: weights.length, state: state.length, finite: weights.every(Number.isFinite) };
        }"""
    )
    latest = mine.call("training.getState().job.checkpoints.at(-1)")
    metadata = found["metadata"]
    assert (metadata["version"], metadata["round"], metadata["jobId"]) == (2, ROUNDS, job)
    assert metadata["checkpoint"]["sha256"] == latest["artifact"]["sha256"]
    assert found["weights"] == found["state"] == latest["artifact"]["bytes"] / 4 and found["finite"]


def test_a_job_goes_on_from_a_checkpoint(mine, job):
    choose(mine)
    mine.call(
        """() => examples.continueFromACheckpoint({
          training, manifest: manifestInput.files[0], files: [...datasetInput.files],
          settings: { epochs: 1, localEpochs: 1, batchSize: 32, coordinatorParticipates: true },
        })"""
    )
    state = mine.call("training.getState()")
    assert state["job"]["id"] != job and state["job"]["status"] == "ready"
    assert [c["artifact"]["round"] for c in state["job"]["checkpoints"]] == [ROUNDS]
    saved = mine.call("training.listSavedJobs()")
    assert {found["id"] for found in saved} >= {job, state["job"]["id"]}
    mine.call("training.leave()")


def test_an_experience_job_is_created(mine, stack):
    mine.page.locator("#wasmInput").set_input_files([CARTPOLE / "cartpole.wasm"])
    mine.page.locator("#manifestInput").set_input_files([CARTPOLE / "data/package.json"])
    mine.call(
        """() => examples.createAnExperienceJob({
          training, modelFile: wasmInput.files[0], packageManifestFile: manifestInput.files[0],
        })"""
    )
    mine.call("training.start()")
    mine.wait("s.job.checkpoints.length > 2", 60)
    job = mine.call("training.getState().job")
    assert job["info"]["workSource"]["unit"]["id"] == "episode" and job["progress"]["plannedEpochs"] == 30
    assert job["checkpoints"][2]["nextUnit"] == 64 and job["checkpoints"][2]["remaining"] == []
    # What is at work when a job is finished or left would be refused, which the browser complains about.
    mine.call("training.pause()")
    mine.wait("s.job.slots.every((slot) => slot.status === 'received')", 60)
    mine.call("training.finish()")
    mine.wait("s.job.status === 'completed'", 60)
    mine.call("training.leave()")
    assert mine.call("training.getState().job") is None


def test_a_guest_that_is_online_is_invited_by_the_example_and_seen_by_both(mine, stack, chromium):
    """`peers`, `invitations`, `progress` and `liveMetrics` with two browsers."""
    choose(mine)
    mine.call(
        """() => training.createJob({
          wasm: wasmInput.files[0], manifest: manifestInput.files[0], files: [...datasetInput.files],
          settings: { epochs: 200, localEpochs: 2000, batchSize: 32, coordinatorParticipates: true },
        })"""
    )
    link = mine.call("training.createInvitation()")["url"]
    with Participant(chromium, "bob") as bob:
        his = OwnPage(bob, stack)
        his.call("(token) => training.openInvitation(token)", link.rstrip("/").rsplit("/", 1)[-1])
        (entry,) = his.wait("s.invitations.length ? s.invitations : null")
        assert entry[1]["invitation"]["owner"] == mine.call("training.getState().myPeerId")
        his.call("(id) => training.decideInvitation(id, true)", entry[0])
        me = his.call("training.getState().myPeerId")
        mine.call("training.start()")
        mine.wait("s.peers.includes(argument)", 60, me)
        mine.wait("s.progress[argument]?.processedExamples > 0", 60, me)
        mine.wait("s.liveMetrics[argument]?.length > 1", 60, me)
        participant = his.wait("s.job?.slots.length ? s.job : null", 60)
        assert participant["role"] == "participant" and set(participant["participants"]) == {me}
        refused = his.call("training.start().then(() => null, (error) => error.message)")
        assert "Only the coordinator may do this" in refused
        his.open()
        his.wait("s.job?.id === argument && s.participation.stage === 'training'", 60, entry[0])
        mine.open()
        mine.wait("s.job?.role === 'coordinator' && s.job.participants[argument].connected", 60, me)
        his.call("training.leave()")
    mine.call("training.pauseContribution()")
    mine.call("training.finish()")
    mine.call("training.leave()")
