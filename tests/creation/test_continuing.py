"""A job goes on from a checkpoint file, `new` and `resume`. Covers C14, C32, C45, F4-F9 where they meet creation."""

import json

import pytest

from checkpoints.models import Checkpoint
from jobs.models import Job, JobEvent
from jobs.services.lifecycle import job_shuffle
from tests.creation.files import IDS, exported, file, floats, metadata_of, weights_of, work_item
from tests.creation.making import digits, make, refused, request, small
from tests.creation.training import Peers

pytestmark = pytest.mark.django_db


def dealt(peers):
    """The items at work."""
    return [member.assignment["chunkId"] for member in peers.members if member.assignment]


def order_of_items(job, trainer, rounds):
    """What one participant gets, round by round."""
    peers = Peers(job, trainer, 1).start()
    seen = []
    for _ in range(rounds):
        seen += [item.removeprefix("train-00") for item in dealt(peers)]
        peers.round()
    return seen


# --- What a file says, by hand ---

SHUFFLED = [IDS[i - 1] for i in (3, 1, 5, 2, 4)]
HALF = {"chunkOrder": SHUFFLED, "trainedChunkIds": SHUFFLED[:2], "remainingChunkIds": SHUFFLED[2:]}


def test_resume_trains_what_is_left_in_its_order(user, trainer):
    """C32: 5,2,4, then a pass in the shuffled order."""
    job = make(user, **small(5), checkpoint=file(**HALF), mode="resume", epochs=2)
    first = job.checkpoints.get()
    assert (first.round, first.dataset_progress, first.remaining_items) == (7, 0.4, 3)
    assert (job.first_round, job.round_no, job.status) == (7, 7, "ready")
    assert order_of_items(job, trainer, 9) == ["5", "2", "4", "3", "1", "5", "2", "4"]
    job.refresh_from_db()
    assert (job.status, job.incomplete) == ("completed", False)
    assert list(job.checkpoints.values_list("round", flat=True)) == list(range(7, 16))


def test_new_trains_everything_in_manifest_order(user, trainer):
    """C32."""
    job = make(user, **small(5), checkpoint=file(**HALF), mode="new")
    assert (job.checkpoints.get().dataset_progress, job.first_round) == (0, 7)
    assert order_of_items(job, trainer, 6) == ["1", "2", "3", "4", "5"]


def test_resume_names_chunks_that_the_manifest_lacks_or_has_more(user):
    """C32."""
    draft = refused(user, **small(4), checkpoint=file(**HALF), mode="resume")
    assert (draft.error_code, draft.error_field) == ("other_chunks", "manifest")
    assert 'missing "train-005"' in draft.error
    draft = refused(user, **small(6), checkpoint=file(**HALF), mode="resume")
    assert 'not in the checkpoint "train-006"' in draft.error
    ids = {"trainedChunkIds": ["a", "b"], "remainingChunkIds": ["c"]}
    draft = refused(user, **small(1), checkpoint=file(**ids), mode="resume")
    assert 'missing "a", "b", "c" and not in the checkpoint "train-001"' in draft.error


def test_resume_needs_the_chunk_lists(user):
    draft = refused(user, **small(1), checkpoint=file(), mode="resume")
    assert (draft.error_field, "remainingChunkIds" in draft.error) == ("datasetMode", True)
    assert make(user, **small(1), checkpoint=file(), mode="new").first_round == 7


@pytest.mark.parametrize("order", [None, SHUFFLED])
def test_an_empty_rest_is_a_whole_pass(order, user, trainer):
    lists = {"chunkOrder": order, "trainedChunkIds": IDS[:5], "remainingChunkIds": []}
    job = make(user, **small(5), checkpoint=file(**lists), mode="resume")
    assert job.checkpoints.get().dataset_progress == 0
    assert order_of_items(job, trainer, 6) == (["3", "1", "5", "2", "4"] if order else ["1", "2", "3", "4", "5"])


