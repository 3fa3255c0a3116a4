"""A small world for tests of the engine: a job with tiny chunks and weights, and peers that train by arithmetic.

Nothing here runs a module: an update is a function of the assignment, so every test can say what the weights must be.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections import defaultdict
from datetime import datetime, timedelta

import numpy as np
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import NewArtifact, artifact_put_bytes, artifact_source, job_artifact_add
from jobs.domain.progress import chunk_lists, progress_from
from jobs.models import Attempt, Chunk, Dataset, Job, Requeued, Round, Slot
from jobs.selectors.peer_state import assignment_of
from jobs.services import lifecycle, participants
from jobs.services.aggregation import round_merge
from jobs.services.auxiliary import file_slots
from jobs.services.dealing import order_of
from jobs.services.preparing import ready_key
from jobs.services.texts import info_of
from jobs.services.updates import attempt_failed, update_accept
from peers.models import Membership, Peer
from peers.services.invitations import invitation_create
from peers.services.tokens import peer_create
from weei_core import js_json
from weei_core.model_info import parse_model_info
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
WORK_SOURCE = {
    "kind": "experience",
    "inputs": "none",
    "unit": {"id": "episode", "label": "Episodes"},
    "unitsPerAssignment": {"default": 8, "minimum": 1, "maximum": 64},
    "evaluationUnits": 4,
}
SETTINGS = {"epochs": 1, "localEpochs": 1, "batchSize": 1, "coordinatorParticipates": False, "seed": "7"}


def owner(name="alice"):
    return User.objects.get_or_create(username=name)[0]


def make_job(
    *,
    chunks=4,
    records=8,
    weights=(1.0, -2.0, 0.5, 0.0),
    info=None,
    user=None,
    capabilities=None,
    validation=False,
    files=(),
    **settings,
):
    """A ready job with checkpoint 0. `settings` go over the defaults; `capabilities` into ModelInfo; `records` is the
    number of every chunk, or one number for each; without chunks the job has no dataset. `files` fill auxiliary slots
    that `info` declares by hash."""
    if validation:
        capabilities = {"evaluation": True, **(capabilities or {})}
    counts = [records] * chunks if isinstance(records, int) else list(records)
    now = timezone.now()
    info = {**MODEL_INFO, **(info or {}), **({"capabilities": capabilities} if capabilities else {})}
    start = artifact_put_bytes(np.asarray(weights, "<f4").tobytes(), now)
    module = artifact_put_bytes(b"\0asm" + uuid.uuid4().bytes, now)
    dataset, stored = _dataset(counts, now) if counts else (None, [])
    read = parse_model_info(json.dumps(info).encode())
    chosen = parse_settings(
        {**SETTINGS, **settings}, for_experience=read.is_experience, info=read if read.is_experience else None
    )
    job = Job.objects.create(
        owner=user or owner(),
        name="Toy job",
        module=module,
        module_file_name="toy.wasm",
        model_id="toy",
        model_name="Toy",
        model_info_text=json.dumps(info),
        ready_key=ready_key(module.sha256, file_slots(read)),
        weight_bytes=start.bytes,
        settings_text=chosen.text,
        job_seed=chosen.seed or "7",
        dataset=dataset,
        validation_file=artifact_put_bytes(b"held out", now) if validation else None,
        validation_format="toy" if validation else "",
    )
    job_artifact_add(job, module.sha256, JobArtifact.Kind.MODULE, "toy.wasm")
    job_artifact_add(job, start.sha256, JobArtifact.Kind.WEIGHTS, "")
    JobArtifact.objects.bulk_create(
        JobArtifact(job=job, artifact=data, kind=JobArtifact.Kind.CHUNK, file_name=f"c{index + 1}.bin")
        for index, data in enumerate(stored)
    )
    for index, body in enumerate(files):
        stored_file = artifact_put_bytes(body, now)
        job_artifact_add(job, stored_file.sha256, JobArtifact.Kind.AUXILIARY, f"auxiliary-{index}.bin")
    Checkpoint.objects.create(
        job=job,
        round=0,
        weights=start,
        progress_text='{"pass":0,"cursor":0,"requeued":[]}',
        settings_text=chosen.text,
        ledger_text="{}",
        remaining_items=len(counts),
        next_unit=0 if read.is_experience else None,
        created=now,
    )
    return job


def _dataset(counts, now):
    chunks = len(counts)
    dataset = Dataset.objects.create(manifest_text="[]", count=chunks, bytes=chunks * 8, examples=sum(counts))
    bodies = [f"chunk {index} of {dataset.pk}".encode() for index in range(chunks)]
    stored = [Artifact(sha256=hashlib.sha256(b).hexdigest(), bytes=len(b), body=b, touched=now) for b in bodies]
    Artifact.objects.bulk_create(stored)
    Chunk.objects.bulk_create(
        Chunk(
            dataset=dataset,
            index=index,
            chunk_id=f"c{index + 1}",
            file_name=f"c{index + 1}.bin",
            artifact=data,
            bytes=data.bytes,
            format="toy",
            example_count=counts[index],
            first_example=sum(counts[:index]),
        )
        for index, data in enumerate(stored)
    )
    return dataset, stored


def make_experience_job(*, epochs=3, inputs="none", info=None, source=None, **options):
    """An experience job of `epochs` rounds; with `inputs` "dataset" over the records of `make_job`'s chunks."""
    work = {"workSource": {**WORK_SOURCE, "inputs": inputs, **(source or {})}}
    if inputs == "none":
        options |= {"chunks": 0, "records": 0}
    return make_job(info={**work, **(info or {})}, epochs=epochs, **options)


