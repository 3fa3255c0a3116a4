"""The dataset manifest: the list of chunks of a dataset, and the files that were selected with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from weei_core import js_json, strict_json
from weei_core.errors import Invalid
from weei_core.model_info import MAX_AUXILIARY_SLOTS, ModelInfo
from weei_core.schema_types import FileName, Loose, Positive, Sha256, ShortId, Size, Text, validate
from weei_core.strict_json import JsonValue, shown

PACKAGE_SCHEMA = "weei-model-package"

MAX_CHUNKS = 10_000
MAX_MANIFEST_BYTES = 8 * 2**20
MAX_CHUNK_BYTES = 2**32 - 1  # what a module can address
MAX_METADATA_BYTES = 2**20
MAX_OPEN_PARTS = 256

_SHOWN_PROBLEMS = 20
_PART_ID = re.compile(r"(.*)@[0-9]+\+[0-9]+", re.DOTALL)
_LONGEST_NUMBER = -1.2345678901234567e-300
# Everything in checkpoint metadata whose size does not grow with the model's declaration or the chunks: ids, hashes,
# sizes, module and checkpoint file names, settings, seeds, aggregation state, and the hash of each auxiliary slot.
_FIXED_METADATA_BYTES = 8_192 + MAX_AUXILIARY_SLOTS * 1_400


class ChunkEntry(Loose):
    """One dataset file. `bytes` and `exampleCount` are also bounded by the model."""

    id: ShortId
    file_name: FileName
    bytes: Size
    sha256: Sha256
    format: Text
    example_count: Positive


@dataclass(frozen=True)
class DatasetManifest:
    """`text` is the JSON as received; `chunks` in its order."""

    chunks: tuple[ChunkEntry, ...]
    text: str

    @property
    def total_bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def total_examples(self) -> int:
        return sum(chunk.example_count for chunk in self.chunks)


class ExpectedFile(Protocol):
    """A file that a manifest or a package names: a chunk, auxiliary weights."""

    @property
    def id(self) -> str: ...
    @property
    def file_name(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class FoundFile(NamedTuple):
    """A file as it was selected: its bare name, its size and its lower-case SHA-256."""

    name: str
    bytes: int
    sha256: str


def parse_manifest(data: bytes, info: ModelInfo | None) -> DatasetManifest:
    """Read a plain list of chunks; with `info` also check it against the model."""
    value = load_manifest(data, MAX_MANIFEST_BYTES)
    if isinstance(value, dict):
        kind = "a model package" if value.get("schema") == PACKAGE_SCHEMA else "an object without a known schema"
        raise Invalid(
            f"The manifest must be a list of chunks here; found {kind}.", field="manifest", code="not_a_chunk_list"
        )
    if info is not None:
        check_needs_no_package(info)
    manifest = manifest_from(value, data.decode())
    if not manifest.chunks:
        raise Invalid(f"The manifest must list 1 to {MAX_CHUNKS} chunks; found an empty list.", field="manifest")
    if info is not None:
        check_manifest_against_model(manifest, info)
    return manifest


def check_needs_no_package(info: ModelInfo) -> None:
    """A plain list of chunks names no units and no auxiliary files, so it is enough for other models only."""
    if info.is_experience or info.auxiliary_weights:
        reason = "this is an experience model" if info.is_experience else "the model declares auxiliaryWeights"
        raise Invalid(
            f"The manifest must be the model package's manifest.json, since {reason}; found a plain list of chunks.",
            field="manifest",
            code="package_needed",
        )


def load_manifest(data: bytes, max_bytes: int) -> JsonValue:
    if not data.strip():
        raise Invalid(
            "The manifest must be a list of chunks or a model package; found an empty file.", field="manifest"
        )
    if len(data) > max_bytes:
        raise Invalid(f"The manifest must be at most {max_bytes} bytes; found {len(data)}.", field="manifest")
    return strict_json.loads(data, what="manifest")


def manifest_from(value: JsonValue, text: str, where: str = "") -> DatasetManifest:
    """A parsed list of chunks, possibly empty. `where` stands in front of the paths in errors."""
    entries = strict_json.as_list(value, where or "The manifest", MAX_CHUNKS)
    chunks = tuple(_chunk(entry, f"{where}[{index}]") for index, entry in enumerate(entries))
    _refuse_repeated([chunk.id for chunk in chunks], where, "id")
    _refuse_repeated([chunk.file_name for chunk in chunks], where, "fileName")
    return DatasetManifest(chunks, text)


def _chunk(entry: JsonValue, path: str) -> ChunkEntry:
    try:
        return validate(ChunkEntry, entry, path)
    except Invalid as error:
        raise _of_chunk(entry.get("id") if isinstance(entry, dict) else None, error) from None


def _of_chunk(chunk_id: object, error: Invalid) -> Invalid:
    """The same error with the chunk's id in front."""
    name = f"Chunk {shown(chunk_id)}: " if isinstance(chunk_id, str) and chunk_id else ""
    return Invalid(name + error.message, field=error.field, code=error.code)


def _refuse_repeated(values: Sequence[str], where: str, field: str) -> None:
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        if value in first:
            path = f"{where}[{index}].{field}"
            raise Invalid(f"{path} must be unique; found {shown(value)}, as in [{first[value]}].", field=path)
        first[value] = index