def test_parts_wait_in_their_place(user, trainer):
    """A chunk that was lost whole, two parts of a cut one, and one that was never dealt, in the order of the queue."""
    parts = work_item(IDS[2], 10, 20) | work_item(IDS[2], 60, 65)
    lists = {
        "trainedChunkIds": [IDS[1]],
        "remainingChunkIds": [IDS[3], *parts, IDS[0]],
        "remainingWorkItems": parts,
    }
    job = make(user, **small(4), checkpoint=file(**lists), mode="resume")
    first = job.checkpoints.get()
    assert (first.remaining_items, first.dataset_progress) == (4, 0.25)
    assert order_of_items(job, trainer, 5) == ["4", "3@10+20", "3@60+65", "1"]
    lists_again = metadata_of(exported(job, 7))
    assert {name: lists_again[name] for name in lists} == lists


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (
            {"trainedChunkIds": [], "remainingChunkIds": [f"{IDS[0]}@0+200"]}
            | {"remainingWorkItems": work_item(IDS[0], 0, 200)},
            "125 records",
        ),
        (
            {
                "trainedChunkIds": [IDS[0]],
                "remainingChunkIds": [f"{IDS[0]}@0+9"],
                "remainingWorkItems": work_item(IDS[0], 0, 9),
            },
            "not listed whole",
        ),
        (
            {
                "trainedChunkIds": [],
                "remainingChunkIds": [f"{IDS[0]}@0+9", f"{IDS[0]}@8+9"],
                "remainingWorkItems": work_item(IDS[0], 0, 9) | work_item(IDS[0], 8, 9),
            },
            "do not overlap",
        ),
        ({"trainedChunkIds": [], "remainingChunkIds": [f"{IDS[0]}@0+9"]}, 'missing "train-001@0+9"'),
        ({"trainedChunkIds": [IDS[0]]}, "come together"),
        ({"trainedChunkIds": [IDS[0]], "remainingChunkIds": [IDS[0]]}, "overlap"),
        ({"trainedChunkIds": [], "remainingChunkIds": [IDS[0], IDS[0]]}, "once"),
        (
            {"trainedChunkIds": [], "remainingChunkIds": [IDS[0]], "remainingWorkItems": work_item(IDS[0], 0, 9)},
            "remainingChunkIds",
        ),
    ],
)
def test_refuses_lists_that_contradict_themselves(lists, words, user):
    """C45, F8."""
    assert words in refused(user, **small(1), checkpoint=file(**lists), mode="resume").error


def test_parts_need_a_model_that_reads_ranges(user):
    plain = digits("digits.wasm").replace(b'"recordRanges":true', b'"recordRangez":true')
    assert plain != digits("digits.wasm")
    parts = work_item(IDS[0], 0, 9)
    lists = {"trainedChunkIds": [], "remainingChunkIds": list(parts), "remainingWorkItems": parts}
    draft = refused(user, **small(1), module=plain, checkpoint=file(**lists), mode="resume")
    assert "recordRanges" in draft.error


def test_a_chunk_order_of_other_chunks_is_said_and_not_used(user, trainer):
    lists = {**HALF, "chunkOrder": SHUFFLED[:3]}
    job = make(user, **small(5), checkpoint=file(**lists), mode="resume", epochs=2)
    [warning] = json.loads(JobEvent.objects.get(job=job, event="job.created").details_text)["warnings"]
    assert "chunkOrder" in warning
    assert order_of_items(job, trainer, 8)[3:] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 3}, "version"),
        ({"version": True}, "version"),
        ({"round": -1}, "round"),
        ({"round": 1.5}, "round"),
        ({"settings": {}}, "settings"),
        ({"modelInfo": {"id": "x"}}, "modelInfo"),
        ({"metrics": {}}, "metrics"),
        ({"experience": {"jobSeed": "007", "nextUnit": 0}}, "experience.jobSeed"),
        ({"experience": {"jobSeed": "7", "nextUnit": -1}}, "experience.nextUnit"),
        ({"aggregationState": {}}, "aggregationState"),
    ],
)
def test_refuses_metadata_by_field(changed, words, user):
    """F5, F7, F9."""
    draft = refused(user, **small(1), checkpoint=file(**changed), mode="new")
    assert words in draft.error_field or words in draft.error, (draft.error_field, draft.error)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda whole: whole[:3], "metadata length"),
        (lambda whole: b"\xff\xff\xff\xff" + whole[4:], "found 4294967295"),
        (lambda whole: whole[:-1], "9640 of weights"),
        (lambda whole: whole + bytes(4), "9640 of weights"),
        (lambda whole: whole[:-4] + b"\0\0\xc0\x7f", "finite"),
        (lambda whole: whole[:-4] + bytes(4), "SHA-256"),
        (lambda whole: whole.replace(b'"jobId"', b'"job\xff"'), "UTF-8"),
    ],
    ids=["cut in the length", "huge length", "cut", "longer", "NaN", "wrong hash", "no UTF-8"],
)
def test_refuses_a_broken_file(broken, words, user):
    """F4-F6, C37, C39, C40."""
    draft = refused(user, **small(1), checkpoint=broken(file()), mode="new")
    assert words in draft.error


def test_refuses_a_mode_without_a_checkpoint_and_the_reverse(user):
    assert refused(user, **small(1), mode="resume").error_field == "datasetMode"
    made = request(**small(1), checkpoint=file())
    assert refused(user, made).error_field == "datasetMode"
    assert refused(user, {**made, "datasetMode": "again"}).error_field == "datasetMode"


def test_load_model_decides_what_is_compatible(user):
    draft = refused(user, **small(1), checkpoint=file(weights=floats(4)), mode="new")
    assert (draft.error_code, draft.error_field) == ("not_compatible", "checkpoint")
    assert "not compatible" in draft.error


def test_takes_a_module_that_was_built_again(user):
    """Its hash differs from the file's; a custom section changes nothing that it does."""
    again = digits("digits.wasm") + b"\0\5\4more"
    made = {"module": again, "checkpoint": file(module=None), "mode": "new"}
    assert make(user, **small(1), **made).checkpoints.get().round == 7


