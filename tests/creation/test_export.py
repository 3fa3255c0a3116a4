"""What is exported is what the format says, and loads again. Covers C45, C76, C86 of exports."""

import hashlib
import json
import struct

import pytest

from jobs.models import Job
from jobs.services.export import checkpoint_metadata
from jobs.services.lifecycle import job_finish, job_shuffle
from tests.creation.files import IDS, exported, metadata_of, weights_of
from tests.creation.making import digits, make, small, weights
from tests.creation.models import LOOKS, counting, model, tiny
from tests.creation.training import Peers

pytestmark = pytest.mark.django_db


def continues(user, file, **options):
    """The file loads: a job can be made of it."""
    return make(user, **options, checkpoint=file, mode="new").checkpoints.get()


def test_checkpoint_0(user):
    job = make(user, **small(3))
    first = job.checkpoints.get()
    found = metadata_of(exported(job))
    module = digits("digits.wasm")
    sha256 = hashlib.sha256(module).hexdigest()
    assert found == {
        "version": 1,
        "jobId": str(job.pk),
        "module": {"artifactId": sha256, "fileName": "digits.wasm", "bytes": len(module), "sha256": sha256},
        "modelInfo": json.loads(job.model_info_text),
        "settings": json.loads(job.settings_text),
        "round": 0,
        "checkpoint": {
            "artifactId": first.weights_id,
            "kind": "checkpoint",
            "fileName": "round-0.f32",
            "format": "float32-le",
            "bytes": 9640,
            "sha256": first.weights_id,
            "round": 0,
        },
        "metrics": {"values": {}, "examplesProcessed": 0},
        "incomplete": False,
        "trainedChunkIds": [],
        "remainingChunkIds": IDS[:3],
    }
    assert weights_of(exported(job)) == weights(first)
    assert continues(user, exported(job), **small(3)).weights_id == first.weights_id


def test_in_the_middle_of_a_pass(user, trainer):
    job = make(user, **small(5))
    peers = Peers(job, trainer, 2).start()
    peers.round()
    found = metadata_of(exported(job))
    assert (found["trainedChunkIds"], found["remainingChunkIds"]) == (IDS[:2], IDS[2:5])
    assert found["metrics"]["examplesProcessed"] == 250
    assert set(found["metrics"]["values"]) == {metric["id"] for metric in found["modelInfo"]["metrics"]}
    assert "aggregationState" not in found
    assert continues(user, exported(job), **small(5)).examples_processed == 250


def test_with_the_parts_of_a_cut_chunk(user, trainer):
    job = make(user, **small(1))
    peers = Peers(job, trainer, 2).start()
    peers.members[1].leave()
    peers.round(1)
    found = metadata_of(exported(job))
    name = "train-001@63+62"
    assert (found["trainedChunkIds"], found["remainingChunkIds"]) == ([], [name])
    assert found["remainingWorkItems"] == {
        name: {"partitionId": name, "sourceChunkId": "train-001", "recordStart": 63, "recordCount": 62}
    }
    resumed = make(user, **small(1), checkpoint=exported(job), mode="resume")
    assert metadata_of(exported(resumed)) == {**found, "jobId": str(resumed.pk)}


@pytest.mark.parametrize(("method", "vectors"), [("fedavgm", 1), ("fedadam", 2)])
def test_with_the_state_of_a_method(method, vectors, user, trainer):
    job = make(user, **small(2), aggregation={"method": method})
    Peers(job, trainer, 1).start().run()
    file = exported(job)
    found = metadata_of(file)
    state = file[-9640 * vectors :]
    assert found["version"] == 2
    assert found["aggregationState"] == {
        "method": method,
        "step": 2,
        "bytes": 9640 * vectors,
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    (size,) = struct.unpack_from("<I", file)
    assert len(file) == 4 + size + 9640 * (1 + vectors)
    again = continues(user, file, **small(2), aggregation={"method": method})
    assert (again.aggregation_step, again.state_id) == (2, hashlib.sha256(state).hexdigest())


def test_of_a_finished_job(user, trainer):
    job = Peers(make(user, **small(2)), trainer, 2).start().run()
    found = metadata_of(exported(job))
    assert (found["trainedChunkIds"], found["remainingChunkIds"], found["incomplete"]) == (IDS[:2], [], False)
    assert continues(user, exported(job), **small(2)).round == 1


def test_of_a_job_that_ended_early_says_so_in_its_last(user, trainer):
    job = make(user, **small(4))
    peers = Peers(job, trainer, 1).start()
    peers.run(2)
    job_finish(job)
    peers.round()
    job.refresh_from_db()
    assert job.status == Job.Status.COMPLETED
    last = job.checkpoints.order_by("round").last()
    assert [metadata_of(exported(job, number))["incomplete"] for number in range(last.round + 1)] == [
        *[False] * last.round,
        True,
    ]
    assert continues(user, exported(job), **small(4)).round == last.round


def test_of_a_model_without_metrics(user):
    """C45: `metrics.values {}`."""
    made = tiny(model({**LOOKS, "metrics": []}, **counting(8)))
    job = make(user, **made)
    assert metadata_of(exported(job))["metrics"] == {"values": {}, "examplesProcessed": 0}
    assert continues(user, exported(job), **made).weights_id == job.checkpoints.get().weights_id


def test_keeps_what_the_module_says_beyond_the_schema(user):
    """Unknown fields are kept; numbers are written as JavaScript writes them."""
    job = make(user, **tiny(model({"future": {"rate": 1e-7, "großes": 1.0}})))
    text = checkpoint_metadata(job.checkpoints.get()).decode()
    assert '"future":{"rate":1e-7,"großes":1}' in text


WHOLE_FILE = "44d674cbbe326dfb896f6ecdbba6370b69719b088e9dc5ec313d98689ad66ffe"
"""SHA-256 of the export below. Another build of digits.wasm changes it, since the file names the module."""


@pytest.mark.db
def test_equal_jobs_give_equal_bytes(user, trainer):
    """The whole file but for the job's own id, after a shuffle, parts and a state: the same for a second job, and on
    every database."""
    files = []
    for _ in range(2):
        job = make(user, **small(3), epochs=2, aggregation={"method": "fedadam"})
        peers = Peers(job, trainer, 2).start()
        peers.round()
        job.refresh_from_db()
        job_shuffle(job)
        peers.run(2)
        files.append(exported(job).replace(str(job.pk).encode(), b"0" * 36))
    assert files[0] == files[1]
    found = metadata_of(files[0])
    assert (found["round"], len(found["remainingChunkIds"]), len(found["chunkOrder"])) == (3, 1, 3)
    assert hashlib.sha256(files[0]).hexdigest() == WHOLE_FILE