def check_manifest_against_model(manifest: DatasetManifest, info: ModelInfo, where: str = "") -> None:
    """Formats and limits that the model declares, and room for the largest checkpoint metadata."""
    formats = [data_format.id for data_format in info.data_formats]
    for index, chunk in enumerate(manifest.chunks):
        path = f"{where}[{index}]"
        try:
            strict_json.as_choice(chunk.format, f"{path}.format", formats)
            strict_json.as_int(chunk.bytes, f"{path}.bytes", 1, info.max_chunk_bytes or MAX_CHUNK_BYTES)
            most = info.max_examples_per_chunk or strict_json.EXACT_INT
            strict_json.as_int(chunk.example_count, f"{path}.exampleCount", 1, most)
        except Invalid as error:
            raise _of_chunk(chunk.id, error) from None
    if info.capabilities.record_ranges:
        _refuse_part_like_ids(manifest, where)
    size = largest_metadata_bytes(manifest, info)
    if size > MAX_METADATA_BYTES:
        raise Invalid(
            f"The manifest must leave checkpoint metadata within {MAX_METADATA_BYTES} bytes; found that it could grow "
            f"to {size}. Use fewer chunks or shorter ids.",
            field="manifest",
        )


def check_plain_validation(validation: FoundFile, info: ModelInfo) -> None:
    """A validation file beside a plain list of chunks: its format is the first chunk's, nothing declares its size."""
    if not info.capabilities.evaluation:
        raise Invalid(
            f"A validation file needs a model that declares evaluation; found {shown(validation.name)} without one.",
            field="validation",
        )
    limit = info.max_chunk_bytes or MAX_CHUNK_BYTES
    if not 1 <= validation.bytes <= limit:
        raise Invalid(
            f"The validation file {shown(validation.name)} must have 1 to {limit} bytes; found {validation.bytes}.",
            field="validation",
        )


def _refuse_part_like_ids(manifest: DatasetManifest, where: str) -> None:
    """A chunk may not be called what a part of another chunk would be called: queues hold both kinds of id."""
    ids = {chunk.id for chunk in manifest.chunks}
    for index, chunk in enumerate(manifest.chunks):
        part = _PART_ID.fullmatch(chunk.id)
        if part and part[1] in ids:
            path = f"{where}[{index}].id"
            raise Invalid(
                f"{path} must not read like a part of chunk {shown(part[1])}; found {shown(chunk.id)}.", field=path
            )


def largest_metadata_bytes(manifest: DatasetManifest, info: ModelInfo) -> int:
    """An upper bound of the metadata of any checkpoint of a job over these chunks.

    Every id stands once in the shuffled order and once among trained or remaining chunks; every open part stands
    among the remaining chunks and, described, in `remainingWorkItems`.
    """
    ids = sum(_json_bytes(chunk.id) + 1 for chunk in manifest.chunks)
    metrics = {metric.id: _LONGEST_NUMBER for metric in info.metrics}
    # JavaScript may write a number longer than the module did: 1e20 has 21 digits.
    info_bytes = max(len(info.text.encode()), _json_bytes(strict_json.loads(info.text)))
    size = _FIXED_METADATA_BYTES + info_bytes + _json_bytes(metrics) + 2 * ids
    if info.capabilities.record_ranges and manifest.chunks:
        size += MAX_OPEN_PARTS * max(_part_bytes(chunk) for chunk in manifest.chunks)
    return size


def _part_bytes(chunk: ChunkEntry) -> int:
    part_id = f"{chunk.id}@{chunk.example_count}+{chunk.example_count}"
    item = {
        "partitionId": part_id,
        "sourceChunkId": chunk.id,
        "recordStart": chunk.example_count,
        "recordCount": chunk.example_count,
    }
    return _json_bytes({part_id: item}) + _json_bytes(part_id)


def _json_bytes(value: object) -> int:
    return len(js_json.dumps(value).encode())


def match_files(manifest: DatasetManifest, files: Sequence[FoundFile], *, also: Sequence[ExpectedFile] = ()) -> None:
    """Refuse unless `files` are exactly the manifest's chunks and `also`, by name, size and SHA-256.

    All wrong files are named at once, the first few in the sentence, all of them in `extra["files"]`.
    """
    expected: list[ExpectedFile] = [*manifest.chunks, *also]
    found: dict[str, FoundFile] = {}
    problems = []
    for file in files:
        if file.name in found:
            problems.append(f"{shown(file.name)} was given twice")
        found[file.name] = file
    problems += _wrong_files(expected, found)
    names = {file.file_name for file in expected}
    problems += [f"{shown(name)} is not in the manifest" for name in found if name not in names]
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
        raise Invalid(f"The files must match the manifest: {listed}.", field="files", files=problems)


def _wrong_files(expected: Iterable[ExpectedFile], found: dict[str, FoundFile]) -> Iterable[str]:
    for entry in expected:
        file = found.get(entry.file_name)
        name = f"{shown(entry.file_name)} ({shown(entry.id)})"
        if file is None:
            yield f"{name} is missing"
        elif file.bytes != entry.bytes:
            yield f"{name} must have {entry.bytes} bytes, found {file.bytes}"
        elif file.sha256.lower() != entry.sha256:
            yield f"{name} must have SHA-256 {entry.sha256}, found {file.sha256.lower()}"
