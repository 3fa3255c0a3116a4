"""Checkpoint files: exported ones as downloads serve them, and ones put together by hand from the format's own text,
as another implementation would."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_bytes
from jobs.models import Job
from jobs.selectors.downloads import checkpoint_for_owner
from tests.creation.making import CHUNKS, SETTINGS, digits

IDS = [name.removesuffix(".bin") for name in CHUNKS]


def exported(job: Job, round_no: int | None = None) -> bytes:
    """The bytes that a download gives, the latest checkpoint by default."""
    if round_no is None:
        round_no = Checkpoint.objects.filter(job=job).order_by("-round").values_list("round", flat=True)[0]
    found = checkpoint_for_owner(user_id=job.owner_id, job_id=job.pk, round_number=round_no)
    return found.header + b"".join(artifact_bytes(part.sha256, 1 << 28) for part in found.parts)


def metadata_of(file: bytes) -> dict[str, Any]:
    """Read as the format's own example does."""
    (size,) = struct.unpack_from("<I", file)
    metadata: dict[str, Any] = json.loads(file[4 : 4 + size])
    return metadata


def weights_of(file: bytes) -> bytes:
    (size,) = struct.unpack_from("<I", file)
    start = 4 + size
    return file[start : start + metadata_of(file)["checkpoint"]["bytes"]]


def floats(count: int = 2410, seed: int = 1) -> bytes:
    """Small finite weights, as many as the digits model has."""
    return (np.random.default_rng(seed).normal(size=count) * 0.125).astype("<f4").tobytes()


def described(data: bytes, **more: Any) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}


def model_info() -> dict[str, Any]:
    """What the digits module says, as a file of somebody else may hold it: with fields that nobody here knows."""
    return {
        "id": "digits",
        "version": "1.0.0",
        "name": "Handwritten digits",
        "abiVersion": 1,
        "weightFormat": "float32-le",
        "maxWorkers": 1,
        "dataFormats": [{"id": "digits-u8-v1", "label": "Digits", "acceptedMimeTypes": []}],
        "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
        "futureField": {"x": 1},
    }


def file(*, weights: Any = None, state: Any = None, method: Any = "fedavgm", round: Any = 7, **fields: Any) -> bytes:
    """A file by hand: version 1, or 2 with a state. `fields` go over the metadata; None takes one away."""
    body: bytes = floats() if weights is None else weights
    module = digits("digits.wasm")
    settings = {key: value for key, value in SETTINGS.items() if key not in ("seed", "epochs")}
    metadata: dict[str, Any] = {
        "version": 1 if state is None else 2,
        "jobId": "job-of-somebody-else",
        "module": described(module, artifactId="m", fileName="digits.wasm"),
        "modelInfo": model_info(),
        "settings": {**settings, "rounds": 3},
        "round": round,
        "checkpoint": described(
            body, artifactId="w", kind="checkpoint", fileName="w.f32", format="float32-le", round=round
        ),
        "metrics": {"values": {"loss": 0.25}, "examplesProcessed": 375},
        "incomplete": False,
    }
    if state is not None:
        metadata["aggregationState"] = described(state, method=method, step=4)
    metadata = {key: value for key, value in {**metadata, **fields}.items() if value is not None}
    text = json.dumps(metadata).encode()
    return struct.pack("<I", len(text)) + text + body + bytes(state or b"")


def work_item(chunk_id: str, start: int, count: int) -> dict[str, Any]:
    name = f"{chunk_id}@{start}+{count}"
    return {name: {"partitionId": name, "sourceChunkId": chunk_id, "recordStart": start, "recordCount": count}}
