"""Rows for the pages: a job with its data, checkpoints, participants, a round at work, links and history."""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from jobs.models import Chunk, Dataset, Job, Requeued, Round, Slot
from peers.models import Invitation, Membership, Peer

_numbers = itertools.count(1)

MODEL_INFO = {
    "id": "digits",
    "version": "1.0.0",
    "name": "Handwritten digits",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 1,
    "maxChunkBytes": 1_048_576,
    "maxExamplesPerChunk": 10_000,
    "dataFormats": [{"id": "digits-u8", "label": "Digits", "acceptedMimeTypes": ["application/octet-stream"]}],
    "metrics": [
        {"id": "loss", "label": "Loss", "direction": "minimize"},
        {"id": "accuracy", "label": "Accuracy", "direction": "maximize"},
    ],
    "capabilities": {"evaluation": True, "recordRanges": True, "inference": True},
    "inference": {"inputs": [{"id": "pixels", "label": "Image", "type": "numbers", "count": 64}], "outputs": []},
}
SETTINGS = {
    "epochs": 3,
    "localEpochs": 5,
    "batchSize": 16,
    "learningRate": 0.05,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 1},
    "coordinatorParticipates": True,
    "aggregation": {"method": "fedavg"},
}
CARTPOLE = {
    "id": "cartpole-reinforce",
    "version": "1.0.0",
    "name": "CartPole policy",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 4,
    "dataFormats": [],
    "metrics": [{"id": "episodeReturn", "label": "Episode return", "direction": "maximize"}],
    "capabilities": {"evaluation": True, "inference": True},
    "workSource": {
        "kind": "experience",
        "inputs": "none",
        "unit": {"id": "episode", "label": "Episodes"},
        "unitsPerAssignment": {"default": 32, "minimum": 2, "maximum": 4096},
        "evaluationUnits": 20,
    },
    "inference": {"view": "cartpole", "inputs": [{"id": "seed", "label": "Seed", "type": "seed"}], "outputs": []},
}
EXPERIENCE_SETTINGS = {
    "epochs": 30,
    "localEpochs": 1,
    "batchSize": 16,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 5},
    "coordinatorParticipates": True,
    "aggregation": {"method": "fedavg"},
    "experience": {"unitsPerAssignment": 32},
    "workers": 2,
}


def make_user(name="ada"):
    return User.objects.create_user(name, password="correct horse")


def make_artifact(size=8_520):
    sha256 = hashlib.sha256(f"artifact {next(_numbers)}".encode()).hexdigest()
    return Artifact.objects.create(sha256=sha256, bytes=size, touched=timezone.now())


def make_dataset(chunks=12, chunk_id="chunk-{:03d}", file_name="train-{:03d}.bin"):
    dataset = Dataset.objects.create(manifest_text="[]", count=chunks, bytes=chunks * 8_125, examples=chunks * 125)
    for index in range(chunks):
        Chunk.objects.create(
            dataset=dataset,
            index=index,
            chunk_id=chunk_id.format(index + 1),
            file_name=file_name.format(index + 1),
            artifact=make_artifact(8_125),
            bytes=8_125,
            format="digits-u8",
            example_count=125,
            first_example=index * 125,
        )
    return dataset


def make_job(owner, *, name="Digits in the kitchen", info=MODEL_INFO, validation=True, **fields):
    """With a dataset of its own, if none is given."""
    module = make_artifact(21_000)
    dataset = fields.pop("dataset") if "dataset" in fields else make_dataset()
    values = {
        "module_file_name": "digits.wasm",
        "model_id": info["id"],
        "model_name": info["name"],
        "model_info_text": json.dumps(info),
        "ready_key": module.sha256,
        "weight_bytes": 8_520,
        "settings_text": json.dumps(SETTINGS),
        "job_seed": "1234567890123456789",
        "validation_format": "digits-u8",
    }
    job = Job.objects.create(
        owner=owner,
        name=name,
        module=module,
        dataset=dataset,
        validation_file=make_artifact(19_305) if validation else None,
        **{**values, **fields},
    )
    JobArtifact.objects.create(job=job, artifact=module, kind="module")
    return job


def make_experience_job(owner, *, info=None, **fields):
    """A job of the CartPole model, `info` over its ModelInfo, with the checkpoint it begins with."""
    found = {**CARTPOLE, **(info or {})}
    values = {
        "name": "CartPole at home",
        "dataset": None,
        "settings_text": json.dumps(EXPERIENCE_SETTINGS),
        "weight_bytes": 456,
    }
    job = make_job(owner, info=found, validation=False, **{**values, **fields})
    make_checkpoint(job, job.first_round, validated=False, next_unit=job.next_unit, metrics_text="{}")
    return job


