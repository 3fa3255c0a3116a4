"""A store of its own for each test, and a small job with one participant at work."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.artifacts import artifact_put_bytes, job_artifact_add
from checkpoints.store import store
from jobs.models import Attempt, Chunk, Dataset, Job, Round, Slot
from peers.models import Membership, Peer
from peers.services.tokens import peer_create

GOLDEN = Path(__file__).parent.parent / "golden"
TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = {"Content-Type": "application/offset+octet-stream"}
ORIGIN = "http://testserver"


@pytest.fixture(autouse=True)
def _store(settings, tmp_path):
    settings.STORAGE_URL = f"file://{tmp_path / 'artifacts'}"
    settings.VAR_DIR = tmp_path
    settings.MIN_FREE_FRACTION = 0.0


@pytest.fixture
def artifact_store(_store):
    return store()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def metadata(**pairs: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass
class World:
    """`job` of `owner`, in round 1; `peer` accepted it and trains on the first of two chunks."""

    owner: User
    job: Job
    peer: Peer
    token: str
    attempt: Attempt
    module: bytes
    weights: bytes
    chunks: list[bytes]
    validation: bytes

    def session(self, user: User | None = None) -> dict[str, str]:
        client = Client()
        client.force_login(user or self.owner)
        (cookie,) = client.cookies.values()
        return {"Cookie": f"{cookie.key}={cookie.value}", "Origin": ORIGIN}

    def update_headers(self, data: bytes, **changes: str) -> dict[str, str]:
        report = json.dumps({"round": 1, "examplesProcessed": 4, "uniqueExamples": 4, "metrics": {"loss": 0.5}})
        pairs = {"kind": "update", "attempt": str(self.attempt.pk), "sha256": sha(data), "report": report} | changes
        described = {"Upload-Length": str(len(data)), "Upload-Metadata": metadata(**pairs)}
        return {**TUS, **OCTETS, **bearer(self.token), **described}

    def file_headers(self, data: bytes, name: str = "train.bin", **changes: str) -> dict[str, str]:
        pairs = {"kind": "file", "filename": name, "sha256": sha(data)} | changes
        described = {"Upload-Length": str(len(data)), "Upload-Metadata": metadata(**pairs)}
        return {**TUS, **OCTETS, **self.session(), **described}

    def path(self, data: bytes) -> str:
        return f"/bytes/jobs/{self.job.pk}/{sha(data)}"

    def add(self, data: bytes, kind: str, name: str = "") -> Artifact:
        artifact = artifact_put_bytes(data, timezone.now())
        job_artifact_add(self.job, artifact.sha256, kind, name)
        return artifact


def make_job(owner: User, module: Artifact, weight_bytes: int) -> Job:
    info = json.dumps(json.loads((GOLDEN / "model_info.json").read_text())["dataset"])
    return Job.objects.create(
        owner=owner,
        name="Ziffern/„Eins“",
        status=Job.Status.RUNNING,
        module=module,
        module_file_name="model.wasm",
        model_id="m",
        model_name="Model",
        model_info_text=info,
        ready_key="0" * 64,
        weight_bytes=weight_bytes,
        settings_text="{}",
        job_seed="1",
        round_no=1,
    )


def make_checkpoint(job: Job, round_number: int, weights: str, state: str | None = None) -> Checkpoint:
    return Checkpoint.objects.create(
        job=job,
        round=round_number,
        weights_id=weights,
        state_id=state,
        progress_text="{}",
        settings_text="{}",
        ledger_text="{}",
        created=timezone.now(),
    )


def make_world(weights: bytes) -> World:
    now = timezone.now()
    owner = User.objects.create_user("owner", password="x")
    module, chunks, validation = b"\0asm-module", [b"chunk one", b"chunk two"], b"validation"
    job = make_job(owner, artifact_put_bytes(module, now), len(weights))
    peer, token = peer_create()
    world = World(owner, job, peer, token, Attempt(), module, weights, chunks, validation)
    world.add(module, JobArtifact.Kind.MODULE, "model.wasm")
    world.add(weights, JobArtifact.Kind.WEIGHTS)
    world.add(validation, JobArtifact.Kind.VALIDATION, "validation.bin")
    make_checkpoint(job, 0, sha(weights))
    dataset = job.dataset = Dataset.objects.create(manifest_text="[]", count=2, bytes=18, examples=8)
    job.save(update_fields=["dataset"])
    rows = [
        Chunk.objects.create(
            dataset=dataset,
            index=index,
            chunk_id=f"c{index}",
            file_name=f"c{index}.bin",
            artifact=world.add(data, JobArtifact.Kind.CHUNK, f"c{index}.bin"),
            bytes=len(data),
            format="my-binary",
            example_count=4,
            first_example=4 * index,
        )
        for index, data in enumerate(chunks)
    ]
    Membership.objects.create(peer=peer, job=job, state=Membership.State.MODEL_LOADED, current=True, trains=True)
    at = Round.objects.create(job=job, number=1, live=1, settings_text="{}", start_weights=sha(weights), opened_at=now)
    slot = Slot.objects.create(
        round=at, deal=0, position=0, chunk=rows[0], record_count=4, peer=peer, seed="1", started_at=now
    )
    world.attempt = Attempt.objects.create(slot=slot, peer=peer, started_at=now, deadline=now)
    return world


@pytest.fixture
def world(transactional_db) -> World:
    return make_world(bytes(range(64)) * 4)


@pytest.fixture(params=[b"\0\0\x80?" * 64, struct.pack("<f", 0.5) * 20_000], ids=["small", "big"])
def sized(request, transactional_db):
    """The same for updates that lie in the row and for updates that are files (C83)."""
    world = make_world(bytes(len(request.param)))
    return world, request.param