def test_the_first_checkpoint_is_the_files(user):
    job = make(user, **small(1), checkpoint=file(), mode="new")
    first = job.checkpoints.get()
    assert first.weights_id == metadata_of(file())["checkpoint"]["sha256"]
    assert (json.loads(first.metrics_text), first.examples_processed) == ({"loss": 0.25}, 375)
    ledger = json.loads(first.ledger_text)
    assert ledger["continuedFrom"] == {"jobId": "job-of-somebody-else", "round": 7, "weights": first.weights_id}
    assert "initialSeed" not in ledger


# --- The aggregation state ---


@pytest.mark.parametrize(
    ("method", "vectors", "chosen", "step"),
    [
        ("fedavgm", 1, "fedavgm", 4),
        ("fedadam", 2, "fedadam", 4),
        ("fedavgm", 1, "fedadam", 0),
        ("fedadam", 2, "fedavgm", 0),
        ("fedavgm", 1, "fedavg", 0),
    ],
)
def test_the_state_goes_on_with_its_own_method_only(method, vectors, chosen, step, user):
    """C14."""
    state = floats(2410 * vectors, 2)
    made = file(state=state, method=method)
    first = make(user, **small(1), checkpoint=made, mode="new", aggregation={"method": chosen}).checkpoints.get()
    assert (first.aggregation_step, first.aggregation_method) == (step, chosen if step else "")
    assert (first.state_id if step else None) == (first.state and metadata_of(made)["aggregationState"]["sha256"])


@pytest.mark.parametrize("changes", [{"state": floats(2409)}, {"state": floats(), "method": "fedadam"}])
def test_refuses_a_state_of_another_size(changes, user):
    """F7, C45."""
    assert "aggregationState" in refused(user, **small(1), checkpoint=file(**changes), mode="new").error_field


# --- Seeds ---


@pytest.mark.parametrize("mode", ["new", "resume"])
def test_the_seed_of_the_settings_counts_else_one_is_drawn(mode, user):
    """The file's own belongs to experience jobs."""
    lists = {"trainedChunkIds": [], "remainingChunkIds": IDS[:1], "experience": {"jobSeed": "9", "nextUnit": 3}}
    settings = {
        "settings": {"epochs": 1, "localEpochs": 1, "batchSize": 1, "coordinatorParticipates": True, "seed": "9"}
    }
    made = file(**lists, **settings)
    assert make(user, **small(1), checkpoint=made, mode=mode).job_seed == "42"
    drawn = {make(user, **small(1), checkpoint=made, mode=mode, seed=None).job_seed for _ in range(2)}
    assert len(drawn | {"9", "42"}) == 4


# --- Against the job that was never interrupted ---


def finish(job, trainer, members):
    Peers(job, trainer, members).start().run()
    return weights_of(exported(job))


@pytest.mark.db
@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "fedadam"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_a_resumed_job_ends_with_the_bytes_of_one_that_went_on(method, shuffled, user, trainer):
    options = {**small(5), "epochs": 2, "aggregation": {"method": method}}
    job = make(user, **options)
    peers = Peers(job, trainer, 2).start()
    peers.round()
    if shuffled:
        job.refresh_from_db()
        job_shuffle(job)
    peers.round()
    half = exported(job)
    peers.run()
    resumed = make(user, **options, checkpoint=half, mode="resume")
    assert finish(resumed, trainer, 2) == weights_of(exported(job))
    rounds = [list(j.checkpoints.order_by("round").values_list("round", flat=True)) for j in (job, resumed)]
    assert rounds[0][2:] == rounds[1]


def test_a_resumed_job_goes_on_with_the_parts_of_a_cut_chunk(user, trainer):
    """Three participants cut two chunks; the first trains its part, the others lose theirs."""
    options = {**small(2), "epochs": 2}
    job = make(user, **options)
    peers = Peers(job, trainer, 3).start()
    assert dealt(peers) == ["train-001@0+63", "train-001@63+62", "train-002"]
    for lost in peers.members[1:]:
        lost.leave()
    peers.round(1)
    half = exported(job, 1)
    assert metadata_of(half)["remainingChunkIds"] == ["train-001@63+62", "train-002"]
    peers.members = peers.members[:1]
    peers.run()
    resumed = make(user, **options, checkpoint=half, mode="resume")
    assert finish(resumed, trainer, 1) == weights_of(exported(job))


def test_a_job_continued_twice_keeps_counting(user, trainer):
    job = Peers(make(user, **small(2)), trainer, 1).start().run()
    again = Peers(make(user, **small(2), checkpoint=exported(job), mode="resume"), trainer, 1).start().run()
    rounds = list(Checkpoint.objects.filter(job=again).order_by("round").values_list("round", flat=True))
    assert rounds == [2, 3, 4]
    assert Job.objects.count() == 2
