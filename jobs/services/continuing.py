"""Starting a job from a checkpoint file: its weights, and with `resume` the place where its queue stood."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils import timezone

from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.artifacts import artifact_new_file, artifact_path, artifact_put_bytes, job_artifact_add
from jobs.domain.progress import Progress
from jobs.domain.queue import Item
from jobs.models import Job
from weei_core import strict_json
from weei_core.checkpoint_file import CheckpointFile, read_header, verify
from weei_core.dataset_manifest import DatasetManifest
from weei_core.errors import Invalid
from weei_core.model_info import parse_model_info
from weei_core.training_settings import TrainingSettings, parse_settings

BLOCK = 1 << 20


def put_file(path: Path) -> Artifact:
    """Copy a finished file into the store."""
    with path.open("rb") as source:
        return _put(source.fileno(), 0, path.stat().st_size)


def _put(descriptor: int, offset: int, size: int) -> Artifact:
    if size <= BLOCK:
        return artifact_put_bytes(os.pread(descriptor, size, offset), timezone.now())
    digest = hashlib.sha256()
    with artifact_new_file() as new:
        for at in range(offset, offset + size, BLOCK):
            block = os.pread(descriptor, min(BLOCK, offset + size - at), at)
            digest.update(block)
            new.file.write(block)
        return new.commit(digest.hexdigest(), timezone.now())


@dataclass(frozen=True)
class Place:
    """A resumed queue: `order` of the pass at work (None: manifest order), `later` of the passes after it."""

    progress: Progress
    order: Sequence[int] | None
    later: Sequence[int] | None


@dataclass(frozen=True)
class Origin:
    """A verified checkpoint file that a job continues from."""

    path: Path
    header: CheckpointFile
    resume: bool

    @property
    def round(self) -> int:
        return self.header.round

    @property
    def step(self) -> int:
        return int(self._state()["step"]) if self.header.state_bytes else 0

    @property
    def metrics(self) -> dict[str, Any]:
        return strict_json.as_object(
            strict_json.as_object(self.header.metadata["metrics"], "metrics")["values"], "values"
        )

    def _state(self) -> dict[str, Any]:
        return strict_json.as_object(self.header.metadata["aggregationState"], "aggregationState")

    def facts(self) -> dict[str, object]:
        meta = self.header.metadata
        return {"jobId": meta.get("jobId"), "round": self.round, "weights": self.header.weights_sha256}

    @contextlib.contextmanager
    def weights(self) -> Iterator[Path]:
        """The weights alone, as a file."""
        with artifact_new_file() as new, self.path.open("rb") as file:
            os.sendfile(new.file.fileno(), file.fileno(), self.header.weights_offset, self.header.weights_bytes)
            yield new.path

    def put_state(self, job: Job, chosen: TrainingSettings) -> Artifact | None:
        """The method's state goes on when the method is the same; another method starts from zero."""
        if not self.header.state_bytes or self._state()["method"] != chosen.aggregation.method:
            return None
        with self.path.open("rb") as file:
            state = _put(file.fileno(), self.header.state_offset, self.header.state_bytes)
        job_artifact_add(job, state.sha256, JobArtifact.Kind.STATE, "")
        return state

    def check_resume(self, chosen: TrainingSettings, manifest: DatasetManifest) -> None:
        """`resume` needs what it restores: the file's chunk lists, over the same chunks."""
        if not self.resume:
            return
        meta = self.header.metadata
        if "remainingChunkIds" not in meta:
            raise Invalid(
                "The checkpoint does not say which chunks are left; continue with datasetMode new.", field="datasetMode"
            )
        here = {chunk.id for chunk in manifest.chunks}
        missing = sorted(self._chunk_ids() - here)
        more = sorted(here - self._chunk_ids())
        if missing or more:
            raise Invalid(
                "To resume, the manifest must have the checkpoint's chunks: "
                + "; ".join(
                    part
                    for part in (
                        f"missing {', '.join(missing[:5])}" if missing else "",
                        f"not in the checkpoint {', '.join(more[:5])}" if more else "",
                    )
                    if part
                )
                + ".",
                field="manifest",
                code="other_chunks",
            )
        for item in self._work_items().values():
            count = next(c.example_count for c in manifest.chunks if c.id == item["sourceChunkId"])
            if item["recordStart"] + item["recordCount"] > count:
                raise Invalid(
                    f"remainingWorkItems: {item['partitionId']} ends behind the {count} records of its chunk.",
                    field="remainingWorkItems",
                )

    def _chunk_ids(self) -> set[str]:
        parts = self._work_items()
        remaining = [parts[i]["sourceChunkId"] if i in parts else i for i in self._ids("remainingChunkIds")]
        return {*self._ids("trainedChunkIds"), *remaining}

    def _ids(self, field: str) -> list[str]:
        return [str(chunk_id) for chunk_id in strict_json.as_list(self.header.metadata.get(field, []), field)]

    def _work_items(self) -> dict[str, Any]:
        return strict_json.as_object(self.header.metadata.get("remainingWorkItems", {}), "remainingWorkItems")

    def place(self, manifest: DatasetManifest) -> Place:
        """Trained chunks first, then what is left in its order; parts wait before the cursor."""
        if not self.resume or not self._ids("remainingChunkIds"):
            return Place(Progress(0, 0, ()), None, self._later(manifest))
        index = {chunk.id: i for i, chunk in enumerate(manifest.chunks)}
        parts = self._work_items()
        cut = list(dict.fromkeys(parts[i]["sourceChunkId"] for i in self._ids("remainingChunkIds") if i in parts))
        whole = [i for i in self._ids("remainingChunkIds") if i not in parts]
        order = [index[i] for i in [*self._ids("trainedChunkIds"), *cut, *whole]]
        position = {order[p]: p for p in range(len(order))}
        requeued = tuple(
            Item(
                position[index[item["sourceChunkId"]]],
                index[item["sourceChunkId"]],
                item["recordStart"],
                item["recordCount"],
                whole=False,
            )
            for item in parts.values()
        )
        cursor = len(order) - len(whole)
        return Place(Progress(0, cursor, requeued), order, self._later(manifest) or range(len(order)))

    def _later(self, manifest: DatasetManifest) -> Sequence[int] | None:
        """The shuffled order goes on in later passes, if the file has one and this is the same dataset."""
        index = {chunk.id: i for i, chunk in enumerate(manifest.chunks)}
        order = self._ids("chunkOrder")
        return [index[i] for i in order] if self.resume and set(order) == set(index) else None


def origin_of(request: dict[str, Any]) -> Origin | None:
    """The checkpoint that a request continues from, completely checked; None for a job from the start."""
    if request.get("checkpoint") is None:
        return None
    mode = request.get("datasetMode")
    if mode not in ("new", "resume"):
        raise Invalid(f"datasetMode: {strict_json.shown(mode)} given, new or resume allowed.", field="datasetMode")
    path = artifact_path(strict_json.as_sha256(request["checkpoint"]["sha256"], "checkpoint.sha256"))
    with path.open("rb") as file:
        header = read_header(
            file,
            path.stat().st_size,
            check_model_info=parse_model_info,
            check_settings=lambda value: parse_settings(value, for_experience="experience" in value),
        )
        verify(file, header)
    return Origin(path, header, mode == "resume")
