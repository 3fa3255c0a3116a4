"""Experience jobs go on from a checkpoint file: rounds, seeds, units and auxiliary files. Covers C31."""

import hashlib

import pytest

from jobs.models import Job
from jobs.services.texts import settings_of
from tests.creation.experience import LOADS, echo, played, reference
from tests.creation.files import exported, file, floats, metadata_of, weights_of
from tests.creation.making import make, refused
from tests.creation.models import DATA, chunk, model, tiny
from tests.creation.training import Peers
from tests.jobs.world import Participant, merge_due, start
from tests.models.auxiliary import REWARD
from weei_core import seeds

pytestmark = pytest.mark.django_db

SAVED = {"jobSeed": "9", "nextUnit": 640}
REWARDS = {"reward": hashlib.sha256(REWARD.read_bytes()).hexdigest()}


def tiny_file(**fields):
    """A checkpoint with the weights of the tiny models, of an experience job unless said otherwise."""
    return file(**{"weights": floats(4), "experience": SAVED, **fields})


def echo_file(**fields):
    return file(**{"weights": floats(7), "experience": SAVED, "auxiliaryWeights": REWARDS, **fields})


def continued(user, body, mode, **options):
    return make(user, **{**played(), "checkpoint": body, "mode": mode, "epochs": 50, "seed": None, **options})


# --- Rounds ---


@pytest.mark.parametrize("mode", ["new", "resume"])
@pytest.mark.parametrize("name", ["epochs", "rounds"])
def test_the_last_round_is_absolute(name, mode, user):
    """C31: from round 397, 398 is one round more."""
    chosen = {"epochs": None, "rounds": None, name: 398}
    job = continued(user, tiny_file(round=397), mode, **chosen)
    assert (job.first_round, job.round_no, settings_of(job).epochs) == (397, 397, 398)
    first = job.checkpoints.get()
    assert (first.round, first.dataset_epoch, first.dataset_progress) == (397, 397, 397)
    member = Participant(job)
    start(job)
    assert member.assignment["round"] == 398
    member.train()
    merge_due(job)
    job.refresh_from_db()
    assert (job.status, job.incomplete, job.checkpoints.count()) == (Job.Status.COMPLETED, False, 2)


def test_397_of_500_trains_103_more(user):
    """C31."""
    job = continued(user, tiny_file(round=397), "resume", epochs=500)
    member = Participant(job)
    start(job)
    trained = []
    while member.assignment:
        trained.append(member.assignment["round"])
        member.train()
        merge_due(job)
    job.refresh_from_db()
    assert (trained, job.status) == (list(range(398, 501)), Job.Status.COMPLETED)


@pytest.mark.parametrize("mode", ["new", "resume"])
@pytest.mark.parametrize("name", ["epochs", "rounds"])
@pytest.mark.parametrize("last", [397, 396, 1, 397.5])
def test_a_last_round_that_is_over_is_refused(last, name, mode, user):
    """C31."""
    options = {**played(), "seed": None, "epochs": None, "rounds": None, name: last}
    draft = refused(user, **options, checkpoint=tiny_file(round=397), mode=mode)
    if last == 397.5:
        assert draft.error_field == f"settings.{name}"
    else:
        assert draft.error_field == "settings.epochs"
        assert draft.error == (
            "settings.epochs must be above 397, the round of the checkpoint, since it is the last round of the job; "
            f"found {last}."
        )


def test_two_names_with_two_values_are_refused(user):
    """C31."""
    options = {**played(), "seed": None, "epochs": 500, "rounds": 400}
    draft = refused(user, **options, checkpoint=tiny_file(round=397), mode="new")
    assert (draft.error_field, "found 500 and 400" in draft.error) == ("settings.epochs", True)
    assert settings_of(continued(user, tiny_file(round=397), "new", epochs=500, rounds=500)).epochs == 500


def test_a_file_may_say_rounds(user):
    """Its own settings, by their old name."""
    assert "rounds" in metadata_of(tiny_file())["settings"]
    assert continued(user, tiny_file(), "resume").first_round == 7


# --- Seed and units ---


def test_resume_goes_on_with_the_files_seed_and_units(user):
    job = continued(user, tiny_file(), "resume")
    assert (job.job_seed, job.next_unit, job.checkpoints.get().next_unit) == ("9", 640, 640)
    members = [Participant(job) for _ in range(2)]
    start(job)
    for member, unit in zip(members, (640, 672), strict=True):
        seed = str(seeds.experience_seed(9, unit))
        assert member.assignment["experience"] == {"seed": seed, "unitStart": unit, "unitCount": 32}


def test_resume_takes_the_files_own_seed_when_it_is_said_again(user):
    assert continued(user, tiny_file(), "resume", seed="9").job_seed == "9"


def test_resume_refuses_another_seed(user):
    draft = refused(user, **{**played(), "epochs": 50, "seed": "8"}, checkpoint=tiny_file(), mode="resume")
    assert draft.error_field == "settings.seed"
    assert draft.error == (
        "settings.seed must be left out or be 9, the job seed that the checkpoint restores; found 8."
    )


