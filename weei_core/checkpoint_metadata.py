"""The metadata of a checkpoint file: what it must say, and the text that this product writes.

Fields that nobody here knows are kept and ignored, so that files of newer versions load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weei_core import js_json
from weei_core.aggregation import MAX_STEP, STATEFUL_METHOD_IDS, method_named
from weei_core.errors import Invalid
from weei_core.seeds import format_seed, parse_seed
from weei_core.strict_json import (
    EXACT_INT,
    JsonValue,
    as_bool,
    as_choice,
    as_int,
    as_list,
    as_number,
    as_object,
    as_sha256,
    as_text,
)
from weei_core.weights import FLOAT_BYTES

MAX_FILE_BYTES = 268_435_456
# Rounds and units are counted on from the file's; these leave room below what columns and doubles hold exactly.
MAX_ROUND = 1_000_000_000
MAX_NEXT_UNIT = 2**52

_NAME_BYTES = 255
_ID_BYTES = 1024

Check = Callable[[dict[str, JsonValue]], object]
"""Raises `Invalid` for a part of the metadata that another module owns."""


@dataclass(frozen=True)
class Parts:
    """What the metadata says of the blocks behind it. Version 1 has no state: 0 bytes, no hash."""

    round: int
    weights_bytes: int
    weights_sha256: str
    state_bytes: int
    state_sha256: str | None


@dataclass(frozen=True)
class Artifact:
    """Stored bytes as the metadata names them."""

    artifact_id: str
    file_name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class AggregationState:
    method: str
    step: int
    bytes: int
    sha256: str


def build_metadata(
    *,
    job_id: str,
    module: Artifact,
    model_info: Mapping[str, object],
    settings: Mapping[str, object],
    round_number: int,
    weights: Artifact,
    metrics: Mapping[str, float],
    examples_processed: int,
    incomplete: bool,
    chunk_order: Sequence[str] | None = None,
    trained_chunk_ids: Sequence[str] | None = None,
    remaining_chunk_ids: Sequence[str] | None = None,
    remaining_work_items: Mapping[str, Mapping[str, object]] | None = None,
    job_seed: int | None = None,
    next_unit: int | None = None,
    auxiliary_weights: Mapping[str, str] | None = None,
    aggregation_state: AggregationState | None = None,
) -> bytes:
    """The metadata text of this product's own files, byte for byte what `JSON.stringify` gives.

    None leaves a field out. `job_seed` and `next_unit` come together, for experience jobs.
    """
    optional = {
        "chunkOrder": chunk_order,
        "trainedChunkIds": trained_chunk_ids,
        "remainingChunkIds": remaining_chunk_ids,
        "remainingWorkItems": remaining_work_items,
        "experience": None if job_seed is None else {"jobSeed": format_seed(job_seed), "nextUnit": next_unit},
        "auxiliaryWeights": auxiliary_weights,
        "aggregationState": None if aggregation_state is None else vars(aggregation_state),
    }
    metadata = {
        "version": 1 if aggregation_state is None else 2,
        "jobId": job_id,
        "module": {
            "artifactId": module.artifact_id,
            "fileName": module.file_name,
            "bytes": module.bytes,
            "sha256": module.sha256,
        },
        "modelInfo": model_info,
        "settings": settings,
        "round": round_number,
        "checkpoint": {
            "artifactId": weights.artifact_id,
            "kind": "checkpoint",
            "fileName": weights.file_name,
            "format": "float32-le",
            "bytes": weights.bytes,
            "sha256": weights.sha256,
            "round": round_number,
        },
        "metrics": {"values": metrics, "examplesProcessed": examples_processed},
        "incomplete": incomplete,
    } | {key: value for key, value in optional.items() if value is not None}
    return js_json.dumps(metadata).encode()


def described_parts(metadata: dict[str, JsonValue]) -> Parts:
    version = as_int(metadata.get("version"), "version", 1, 2)
    round_number = as_int(metadata.get("round"), "round", 0, MAX_ROUND)
    weights_bytes, weights_sha256 = _check_weights(metadata, round_number)
    state_bytes, state_sha256 = _check_state(metadata, version, weights_bytes)
    return Parts(round_number, weights_bytes, weights_sha256, state_bytes, state_sha256)


def check_contents(metadata: dict[str, JsonValue], *, check_model_info: Check, check_settings: Check) -> None:
    check_model_info(as_object(metadata.get("modelInfo"), "modelInfo"))
    check_settings(as_object(metadata.get("settings"), "settings"))
    _check_metrics(metadata)
    _check_progress(metadata)
    _check_origin(metadata)


def _check_weights(metadata: dict[str, JsonValue], round_number: int) -> tuple[int, str]:
    """(bytes, sha256) of the weights."""
    weights = as_object(metadata.get("checkpoint"), "checkpoint")
    as_choice(weights.get("format"), "checkpoint.format", ("float32-le",))
    size = as_int(weights.get("bytes"), "checkpoint.bytes", FLOAT_BYTES, MAX_FILE_BYTES)
    if size % FLOAT_BYTES:
        raise Invalid(f"checkpoint.bytes must be a multiple of {FLOAT_BYTES}; found {size}.", field="checkpoint.bytes")
    if "kind" in weights:
        as_choice(weights["kind"], "checkpoint.kind", ("checkpoint",))
    if "round" in weights:
        as_int(weights["round"], "checkpoint.round", round_number, round_number)
    _check_names(weights, "checkpoint")
    return size, as_sha256(weights.get("sha256"), "checkpoint.sha256")


def _check_state(metadata: dict[str, JsonValue], version: int, weights_bytes: int) -> tuple[int, str | None]:
    """(bytes, sha256) of the state; (0, None) in version 1."""
    if version == 1:
        if "aggregationState" in metadata:
            raise Invalid("aggregationState needs version 2; found version 1.", field="aggregationState")
        return 0, None
    state = as_object(metadata.get("aggregationState"), "aggregationState")
    method = method_named(as_choice(state.get("method"), "aggregationState.method", STATEFUL_METHOD_IDS))
    as_int(state.get("step"), "aggregationState.step", 1, MAX_STEP)
    size = weights_bytes * method.state_vectors
    as_int(state.get("bytes"), "aggregationState.bytes", size, size)
    return size, as_sha256(state.get("sha256"), "aggregationState.sha256")


def _check_metrics(metadata: dict[str, JsonValue]) -> None:
    metrics = as_object(metadata.get("metrics"), "metrics")
    for metric_id, value in as_object(metrics.get("values"), "metrics.values").items():
        as_number(value, f"metrics.values.{as_text(metric_id, 'a key of metrics.values', _NAME_BYTES)}")
    as_int(metrics.get("examplesProcessed"), "metrics.examplesProcessed", 0, EXACT_INT)


def _check_progress(metadata: dict[str, JsonValue]) -> None:
    """Dataset progress: all parts may be absent, and lists may be empty."""
    if "incomplete" in metadata:
        as_bool(metadata["incomplete"], "incomplete")
    _ids(metadata, "chunkOrder")
    trained, remaining = _ids(metadata, "trainedChunkIds"), _ids(metadata, "remainingChunkIds")
    if ("trainedChunkIds" in metadata) != ("remainingChunkIds" in metadata):
        raise Invalid("trainedChunkIds and remainingChunkIds must come together; found one.", field="remainingChunkIds")
    if trained & remaining:
        raise Invalid(
            f"trainedChunkIds and remainingChunkIds must not overlap; found {min(trained & remaining)} in both.",
            field="remainingChunkIds",
        )
    if "remainingWorkItems" in metadata:
        for key, item in as_object(metadata["remainingWorkItems"], "remainingWorkItems").items():
            _check_work_item(key, item, remaining)


def _ids(metadata: dict[str, JsonValue], field: str) -> set[str]:
    values = as_list(metadata.get(field, []), field)
    ids = {as_text(value, f"an id in {field}", _ID_BYTES) for value in values}
    if len(ids) < len(values):
        raise Invalid(f"{field} must name each id once; found {len(values) - len(ids)} repeated.", field=field)
    return ids


def _check_work_item(key: str, value: JsonValue, remaining: set[str]) -> None:
    if key not in remaining:
        raise Invalid(
            f"Every key of remainingWorkItems must be in remainingChunkIds; found {key[:_NAME_BYTES]}.",
            field="remainingWorkItems",
        )
    item = as_object(value, "an entry of remainingWorkItems")
    as_choice(item.get("partitionId"), "partitionId in remainingWorkItems", (key,))
    as_text(item.get("sourceChunkId"), "sourceChunkId in remainingWorkItems", _ID_BYTES)
    as_int(item.get("recordStart"), "recordStart in remainingWorkItems", 0, EXACT_INT)
    as_int(item.get("recordCount"), "recordCount in remainingWorkItems", 1, EXACT_INT)


def _check_origin(metadata: dict[str, JsonValue]) -> None:
    """What says where the checkpoint comes from. Another implementation may leave it out, but not put it wrong."""
    if "jobId" in metadata:
        as_text(metadata["jobId"], "jobId", _NAME_BYTES)
    if "module" in metadata:
        module = as_object(metadata["module"], "module")
        as_int(module.get("bytes"), "module.bytes", 1, EXACT_INT)
        as_sha256(module.get("sha256"), "module.sha256")
        _check_names(module, "module")
    if "experience" in metadata:
        experience = as_object(metadata["experience"], "experience")
        parse_seed(experience.get("jobSeed"), "experience.jobSeed")
        as_int(experience.get("nextUnit"), "experience.nextUnit", 0, MAX_NEXT_UNIT)
    if "auxiliaryWeights" in metadata:
        for slot, sha256 in as_object(metadata["auxiliaryWeights"], "auxiliaryWeights").items():
            as_sha256(sha256, f"auxiliaryWeights.{as_text(slot, 'a key of auxiliaryWeights', _NAME_BYTES)}")


def _check_names(artifact: dict[str, JsonValue], field: str) -> None:
    for name in ("artifactId", "fileName"):
        if name in artifact:
            as_text(artifact[name], f"{field}.{name}", _NAME_BYTES)
