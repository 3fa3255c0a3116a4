"""A small world for tests of the engine: a job with tiny chunks and weights, and peers that train by arithmetic.

Nothing here runs a module: an update is a function of the assignment, so every test can say what the weights must be.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from datetime import datetime, timedelta

import numpy as np
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Checkpoint, JobArtifact
from checkpoints.services.artifacts import NewArtifact, artifact_put_bytes, artifact_source, job_artifact_add
from jobs.models import Chunk, Dataset, Job, Round
from jobs.selectors.peer_state import assignment_of
from jobs.services import lifecycle, participants
from jobs.services.aggregation import round_merge
from jobs.services.preparing import ready_key
from jobs.services.updates import update_accept
from peers.models import Membership, Peer
from peers.services.invitations import invitation_create
from peers.services.tokens import peer_create
from weei_core import js_json
from weei_core.training_settings import parse_settings

MODEL_INFO = {
    "id": "toy",
    "version": "1",
    "name": "Toy",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 1,
    "dataFormats": [{"id": "toy", "label": "Toy", "acceptedMimeTypes": ["application/octet-stream"]}],
    "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
}
SETTINGS = {"epochs": 1, "localEpochs": 1, "batchSize": 1, "coordinatorParticipates": False, "seed": "7"}


def owner(name="alice"):
    return User.objects.get_or_create(username=name)[0]


def make_job(
    *, chunks=4, records=8, weights=(1.0, -2.0, 0.5, 0.0), info=None, user=None, capabilities=None, **settings
):
    """A ready job with checkpoint 0. `settings` go over the defaults; `capabilities` into ModelInfo."""
    now = timezone.now()
    info = {**MODEL_INFO, **(info or {}), **({"capabilities": capabilities} if capabilities else {})}
    start = artifact_put_bytes(np.asarray(weights, "<f4").tobytes(), now)
    module = artifact_put_bytes(b"\0asm" + uuid.uuid4().bytes, now)
    dataset = Dataset.objects.create(manifest_text="[]", count=chunks, bytes=chunks * 8, examples=chunks * records)
    for index in range(chunks):
        data = artifact_put_bytes(f"chunk {index} of {dataset.pk}".encode(), now)
        Chunk.objects.create(
            dataset=dataset,
            index=index,
            chunk_id=f"c{index + 1}",
            file_name=f"c{index + 1}.bin",
            artifact=data,
            bytes=data.bytes,
            format="toy",
            example_count=records,
            first_example=index * records,
        )
    chosen = parse_settings({**SETTINGS, **settings}, for_experience=False)
    job = Job.objects.create(
        owner=user or owner(),
        name="Toy job",
        module=module,
        module_file_name="toy.wasm",
        model_id="toy",
        model_name="Toy",
        model_info_text=json.dumps(info),
        ready_key=ready_key(module.sha256, {}),
        weight_bytes=start.bytes,
        settings_text=chosen.text,
        job_seed=chosen.seed or "7",
        dataset=dataset,
    )
    job_artifact_add(job, module.sha256, JobArtifact.Kind.MODULE, "toy.wasm")
    job_artifact_add(job, start.sha256, JobArtifact.Kind.WEIGHTS, "")
    for chunk in dataset.chunks.all():
        job_artifact_add(job, chunk.artifact_id, JobArtifact.Kind.CHUNK, chunk.file_name)
    Checkpoint.objects.create(
        job=job,
        round=0,
        weights=start,
        progress_text='{"pass":0,"cursor":0,"requeued":[]}',
        settings_text=chosen.text,
        ledger_text="{}",
        remaining_items=chunks,
        created=now,
    )
    return job


class Participant:
    """A fake peer. `train` answers its assignment with weights that depend on nothing but the assignment."""

    def __init__(self, job: Job, *, ready: bool = True):
        self.job = job
        self.peer, self.token = peer_create()
        _, url = invitation_create(job)
        participants.invitation_open(self.peer, url.rstrip("/").split("/")[-1], timezone.now())
        participants.invitation_decide(self.peer, job.pk, True, timezone.now())
        participants.peer_hello(self.peer, train=True, session=None, attempt_id=None, now=timezone.now())
        if ready:
            self.ready()

    def ready(self):
        participants.participant_ready(self.peer, self.job.pk, self.job.module_id, {})

    @property
    def membership(self) -> Membership:
        return Membership.objects.get(peer=self.peer, job=self.job)

    @property
    def assignment(self) -> dict | None:
        self.peer.refresh_from_db()
        return assignment_of(self.peer, timezone.now())

    def seen(self, at: datetime):
        Peer.objects.filter(pk=self.peer.pk).update(seen_at=at, lease_until=at + timedelta(seconds=30))

    def train(self, **report) -> bool:
        """Train the current assignment and upload; returns whether it was a duplicate."""
        return self.upload(self.assignment, **report)

    def upload(self, assignment: dict, *, weights: bytes | None = None, **report) -> bool:
        body = trained(assignment) if weights is None else weights
        text = js_json.dumps(
            {
                "round": assignment["round"],
                "examplesProcessed": assignment["exampleCount"],
                "uniqueExamples": assignment["exampleCount"],
                "metrics": {"loss": 0.5},
                **report,
            }
        )
        new = NewArtifact(hashlib.sha256(body).hexdigest(), body)
        return update_accept(
            peer=self.peer, attempt_id=uuid.UUID(assignment["attemptId"]), artifact=new, report_text=text
        )


def trained(assignment: dict) -> bytes:
    """The weights after an assignment: the start plus small steps drawn from the assignment's own seed."""
    start = np.frombuffer(base64.b64decode(assignment["weights"]["inline"]), "<f4")
    step = np.random.default_rng(int(assignment["seed"])).normal(size=start.size) * 0.125
    return (start + step).astype("<f4").tobytes()


def start(job: Job):
    job.refresh_from_db()
    lifecycle.job_start(job)
    job.refresh_from_db()


def merge_due(job: Job) -> int:
    """Run what Celery would: merge every closing round of the job. Returns how many there were."""
    due = list(Round.objects.filter(job=job, state=Round.State.CLOSING).values_list("pk", flat=True))
    for round_id in due:
        round_merge(round_id)
    job.refresh_from_db()
    return len(due)


def run_to_end(job: Job, members: list[Participant], most=500):
    """Let everybody train until the job is completed; asserts that it ends."""
    for _ in range(most):
        for member in members:
            if member.assignment:
                member.train()
        merge_due(job)
        if job.status == Job.Status.COMPLETED:
            return
    raise AssertionError(f"the job did not end: {job.status}, round {job.round_no}")


def weights_of(job: Job, round_no: int | None = None) -> np.ndarray:
    found = Checkpoint.objects.filter(job=job).order_by("round")
    checkpoint = found.last() if round_no is None else found.get(round=round_no)
    source = artifact_source(checkpoint.weights_id)
    buffer = bytearray(source.size)
    source.readinto(0, memoryview(buffer))
    return np.frombuffer(bytes(buffer), "<f4")


