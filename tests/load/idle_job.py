"""Jobs of a model that does no work: 114 weights (456 bytes), chunks of a few bytes, and training that gives back what
it got. What is left is the cost of a round itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import wasmtime

from tests.creation.experience import described_inline, package_of
from tests.hosts.modules.wat import answer, operation
from tests.stack.model_jobs import ModelJob
from tests.stack.stack import Stack

WEIGHTS = 114
WEIGHT_BYTES = 4 * WEIGHTS
EXAMPLES = 1
"""Of each chunk."""
CHUNK_BYTES = 8
INFO = {
    "id": "idle",
    "version": "1.0.0",
    "name": "Does no work",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 1,
    "dataFormats": [{"id": "bytes", "label": "Bytes", "acceptedMimeTypes": ["application/octet-stream"]}],
    "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
}
"""Nothing but training: no evaluation and no inspection, so that a job of many chunks is made quickly."""
UNITS = {
    "kind": "experience",
    "inputs": "none",
    "unit": {"id": "game", "label": "Games"},
    "unitsPerAssignment": {"default": EXAMPLES, "minimum": EXAMPLES, "maximum": EXAMPLES},
    "evaluationUnits": 0,
}

LINK = """
from jobs.models import Job
from peers.services.invitations import invitation_create
answer = invitation_create(Job.objects.get(pk=job_id), uses=uses)[1]
"""
MEMBERS = """
from django.utils import timezone
from jobs.models import Job
from peers.models import Membership, Peer
from peers.services.presence import lease_end
from peers.services.tokens import peer_create
job, now, answer = Job.objects.get(pk=job_id), timezone.now(), []
for _ in range(count):
    peer, token = peer_create()
    Membership.objects.create(
        job=job, peer=peer, role="participant", trains=True, current=True, accepted_link=True,
        state=Membership.State.MODEL_LOADED, ready_for=job.ready_key, accepted_at=now,
    )
    answer.append(token)
Peer.objects.filter(memberships__job=job).update(seen_at=now, lease_until=lease_end(now))
"""


def module(told_of_itself: dict[str, Any]) -> bytes:
    """Weights lie at 16384 for ever; a training answers with them as they are."""
    told, info = answer(json.dumps(told_of_itself).encode(), 64)
    empty, nothing = answer(b"{}", 2048)
    made, new = answer(f'{{"pointer":16384,"bytes":{WEIGHT_BYTES}}}'.encode(), 2064)
    result = f'{{"weights":{{"pointer":16384,"bytes":{WEIGHT_BYTES}}},"metrics":{{"loss":0.5}},'
    done, trained = answer(f'{result}"examplesProcessed":{EXAMPLES},"uniqueExamples":{EXAMPLES}}}'.encode(), 2176)
    text = f"""(module
      (memory (export "memory") 2 16)
      {told} {empty} {made} {done}
      (global $top (mut i32) (i32.const 32768)) (global $length (mut i32) (i32.const 0))
      (func $say (param $at i32) (param $bytes i32) (result i32)
        (global.set $length (local.get $bytes)) (local.get $at))
      (func (export "alloc") (param $bytes i32) (result i32)
        (local $at i32) (local.set $at (global.get $top))
        (global.set $top (i32.and (i32.const -16)
          (i32.add (i32.const 15) (i32.add (local.get $at) (local.get $bytes)))))
        (local.get $at))
      (func (export "free") (param i32 i32))
      (func (export "resultLength") (result i32) (global.get $length))
      {operation("getModelInfo", info)}
      {operation("createInitialWeights", new)}
      {operation("loadModel", nothing)}
      {operation("train", trained)})"""
    return bytes(wasmtime.wat2wasm(text))


def chunk(number: int) -> tuple[dict[str, Any], bytes]:
    """A line of the manifest, and its file."""
    data = number.to_bytes(CHUNK_BYTES, "little")
    entry = {
        "id": f"c{number}",
        "fileName": f"c{number}.bin",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "format": "bytes",
        "exampleCount": EXAMPLES,
    }
    return entry, data


class IdleJob(ModelJob):
    """With `chunks`, a pass has so many; with `epochs` passes and `n` participants there are about chunks * epochs / n
    rounds. Without, participants play units that nobody has to fetch, and `epochs` is the number of rounds."""

    def __init__(self, stack: Stack, *, chunks: int = 0, epochs: int = 1, **chosen: Any) -> None:
        folder = stack.folder / f"idle-{chunks}"
        preset = written(folder, chunks)
        super().__init__(stack, folder, preset, epochs=epochs, **chosen)

    def link_for(self, uses: int) -> str:
        """A link that so many may use."""
        link: str = self.stack.shell(LINK, job_id=self.id, uses=uses)
        return link

    def members(self, count: int) -> list[str]:
        """Tokens of so many participants that have joined and are ready: a server makes sixty a minute for each
        address, and joining is not what is measured."""
        tokens: list[str] = self.stack.shell(MEMBERS, job_id=self.id, count=count)
        return tokens


def written(folder: Path, chunks: int) -> dict[str, Any]:
    """The job's files in a folder, and the preset that names them."""
    folder.mkdir(exist_ok=True)
    made = [chunk(number) for number in range(chunks)]
    for entry, data in made:
        (folder / entry["fileName"]).write_bytes(data)
    wasm = module(INFO if chunks else {**INFO, "dataFormats": [], "workSource": UNITS})
    (folder / "idle.wasm").write_bytes(wasm)
    manifest = [entry for entry, _ in made] if chunks else package(wasm)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return {
        "name": INFO["name"],
        "module": "idle.wasm",
        "manifest": "manifest.json",
        "files": [entry["fileName"] for entry, _ in made],
        "settings": {"localEpochs": 1, "batchSize": 1},
    }


def package(wasm: bytes) -> Any:
    """That of a tiny experience model, with our weights."""
    made = package_of({**INFO, "workSource": UNITS}, wasm, [], [])
    made["wasm"]["fileName"] = made["execution"]["backends"][0]["artifacts"][0]["fileName"] = "idle.wasm"
    made["execution"]["weightBytes"] = WEIGHT_BYTES
    made["inlineJson"]["compatibility.json"].update(weightCount=WEIGHTS, weightBytes=WEIGHT_BYTES)
    return described_inline(made)
