"""Makes jobs as the server does: files in the store, a draft, and its background step in this process."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_bytes, artifact_put_bytes, artifact_put_file
from checkpoints.store import store
from jobs.models import Chunk, Dataset, Job, JobDraft
from jobs.services.drafts import draft_create, draft_prepare

DIGITS = Path(__file__).resolve().parents[2] / "reference_models" / "digits"
CHUNKS = [f"train-{number:03}.bin" for number in range(1, 13)]
SETTINGS: dict[str, Any] = {
    "epochs": 1,
    "localEpochs": 1,
    "batchSize": 32,
    "learningRate": 0.05,
    "coordinatorParticipates": True,
    "seed": "42",
}
SCHEDULE = {"enabled": True, "unit": "round", "every": 1}


def digits(name: str) -> bytes:
    return (DIGITS / name).read_bytes()


def put(name: str, data: bytes) -> dict[str, Any]:
    """Store bytes as an upload does, and name them as a request does."""
    sha256 = hashlib.sha256(data).hexdigest()
    with store().temporary() as path:
        path.write_bytes(data)
        artifact_put_file(path, sha256, len(data), timezone.now())
    return {"fileName": name, "bytes": len(data), "sha256": sha256}


def request(
    *,
    module: bytes | None = None,
    module_name: str = "digits.wasm",
    manifest: Any = None,
    chunks: dict[str, bytes] | None = None,
    validation: bytes | None = None,
    checkpoint: bytes | None = None,
    mode: str | None = None,
    name: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """A request for a digits job. `manifest` is bytes or JSON; `chunks` are files by name, auxiliary ones too;
    `settings` go over the defaults, None takes one away."""
    if chunks is None:
        chunks = {file: digits(f"data/{file}") for file in CHUNKS}
    text = digits("data/manifest.json") if manifest is None else manifest
    body = text if isinstance(text, bytes) else json.dumps(text).encode()
    made: dict[str, Any] = {
        "module": put(module_name, digits("digits.wasm") if module is None else module),
        "manifest": put("manifest.json", body),
        "files": [put(file, data) for file, data in chunks.items()],
        "settings": {key: value for key, value in {**SETTINGS, **settings}.items() if value is not None},
    }
    if validation is not None:
        made["validation"] = put("validation.bin", validation)
    if checkpoint is not None:
        made["checkpoint"] = put("start.weei-checkpoint", checkpoint)
    if mode is not None:
        made["datasetMode"] = mode
    if name is not None:
        made["name"] = name
    return made


def package() -> Any:
    return json.loads(digits("data/package.json"))


def manifest() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(digits("data/manifest.json"))
    return entries


def small(count: int = 3) -> dict[str, Any]:
    """The first chunks only: arguments for `request`."""
    return {"manifest": manifest()[:count], "chunks": {file: digits(f"data/{file}") for file in CHUNKS[:count]}}


def prepare(user: User, made: dict[str, Any]) -> Any:
    draft = draft_create(user, made)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    return draft


def make(user: User, **options: Any) -> Any:
    return made_of(user, request(**options))


def made_of(user: User, made: dict[str, Any]) -> Any:
    draft = prepare(user, made)
    assert draft.state == JobDraft.State.DONE, draft.error
    assert draft.job is not None
    return draft.job


def refused(user: User, made: dict[str, Any] | None = None, **options: Any) -> Any:
    """The draft of a request that is refused. Nothing of a job may be left of it."""
    draft = prepare(user, made or request(**options))
    assert draft.state == JobDraft.State.FAILED, f"{draft.state}: a job was made"
    assert draft.error.strip()
    assert draft.job is None
    assert nothing_left()
    return draft


def nothing_left() -> bool:
    return not (Job.objects.exists() or Dataset.objects.exists() or Chunk.objects.exists())


def weights(checkpoint: Checkpoint) -> bytes:
    return artifact_bytes(checkpoint.weights_id, 1 << 20)


def stored(data: bytes) -> str:
    return artifact_put_bytes(data, timezone.now()).sha256