def make_checkpoint(job, round_no, *, validated=True, **fields):
    """Loss falls and accuracy rises with the round; round 0 has no training metrics."""
    loss, accuracy = 2.3 / (1 + 0.35 * round_no), 1 - 0.9 / (1 + 0.5 * round_no)
    training = {"loss": loss, "accuracy": accuracy} if round_no else {}
    checked = {"metrics": {"loss": loss * 1.08, "accuracy": accuracy * 0.98}, "examplesProcessed": 297}
    values = {
        "metrics_text": json.dumps(training),
        "examples_processed": 500 if round_no else 0,
        "settings_text": job.settings_text,
        "progress_text": "{}",
        "ledger_text": "{}",
        "dataset_progress": round_no / 4,
        "remaining_items": 12 - 3 * round_no % 12,
        "validation": "done" if validated else "none",
        "validation_text": json.dumps(checked) if validated else "",
        "created": timezone.now(),
    }
    return Checkpoint.objects.create(job=job, round=round_no, weights=make_artifact(), **{**values, **fields})


def make_peer(label="", *, connected=True):
    now = timezone.now()
    lease = now + timedelta(seconds=30 if connected else -30)
    number = next(_numbers)
    return Peer.objects.create(token_hash=f"{number:064x}", label=label, seen_at=now, lease_until=lease)


def make_participant(job, label="Firefox 153 on Linux", *, connected=True, state="modelLoaded", **fields):
    peer = make_peer(label, connected=connected)
    values = {"state": state, "current": True, "trains": True, "accepted_link": True, "ready_for": job.ready_key}
    return Membership.objects.create(peer=peer, job=job, accepted_at=timezone.now(), **{**values, **fields})


def make_round(job, number, members, *, done=0):
    """A round with one slot for each member; the first `done` are received."""
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(round_no=number, status="running", cursor=len(members))
    job.refresh_from_db()
    round_ = Round.objects.create(
        job=job,
        number=number,
        live=len(members) - done,
        received=done,
        settings_text=job.settings_text,
        start_weights="0" * 64,
        opened_at=now,
    )
    chunks = list(job.dataset.chunks.all())
    for index, member in enumerate(members):
        Slot.objects.create(
            round=round_,
            deal=0,
            position=index,
            chunk=chunks[index % len(chunks)],
            record_count=125,
            peer=member.peer,
            status="received" if index < done else "loading",
            seed="1",
            started_at=now,
            finished_at=now if index < done else None,
        )
    return round_


def make_units_round(job, number, members, *, start=384, units=32, split=1):
    """A round of an experience job: one range of units for each member."""
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(round_no=number, status="running", next_unit=start + units * len(members))
    job.refresh_from_db()
    made = Round.objects.create(
        job=job,
        number=number,
        live=len(members),
        settings_text=job.settings_text,
        start_weights="0" * 64,
        opened_at=now,
    )
    Slot.objects.bulk_create(
        Slot(
            round=made,
            deal=0,
            position=0,
            record_start=start + units * index,
            record_count=units,
            unit_start=start + units * index,
            peer=member.peer,
            seed="1",
            split=split,
            started_at=now,
        )
        for index, member in enumerate(members)
    )
    return made


def make_invitation(job, *, uses=0, max_uses=5, days=7, **fields):
    number = next(_numbers)
    expires_at = timezone.now() + timedelta(days=days)
    return Invitation.objects.create(
        job=job, token_hash=f"{number:064x}", uses=uses, max_uses=max_uses, expires_at=expires_at, **fields
    )


def make_held_item(job, reason="train trapped: unreachable", chunk_index=2):
    return Requeued.objects.create(
        job=job, position=chunk_index, chunk_index=chunk_index, record_count=125, errors=3, held=True, last_error=reason
    )


def make_snapshot(job, slot=None, **parts):
    """A snapshot as a browser sends it."""
    assignment = {
        "jobId": str(job.pk),
        "round": 4,
        "assignmentId": str(slot.pk) if slot else "a",
        "attemptId": "7d7f9b4e-6f0e-4f0f-9d57-000000000001",
        "chunkId": "chunk-001",
        "bytes": 8_125,
        "exampleCount": 125,
        "batchSize": 16,
        "localEpochs": 5,
        "learningRate": 0.05,
    }
    snapshot = {
        "schemaVersion": 1,
        "sequence": 7,
        "measuredAt": 1_700_000_000_000,
        "environment": {"browser": "Firefox", "browserVersion": "153.0", "os": "Linux", "logicalCores": 8},
        "execution": {
            "requested": "auto",
            "actual": "cpu",
            "backend": "cpu-wasm",
            "fallbackReason": None,
            "activeWorkers": 1,
            "workerLimit": 4,
        },
        "gpu": {
            "webgpu": "unavailable",
            "adapter": "unknown",
            "memoryBudgetMiB": 512,
            "initializationError": "unknown",
        },
        "model": {
            "id": "digits",
            "version": "1.0.0",
            "wasmSha256": "ab" * 32,
            "wgsl": {"present": False, "sha256": []},
        },
        "assignment": assignment,
        "stage": "training",
        "error": None,
        "timings": {"preparationMs": 31, "compilationMs": None, "trainingMs": None, "uploadMs": None},
        "performance": {
            "processedExamples": 310,
            "totalExamples": 625,
            "optimizerSteps": "unknown",
            "currentExamplesPerSecond": 5_210.4,
            "averageExamplesPerSecond": 4_987.0,
            "lastProgressAt": None,
        },
    }
    return {**snapshot, **parts}