def test_resume_refuses_a_seed_of_zero_too(user):
    """0 is a seed, not the absence of one."""
    draft = refused(user, **{**played(), "epochs": 50, "seed": "0"}, checkpoint=tiny_file(), mode="resume")
    assert draft.error_field == "settings.seed"
    zero = tiny_file(experience={"jobSeed": "0", "nextUnit": 0})
    assert continued(user, zero, "resume").job_seed == "0"


def test_new_begins_a_new_sequence(user):
    drawn = [continued(user, tiny_file(), "new") for _ in range(2)]
    assert len({"9", *(job.job_seed for job in drawn)}) == 3
    assert [(job.next_unit, job.checkpoints.get().next_unit) for job in drawn] == [(0, 0)] * 2
    assert continued(user, tiny_file(), "new", seed="8").job_seed == "8"


def test_new_ignores_the_seed_in_the_files_settings(user):
    settings = {**metadata_of(tiny_file())["settings"], "seed": "9"}
    assert continued(user, tiny_file(settings=settings), "new").job_seed != "9"


def not_continued(user, body, mode, **options):
    return refused(user, **{**played(), "checkpoint": body, "mode": mode, "epochs": 50, "seed": None, **options})


def test_a_dataset_checkpoint_starts_an_experience_job_with_new_only(user):
    dataset = tiny_file(experience=None, trainedChunkIds=["c1"], remainingChunkIds=["c2"])
    draft = not_continued(user, dataset, "resume")
    assert draft.error_field == "datasetMode"
    assert draft.error == (
        "To resume, the checkpoint must record the job seed and the next unit (experience); found none. "
        "Continue with datasetMode new."
    )
    job = continued(user, dataset, "new")
    assert (job.first_round, job.next_unit, job.dataset) == (7, 0, None)


def test_an_experience_checkpoint_starts_a_dataset_job_with_new_only(user):
    draft = refused(user, **tiny(model()), checkpoint=tiny_file(), mode="resume")
    assert (draft.error_field, "remainingChunkIds" in draft.error) == ("datasetMode", True)
    job = make(user, **tiny(model()), checkpoint=tiny_file(), mode="new")
    assert (job.job_seed, job.checkpoints.get().next_unit) == ("42", None)


@pytest.mark.parametrize(
    ("saved", "field"),
    [
        ({"jobSeed": "9"}, "experience.nextUnit"),
        ({"nextUnit": 3}, "experience.jobSeed"),
        ({"jobSeed": 9, "nextUnit": 3}, "experience.jobSeed"),
        ({"jobSeed": "9", "nextUnit": 2**52 + 1}, "experience.nextUnit"),
        ({"jobSeed": "9", "nextUnit": 1.5}, "experience.nextUnit"),
        ([], "experience"),
    ],
)
def test_refuses_a_sequence_that_is_none(saved, field, user):
    assert not_continued(user, tiny_file(experience=saved), "resume").error_field == field


# --- Auxiliary files ---


def echoed(user, body, mode, **options):
    return make(user, **{**echo(), "checkpoint": body, "mode": mode, "epochs": 50, "seed": None, **options})


def not_echoed(user, body, mode):
    return refused(user, **{**echo(), "checkpoint": body, "mode": mode, "epochs": 50, "seed": None})


@pytest.mark.parametrize("mode", ["new", "resume"])
def test_goes_on_with_the_files_that_the_checkpoint_records(mode, user):
    """C46: the hash may be written in upper case."""
    assert echoed(user, echo_file(), mode).first_round == 7
    upper = {"reward": REWARDS["reward"].upper()}
    assert echoed(user, echo_file(auxiliaryWeights=upper), mode).first_round == 7


@pytest.mark.parametrize("mode", ["new", "resume"])
@pytest.mark.parametrize(
    ("recorded", "slot", "found"),
    [
        ({"reward": "0" * 64}, "reward", f"{'0' * 64}; found SHA-256 {REWARDS['reward']}."),
        ({**REWARDS, "judge": "0" * 64}, "judge", f"SHA-256 {'0' * 64}; found none."),
        ({"judge": REWARDS["reward"]}, "judge", "found none."),
    ],
    ids=["another file", "one more", "another id"],
)
def test_refuses_other_files_than_the_checkpoint_records(recorded, slot, found, mode, user):
    draft = not_echoed(user, echo_file(auxiliaryWeights=recorded), mode)
    assert (draft.error_code, draft.error_field) == ("other_auxiliary", f"auxiliaryWeights.{slot}")
    assert draft.error.endswith(found), draft.error


def test_a_checkpoint_without_files_starts_a_model_with_some_but_is_not_resumed(user):
    """As a policy trained on a dataset goes on with a reward model beside it."""
    none = echo_file(auxiliaryWeights=None)
    draft = not_echoed(user, none, "resume")
    assert (draft.error_code, "the checkpoint records, none; found" in draft.error) == ("other_auxiliary", True)
    assert echoed(user, none, "new").first_round == 7


