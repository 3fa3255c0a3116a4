"""Starting a job from a checkpoint file: its weights, and with `resume` the place where its queue stood."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_new_file, artifact_path, artifact_put_bytes
from jobs.domain.progress import Progress
from jobs.domain.queue import Item
from jobs.services.selection import Selection
from weei_core.checkpoint_file import CheckpointFile, read_header, verify
from weei_core.checkpoint_metadata import MAX_NEXT_UNIT
from weei_core.dataset_manifest import DatasetManifest
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.seeds import parse_seed
from weei_core.strict_json import EXACT_INT, JsonValue, as_int, as_list, as_number, as_object, as_sha256, shown
from weei_core.training_settings import TrainingSettings, parse_settings

BLOCK = 1 << 20
_SHOWN = 5


def put_range(path: Path, offset: int, size: int) -> Artifact:
    """Copy `size` bytes of a file into the store, a block at a time."""
    with path.open("rb") as source:
        descriptor = source.fileno()
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
    """Where a queue starts: `order` of the pass at work and `later` of those after it (None: manifest order)."""

    progress: Progress = Progress(0, 0, ())
    order: Sequence[int] | None = None
    later: Sequence[int] | None = None


@dataclass(frozen=True)
class Beginning:
    """What the seeds of a job's work come from. `next_unit` counts in experience jobs only."""

    job_seed: int
    next_unit: int


@dataclass(frozen=True)
class Part:
    """A range of a chunk's records that was cut and not trained."""

    name: str
    chunk_id: str
    record_start: int
    record_count: int


