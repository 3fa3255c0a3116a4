"""Jobs with a long past, made in batches of rows; and their next rounds, by the services that every round goes through.

Runs in a process of Django's (tests/stack/helper.py).
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from jobs.models import Attempt, Chunk, Job, JobEvent, Round, Slot
from jobs.services.dealing import order_store
from jobs.services.lifecycle import job_go_on
from tests.jobs import world as typed_world

world: Any = typed_world
"""The tests' world is not typed throughout."""
FLOATS = 114
"""456 bytes of weights."""
MEMBERS = 2
BATCH = 500
EPOCHS = 100_000

_members: dict[str, list[typed_world.Participant]] = {}


def make(checkpoints: int, chunks: int, name: str = "alice") -> str:
    """The id of a running job that has so many checkpoints and chunks, in an order that was shuffled."""
    with transaction.atomic():
        weights = np.zeros(FLOATS)
        job: Job = world.make_job(chunks=chunks, weights=weights, epochs=EPOCHS, user=world.owner(name))
        job.pass_order = order_store(range(chunks - 1, -1, -1))
        job.save()
        members = [world.Participant(job) for _ in range(MEMBERS)]
        _past(job, members, range(1, checkpoints))
        Job.objects.filter(pk=job.pk).update(round_no=checkpoints - 1)
        world.start(job)
    _members[str(job.pk)] = members
    return str(job.pk)


def settle() -> None:
    """What a database does by itself after so many rows."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _past(job: Job, members: Sequence[typed_world.Participant], numbers: range) -> None:
    """Finished rounds with one slot for each member, and the checkpoints that they made."""
    first = Checkpoint.objects.get(job=job, round=0)
    chunk = Chunk.objects.get(dataset=job.dataset_id, index=0)
    now = timezone.now()
    stored = [_artifact(job, number) for number in numbers]
    made = {"opened_at": now, "closing_at": now, "done_at": now, "settings_text": job.settings_text}
    rounds = [
        Round(job=job, number=n, state=Round.State.DONE, received=MEMBERS, start_weights=first.weights_id, **made)
        for n in numbers
    ]
    _insert(Artifact, stored)
    uses = {"job": job, "kind": JobArtifact.Kind.WEIGHTS}
    _insert(JobArtifact, [JobArtifact(artifact=artifact, **uses) for artifact in stored])
    _insert(Round, rounds)
    slots = [_slot(at, place, member, chunk) for at in rounds for place, member in enumerate(members)]
    _insert(Slot, slots)
    _insert(Attempt, [_attempt(slot) for slot in slots])
    _insert(Checkpoint, [_checkpoint(first, at, weights) for at, weights in zip(rounds, stored, strict=True)])
    names = ("round.dealt", "phase.finished", "phase.finished", "checkpoint.saved")
    _insert(JobEvent, [JobEvent(job=job, at=now, event=name) for _ in numbers for name in names])


def _insert(model: Any, rows: Sequence[Any]) -> None:
    model.objects.bulk_create(rows, batch_size=BATCH)


def _artifact(job: Job, number: int) -> Artifact:
    body = np.full(FLOATS, number, "<f4").tobytes() + job.pk.bytes
    return Artifact(sha256=hashlib.sha256(body).hexdigest(), bytes=len(body), body=body, touched=timezone.now())


def _slot(at: Round, place: int, member: typed_world.Participant, chunk: Chunk) -> Slot:
    times = {"started_at": at.opened_at, "finished_at": at.done_at}
    state = {"status": Slot.Status.RECEIVED, "seed": "1"}
    return Slot(round=at, deal=0, position=place, chunk=chunk, record_count=8, peer=member.peer, **state, **times)


def _attempt(slot: Slot) -> Attempt:
    return Attempt(
        id=uuid.uuid4(),
        slot=slot,
        peer=slot.peer,
        state=Attempt.State.RECEIVED,
        started_at=slot.started_at,
        deadline=slot.started_at,
        finished_at=slot.finished_at,
        unique_examples=8,
        report_text='{"round":1,"examplesProcessed":8,"uniqueExamples":8,"metrics":{"loss":0.5}}',
    )


def _checkpoint(first: Checkpoint, at: Round, weights: Artifact) -> Checkpoint:
    return Checkpoint(
        job=at.job,
        round=at.number,
        weights=weights,
        progress_text=first.progress_text,
        pass_order=at.job.pass_order,
        settings_text=at.settings_text,
        ledger_text='{"schema":"weei-ledger"}' + " " * 2000,
        metrics_text='{"loss":0.5}',
        examples_processed=16,
        created=at.opened_at,
    )


def play(job_id: str) -> float:
    """Seconds of one round: each member looks, its update is accepted, the round is merged and the next one dealt."""
    job = Job.objects.get(pk=job_id)
    for member in _members[job_id]:
        member.seen(timezone.now())
    job_go_on(job.pk, timezone.now())  # They may have been lost while others were measured.
    begun = time.perf_counter()
    for member in _members[job_id]:
        if assignment := member.assignment:
            member.upload(assignment)
    merged = world.merge_due(job)
    seconds = time.perf_counter() - begun
    if merged != 1:
        raise ArithmeticError(f"{merged} rounds of {job} were merged instead of one")
    return seconds