def open_link(peer: Peer, job: Job, **options) -> None:
    """The peer opens a new invitation link of the job."""
    _, url = invitation_create(job, **options)
    participants.invitation_open(peer, url.rstrip("/").split("/")[-1], timezone.now())


def hello(peer: Peer, *, attempt=None, session=None) -> bool:
    peer.refresh_from_db()
    return participants.peer_hello(peer, train=True, session=session, attempt_id=attempt, now=timezone.now())


class Participant:
    """A fake peer. `train` answers its assignment with weights that depend on nothing but the assignment."""

    def __init__(self, job: Job, *, ready: bool = True, workers: int = 1):
        self.job, self.workers = job, workers
        self.peer, self.token = peer_create()
        open_link(self.peer, job)
        participants.invitation_decide(self.peer, job.pk, True, timezone.now())
        hello(self.peer)
        if ready:
            self.ready()

    def ready(self):
        files = file_slots(info_of(self.job))
        participants.participant_ready(self.peer, self.job.pk, self.job.module_id, files, workers=self.workers)

    @property
    def membership(self) -> Membership:
        return Membership.objects.get(peer=self.peer, job=self.job)

    @property
    def assignment(self) -> dict | None:
        self.peer.refresh_from_db()
        return assignment_of(self.peer, timezone.now())

    @property
    def attempt(self) -> Attempt:
        return Attempt.objects.select_related("slot__round").get(pk=self.assignment["attemptId"])

    @property
    def item(self) -> str | None:
        """The id of what it works on."""
        found = self.assignment
        return found["chunkId"] if found else None

    def fail(self, reason="it trapped", assignment: dict | None = None):
        """Its assignment ends in an error; `assignment`, where it was read before."""
        found = assignment or self.assignment
        attempt_failed(peer=self.peer, attempt_id=uuid.UUID(found["attemptId"]), reason=reason)

    def lost(self):
        """Its lease ended a moment ago; nothing has noticed yet."""
        self.seen(timezone.now() - timedelta(seconds=31))

    def leave(self):
        participants.participant_leave(self.peer, self.job.pk)

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
    """The weights after an assignment: the start plus small steps that follow from the assignment's own seed."""
    start = np.frombuffer(base64.b64decode(assignment["weights"]["inline"]), "<f4")
    seen = assignment["seed"] + "".join(slot["sha256"] for slot in assignment["auxiliary"])
    noise = np.frombuffer(hashlib.sha256(seen.encode()).digest(), "u1")
    return (start + (np.resize(noise, start.size) / 1024 - 0.125)).astype("<f4").tobytes()


def floats(*values: float) -> bytes:
    return np.asarray(values, "<f4").tobytes()


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
    return np.frombuffer(artifact_body(checkpoint.weights_id), "<f4")


def received_items(job: Job) -> dict[int, list[str]]:
    """Chunk ids of the accepted slots by pass."""
    by_pass = defaultdict(list)
    for slot in Slot.objects.filter(round__job=job, status="received").select_related("round", "chunk"):
        by_pass[slot.round.pass_no].append(slot.chunk.chunk_id)
    return dict(by_pass)


def checkpoint_lists(checkpoint: Checkpoint):
    """Trained and remaining ids as an exported file has them."""
    dataset = checkpoint.job.dataset
    ids = dict(dataset.chunks.values_list("index", "chunk_id"))
    return chunk_lists(progress_from(checkpoint.progress_text), order_of(checkpoint.pass_order, dataset.count), ids)


def assert_invariants(job: Job):
    """I1 to I5 and I10, and that the counters of the round at work are what its rows say."""
    job.refresh_from_db()
    checkpoints = list(Checkpoint.objects.filter(job=job).order_by("round"))
    rounds = list(Round.objects.filter(job=job).order_by("number"))
    slots = list(Slot.objects.filter(round__job=job).select_related("round", "chunk"))
    attempts = list(Attempt.objects.filter(slot__round__job=job).select_related("slot"))
    _check_rounds(job, checkpoints, rounds)
    _check_bytes(checkpoints)
    _check_counters(job, rounds, attempts)
    _check_updates(checkpoints, rounds, attempts)
    if job.dataset is None:
        _check_units(job, slots, checkpoints)
    else:
        _check_cover(job, slots)
    seeds = defaultdict(set)
    for slot in slots:
        seeds[slot.round_id, slot.chunk_id, slot.record_start].add(slot.seed)
    assert all(len(found) == 1 for found in seeds.values()), "I5: another try has another seed"