@dataclass(frozen=True)
class Lists:
    """The chunk lists of a checkpoint. `remaining` holds chunk ids and names of `parts`, in the order of the queue."""

    trained: list[str]
    remaining: list[str]
    order: list[str]
    parts: dict[str, Part] = field(default_factory=dict)

    @cached_property
    def remaining_chunks(self) -> list[str]:
        """The chunks that are not trained to their end, in the order in which the queue comes to them."""
        names = (self.parts[name].chunk_id if name in self.parts else name for name in self.remaining)
        return list(dict.fromkeys(names))

    @cached_property
    def cut_chunks(self) -> set[str]:
        return {part.chunk_id for part in self.parts.values()}


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
        return as_int(self._state["step"], "aggregationState.step", 1, EXACT_INT) if self.header.state_bytes else 0

    @property
    def metrics(self) -> dict[str, float]:
        values = as_object(self._metrics["values"], "metrics.values")
        return {name: as_number(value, name) for name, value in values.items()}

    @property
    def examples_processed(self) -> int:
        return as_int(self._metrics["examplesProcessed"], "metrics.examplesProcessed", 0, EXACT_INT)

    @property
    def _metrics(self) -> dict[str, JsonValue]:
        return as_object(self.header.metadata["metrics"], "metrics")

    @property
    def _state(self) -> dict[str, JsonValue]:
        return as_object(self.header.metadata["aggregationState"], "aggregationState")

    @cached_property
    def lists(self) -> Lists:
        ids = {name: self._texts(name) for name in ("trainedChunkIds", "remainingChunkIds", "chunkOrder")}
        items = as_object(self.header.metadata.get("remainingWorkItems", {}), "remainingWorkItems")
        parts = {name: _part(name, value) for name, value in items.items()}
        return Lists(ids["trainedChunkIds"], ids["remainingChunkIds"], ids["chunkOrder"], parts)

    def _texts(self, name: str) -> list[str]:
        return [str(value) for value in as_list(self.header.metadata.get(name, []), name)]

    def facts(self) -> dict[str, object]:
        """What a ledger says of where a job comes from."""
        facts = {
            "jobId": self.header.metadata.get("jobId"),
            "round": self.round,
            "weights": self.header.weights_sha256,
            "state": self.header.state_sha256,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def restored_beginning(self, given: int | None) -> Beginning:
        """Job seed and next unit of the file's experience job, to go on with. `given` is `settings.seed`."""
        if "experience" not in self.header.metadata:
            raise Invalid(
                "To resume, the checkpoint must record the job seed and the next unit (experience); found none. "
                "Continue with datasetMode new.",
                field="datasetMode",
            )
        saved = as_object(self.header.metadata["experience"], "experience")
        seed = parse_seed(saved["jobSeed"], "experience.jobSeed")
        if given not in (None, seed):
            raise Invalid(
                f"settings.seed must be left out or be {seed}, the job seed that the checkpoint restores; "
                f"found {given}.",
                field="settings.seed",
            )
        return Beginning(seed, as_int(saved["nextUnit"], "experience.nextUnit", 0, MAX_NEXT_UNIT))

    def check_auxiliary(self, files: dict[str, str]) -> None:
        """`files`: SHA-256 by slot. A checkpoint that records auxiliary files goes on with these and no others. One
        that records none may start a job with some, unless it is resumed."""
        saved = as_object(self.header.metadata.get("auxiliaryWeights", {}), "auxiliaryWeights")
        recorded = {slot: as_sha256(sha256, "auxiliaryWeights") for slot, sha256 in saved.items()}
        if not recorded and not self.resume:
            return
        for slot in [*recorded, *files]:
            if recorded.get(slot) != files.get(slot):
                raise Invalid(
                    f"The auxiliary weights {shown(slot)} must be the file that the checkpoint records, "
                    f"{_file_named(recorded.get(slot))}; found {_file_named(files.get(slot))}.",
                    field=f"auxiliaryWeights.{slot}"[:200],
                    code="other_auxiliary",
                )

    def put_state(self, chosen: TrainingSettings) -> Artifact | None:
        """The method's state goes on when the method is the same; another method starts from zero."""
        if not self.header.state_bytes or self._state["method"] != chosen.aggregation.method:
            return None
        return put_range(self.path, self.header.state_offset, self.header.state_bytes)

    def place(self, manifest: DatasetManifest, info: ModelInfo) -> Place:
        """With `new` the whole dataset in manifest order. With `resume` the file's rest first, if there is one."""
        if not self.resume or not info.reads_data:
            return Place()
        check_resume(self, manifest, info)
        later = self._later(manifest)
        if not self.lists.remaining:
            return Place(order=later)
        return _resumed(self.lists, manifest, later)

    def _later(self, manifest: DatasetManifest) -> list[int] | None:
        """The shuffled order of later passes."""
        index = {chunk.id: i for i, chunk in enumerate(manifest.chunks)}
        return [index[i] for i in self.lists.order] if set(self.lists.order) == set(index) else None

    def warnings(self, manifest: DatasetManifest) -> list[str]:
        if self.resume and manifest.chunks and self.lists.order and self._later(manifest) is None:
            return ["chunkOrder of the checkpoint does not hold every chunk; later passes go in manifest order."]
        return []


def _file_named(sha256: str | None) -> str:
    return "none" if sha256 is None else f"SHA-256 {sha256}"


def _part(name: str, value: JsonValue) -> Part:
    """Checked by the reader of the file."""
    item = as_object(value, "remainingWorkItems")
    start, count = (as_int(item[key], key, 0, EXACT_INT) for key in ("recordStart", "recordCount"))
    return Part(name, str(item["sourceChunkId"]), start, count)


def _resumed(lists: Lists, manifest: DatasetManifest, later: list[int] | None) -> Place:
    """Trained chunks stand before the rest, which keeps its order. What stands up to the last cut chunk waits before
    the cursor, as parts or whole, since a cursor cannot stand inside a chunk."""
    index = {chunk.id: i for i, chunk in enumerate(manifest.chunks)}
    order = [*lists.trained, *lists.remaining_chunks]
    position = {chunk_id: p for p, chunk_id in enumerate(order)}
    cursor = max((position[chunk_id] + 1 for chunk_id in lists.cut_chunks), default=len(lists.trained))
    parts = [
        Item(position[part.chunk_id], index[part.chunk_id], part.record_start, part.record_count, whole=False)
        for part in lists.parts.values()
    ]
    whole = [
        Item(position[chunk_id], index[chunk_id], 0, manifest.chunks[index[chunk_id]].example_count)
        for chunk_id in order[len(lists.trained) : cursor]
        if chunk_id not in lists.cut_chunks
    ]
    items = tuple(sorted([*parts, *whole], key=lambda item: item.place))
    return Place(Progress(0, cursor, items), [index[chunk_id] for chunk_id in order], later or range(len(order)))


def check_resume(origin: Origin, manifest: DatasetManifest, info: ModelInfo) -> None:
    """`resume` needs what it restores: the file's chunk lists, over the same chunks, each once."""
    if "remainingChunkIds" not in origin.header.metadata:
        raise Invalid(
            "To resume, the checkpoint must say which chunks are left (remainingChunkIds); found none. "
            "Continue with datasetMode new.",
            field="datasetMode",
        )
    lists = origin.lists
    here, there = {chunk.id for chunk in manifest.chunks}, {*lists.trained, *lists.remaining_chunks}
    if here != there:
        missing = _named("missing", there - here)
        more = _named("not in the checkpoint", here - there)
        raise Invalid(
            f"To resume, the manifest must have the chunks of the checkpoint; found {missing}"
            f"{' and ' if missing and more else ''}{more}.",
            field="manifest",
            code="other_chunks",
        )
    _check_parts(lists, manifest, info)


def _named(what: str, ids: set[str]) -> str:
    listed = ", ".join(shown(chunk_id) for chunk_id in sorted(ids)[:_SHOWN])
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"{what} {listed}{more}" if ids else ""


def _check_parts(lists: Lists, manifest: DatasetManifest, info: ModelInfo) -> None:
    """Parts lie inside their chunks and apart from each other, and their chunks are listed nowhere else."""
    if lists.parts and not info.capabilities.record_ranges:
        raise _wrong_parts("belong to models that declare recordRanges", f"{len(lists.parts)} for one that does not")
    if len(lists.parts) > settings.MAX_PARTS:
        raise _wrong_parts(f"hold at most {settings.MAX_PARTS} parts", str(len(lists.parts)))
    twice = lists.cut_chunks & {*lists.trained, *lists.remaining}
    if twice:
        raise _wrong_parts("cut only chunks that are not listed whole", f"{shown(min(twice))} in both")
    records = {chunk.id: chunk.example_count for chunk in manifest.chunks}
    end: dict[str, int] = {}
    for part in sorted(lists.parts.values(), key=lambda part: part.record_start):
        if part.record_start < end.get(part.chunk_id, 0):
            raise _wrong_parts("hold parts that do not overlap", f"two with record {part.record_start}")
        end[part.chunk_id] = part.record_start + part.record_count
        if end[part.chunk_id] > records[part.chunk_id]:
            raise _wrong_parts(
                f"end within the {records[part.chunk_id]} records of {shown(part.chunk_id)}",
                f"{shown(part.name)} ending at {end[part.chunk_id]}",
            )


def _wrong_parts(rule: str, found: str) -> Invalid:
    return Invalid(f"remainingWorkItems must {rule}; found {found}.", field="remainingWorkItems")


def origin_of(files: Selection, mode: object) -> Origin | None:
    """The checkpoint that a request continues from, completely checked; None for a job from the start."""
    if files.checkpoint is None:
        if mode is not None:
            raise Invalid(f"datasetMode belongs to a checkpoint; found {shown(mode)} without one.", field="datasetMode")
        return None
    if mode not in ("new", "resume"):
        raise Invalid(f"datasetMode must be new or resume; found {shown(mode)}.", field="datasetMode")
    path = artifact_path(files.checkpoint.sha256)
    with path.open("rb") as file:
        header = read_header(
            file,
            path.stat().st_size,
            check_model_info=parse_model_info,
            check_settings=lambda value: parse_settings(value, for_experience="experience" in value, keep_unknown=True),
        )
        verify(file, header)
    return Origin(path, header, mode == "resume")