@pytest.mark.parametrize("mode", ["new", "resume"])
def test_a_checkpoint_with_files_is_not_continued_without_them(mode, user):
    draft = not_continued(user, tiny_file(auxiliaryWeights=REWARDS), mode)
    assert (draft.error_code, draft.error_field) == ("other_auxiliary", "auxiliaryWeights.reward")


def test_a_dataset_job_too_goes_on_with_its_files_only(user):
    slot = {"id": "reward", "role": "reference", "bytes": 8, "sha256": REWARDS["reward"]}
    info = {"auxiliaryWeights": [slot]}
    made = played(info, chunk(), module=model(info, **LOADS), slots=[{**slot, "fileName": "reward.bin"}])
    made["chunks"] = {"c1.bin": DATA, "reward.bin": REWARD.read_bytes()}
    other = tiny_file(experience=None, auxiliaryWeights={"reward": "0" * 64})
    assert refused(user, **made, checkpoint=other, mode="new").error_code == "other_auxiliary"
    same = tiny_file(experience=None, auxiliaryWeights=REWARDS)
    assert make(user, **made, checkpoint=same, mode="new").first_round == 7


def test_snapshots_are_not_recorded(user):
    assert metadata_of(exported(make(user, **echo())))["auxiliaryWeights"] == REWARDS


# --- The aggregation state ---


@pytest.mark.parametrize(("chosen", "step"), [("fedavgm", 4), ("fedadam", 0), ("fedavg", 0)])
@pytest.mark.parametrize("mode", ["new", "resume"])
def test_the_state_goes_on_with_its_own_method_only(mode, chosen, step, user):
    body = tiny_file(state=floats(4, 2), method="fedavgm")
    first = continued(user, body, mode, aggregation={"method": chosen}).checkpoints.get()
    assert (first.aggregation_step, bool(first.state_id)) == (step, step > 0)


# --- Against the job that was never interrupted ---


MODELS = {"aux-echo": echo, "cartpole": lambda: reference("cartpole"), "bandit": lambda: reference("bandit")}


def interrupted(user, trainer, model, rounds, **options):
    """A job at work after some rounds, and the job that was resumed from its latest checkpoint at that moment."""
    options = {**MODELS[model](), "seed": None, "workers": 2, **options}
    job = make(user, **options)
    peers = Peers(job, trainer, 2, workers=2).start()
    for _ in range(rounds):
        peers.round()
    resumed = make(user, **options, checkpoint=exported(job), mode="resume")
    return peers, Peers(resumed, trainer, 2, workers=2).start()


@pytest.mark.parametrize("model", MODELS)
def test_the_next_assignments_are_those_that_would_have_come(model, user, trainer):
    """But for snapshots: the resumed job's own first checkpoint is the oldest that fills a slot."""
    names = ("round", "chunkId", "experience", "seed", "split", "weights", "data", "settings")
    went_on, resumed = interrupted(user, trainer, model, 3, epochs=9)
    before, after = (
        [[member.assignment[name] for name in names] for member in peers.members] for peers in (went_on, resumed)
    )
    assert after == before
    assert [values[4] for values in after] == [1 if model == "bandit" else 2] * 2


@pytest.mark.db
@pytest.mark.parametrize("method", ["fedavg", "fedadam"])
@pytest.mark.parametrize("model", ["cartpole", "bandit"])
def test_a_resumed_job_ends_with_the_bytes_of_one_that_went_on(model, method, user, trainer):
    """Generated units, and records in the middle of the second pass."""
    options = {"epochs": 5, "learningRate": 0.01, "aggregation": {"method": method}}
    files = [exported(peers.run()) for peers in interrupted(user, trainer, model, 3, **options)]
    assert weights_of(files[0]) == weights_of(files[1])
    assert metadata_of(files[0])["experience"] == metadata_of(files[1])["experience"]


def test_resume_over_records_needs_the_chunk_lists_too(user):
    body = file(weights=floats(15), experience=SAVED)
    draft = refused(user, **reference("bandit"), epochs=50, seed=None, checkpoint=body, mode="resume")
    assert (draft.error_field, "remainingChunkIds" in draft.error) == ("datasetMode", True)


def test_an_exported_file_says_seed_and_next_unit_and_has_no_chunk_lists(user, trainer):
    job = make(user, **echo(), epochs=2)
    Peers(job, trainer, 2).start().run()
    found = metadata_of(exported(job))
    assert found["experience"] == {"jobSeed": "42", "nextUnit": 24}
    assert not {"trainedChunkIds", "remainingChunkIds", "chunkOrder", "remainingWorkItems"} & set(found)
    assert metadata_of(exported(job, 0))["experience"] == {"jobSeed": "42", "nextUnit": 0}


def test_over_records_a_file_says_where_queue_and_units_stand(user, trainer):
    """Two rounds of two chunks are a pass of 200 records; the third round is half of the next."""
    job = make(user, **reference("bandit"), epochs=9, learningRate=1)
    Peers(job, trainer, 2).start().run(3)
    found = [metadata_of(exported(job, number)) for number in range(4)]
    assert [file["experience"]["nextUnit"] for file in found] == [0, 0, 200, 200]
    assert [len(file["remainingChunkIds"]) for file in found] == [4, 2, 0, 2]