def _check_rounds(job, checkpoints, rounds):
    numbers = [c.round for c in checkpoints]
    assert numbers == list(range(job.first_round, job.first_round + len(checkpoints))), f"I1: checkpoints {numbers}"
    done = [r.number for r in rounds if r.state == Round.State.DONE]
    assert done == numbers[1:], f"I1: rounds done {done}, checkpoints {numbers}"
    assert len(rounds) - len(done) <= 1, "more than one round is at work"


def _check_bytes(checkpoints):
    for checkpoint in checkpoints:
        for sha256 in filter(None, [checkpoint.weights_id, checkpoint.state_id]):
            body = artifact_body(sha256)
            assert hashlib.sha256(body).hexdigest() == sha256, "I2"
            assert np.isfinite(np.frombuffer(body, "<f4")).all(), "I2"


def _check_counters(job, rounds, attempts):
    live = [a for a in attempts if a.state == Attempt.State.LIVE]
    assert len({a.peer_id for a in live}) == len(live)
    for at in rounds:
        mine = [a for a in attempts if a.slot.round_id == at.pk]
        assert at.live == sum(a.state == Attempt.State.LIVE for a in mine), f"round {at.number}: live"
        assert at.received == sum(a.state == Attempt.State.RECEIVED and a.unique_examples > 0 for a in mine)
        assert at.live == 0 or at.state == Round.State.OPEN
        assert not (at.state == Round.State.OPEN and at.live == 0 and at.received), "a full round is open"
    assert not (job.status == Job.Status.COMPLETED and live)


def _check_updates(checkpoints, rounds, attempts):
    """I3: accepted on the round's own start, once per slot. I10: accepted means in the ledger, or discarded there."""
    weights = {c.round: c.weights_id for c in checkpoints}
    ledgers = {c.round: json.loads(c.ledger_text) for c in checkpoints}
    for at in rounds:
        assert at.start_weights == weights[at.number - 1], "I3: another start"
        mine = [a for a in attempts if a.slot.round_id == at.pk]
        kept = [a for a in mine if a.state == Attempt.State.RECEIVED]
        assert len({a.slot_id for a in kept}) == len(kept), "I3: a slot counts twice"
        assert all(a.slot.status == Slot.Status.RECEIVED for a in kept if a.unique_examples or not a.slot.chunk_id)
        if at.state == Round.State.DONE:
            ledger = ledgers[at.number]
            assert {s["attempt"] for s in ledger["slots"]} == {str(a.pk) for a in kept}, "I10"
            assert {s["attempt"] for s in ledger["discarded"]} == {str(a.pk) for a in mine} - {
                str(a.pk) for a in kept
            }, "I10"


def _check_units(job, slots, checkpoints):
    """I4: every unit is dealt once, one deal after the other without a gap; checkpoints say which is the next."""
    at = checkpoints[0].next_unit
    for slot in sorted(slots, key=lambda slot: slot.unit_start):
        assert slot.unit_start == at, f"I4: units {slot.unit_start}, expected {at}"
        at += slot.record_count
    assert job.next_unit == at
    for checkpoint in checkpoints[1:]:
        dealt = [s.unit_start + s.record_count for s in slots if s.round.number <= checkpoint.round]
        assert checkpoint.next_unit == max(dealt)


def _check_cover(job, slots):
    """I4: every record of every pass is trained, at work, waiting or skipped: exactly one of them."""
    chunks = {c.index: c for c in job.dataset.chunks.all()}
    parts = defaultdict(list)
    for slot in slots:
        if slot.status != Slot.Status.STOPPED:
            parts[slot.round.pass_no, slot.chunk.index].append((slot.record_start, slot.record_count))
    for row in Requeued.objects.filter(job=job):
        parts[job.pass_no, row.chunk_index].append((row.record_start, row.record_count))
    for index in order_of(job.pass_order, job.dataset.count)[job.cursor :]:
        parts[job.pass_no, index].append((0, chunks[index].example_count))
    passes = range(job.pass_no if job.skipped_items else 0, job.pass_no + 1)
    for pass_no in passes:
        for index, chunk in chunks.items():
            at = 0
            for first, count in sorted(parts[pass_no, index]):
                assert first == at, f"I4: pass {pass_no}, {chunk.chunk_id}: {sorted(parts[pass_no, index])}"
                at += count
            assert at == chunk.example_count, f"I4: pass {pass_no}, {chunk.chunk_id}: {parts[pass_no, index]}"
    lists = checkpoint_lists(Checkpoint.objects.select_related("job__dataset").filter(job=job).latest("round"))
    remaining = {lists.work_items[i]["sourceChunkId"] if i in lists.work_items else i for i in lists.remaining}
    assert sorted([*lists.trained, *remaining]) == sorted(c.chunk_id for c in chunks.values()), "I4"


def artifact_body(sha256: str) -> bytes:
    source = artifact_source(sha256)
    buffer = bytearray(source.size)
    source.readinto(0, memoryview(buffer))
    return bytes(buffer)
