"""The configuration of a base module: its bytes (lib/config.h), its ModelInfo, and the module that has it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from weei_core import js_json
from weei_core.errors import Invalid
from weei_core.generator.architectures import Architecture, Configurable, MlpArchitecture
from weei_core.generator.wasm_edit import PAGE_BYTES, configured, memory_limits
from weei_core.model_info import parse_model_info
from weei_core.strict_json import JsonValue, shown

BASE_MODULES = Path(__file__).resolve().parents[2] / "reference_models"
TOKENS_FORMAT, ROWS_FORMAT = "weei-tokens", "weei-rows"
MAX_CLASS_NAME_BYTES = 200

Statistics = Sequence[tuple[float, float]]
"""Per column its mean and the scale that multiplies what is left of a value without it."""

_MAGIC = 0x47464357
_VERSION = 1
_HEADER = struct.Struct("<12I")
_FLOAT32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_TOKENIZERS = ("bytes", "characters", "bpe")


def segment(kind: int, info: Mapping[str, JsonValue], values: Sequence[float], blob: bytes) -> bytes:
    """The bytes that a module of `kind` reads at its start."""
    written = bytearray(_HEADER.size)

    def append(part: bytes) -> int:
        written.extend(bytes(-len(written) % 8))
        written.extend(part)
        return len(written) - len(part)

    text = js_json.dumps(info).encode()
    places = [append(text), len(text), append(struct.pack(f"<{len(values)}d", *values)), len(values)]
    places += [append(blob), len(blob)]
    _HEADER.pack_into(written, 0, _MAGIC, _VERSION, len(written), kind, *places, 0, 0)
    return bytes(written)


def blob_of(segment: bytes) -> bytes:
    """The vocabulary, or the names and statistics, that `segment` was made of."""
    at, size = _HEADER.unpack_from(segment)[8:10]
    return segment[at : at + size]


def configured_module(
    architecture: Configurable, info: Mapping[str, JsonValue], blob: bytes, *, batch_size: int, max_chunk_bytes: int
) -> bytes:
    """The base module of `architecture` with its configuration. The same arguments give the same bytes.

    `blob` is a tokenizer's vocabulary, or what `mlp_blob` made. The declared maximum of memory is what a training with
    this batch size on a chunk of this size takes. `Invalid` when `info` is no ModelInfo or something is too large.
    """
    parse_model_info(js_json.dumps(info).encode())
    base = (BASE_MODULES / architecture.base_module / f"{architecture.base_module}.wasm").read_bytes()
    limits = memory_limits(base)
    pages = -(-architecture.memory_bytes(batch_size, max_chunk_bytes) // PAGE_BYTES)
    described = {"info": info, "architecture": architecture.to_json(), "tokenizer": _tokenizer(architecture, blob)}
    return configured(
        base,
        segment(architecture.config_kind, info, architecture.values(), blob),
        section=js_json.dumps(described).encode(),
        initial_pages=limits.initial,
        maximum_pages=max(limits.initial, pages),
    )


def model_info(
    architecture: Architecture,
    *,
    id: str,
    name: str,
    version: str = "1.0.0",
    max_chunk_bytes: int,
    max_examples_per_chunk: int,
    inference: Mapping[str, JsonValue],
    whole_answers: bool = False,
) -> dict[str, JsonValue]:
    """ModelInfo of a configured module. `inference` describes the form of an input and stands there as it is given.

    `whole_answers`: records say where their answer begins, so that the share of records answered without a mistake
    is a metric as well.
    """
    rows = isinstance(architecture, MlpArchitecture)
    return {
        "id": id,
        "version": version,
        "name": name,
        "abiVersion": 1,
        "weightFormat": "float32-le",
        "maxWorkers": 1,
        "maxChunkBytes": max_chunk_bytes,
        "maxExamplesPerChunk": max_examples_per_chunk,
        "dataFormats": [
            {
                "id": ROWS_FORMAT if rows else TOKENS_FORMAT,
                "label": "Rows of numbers with their targets" if rows else "Records of tokens",
                "acceptedMimeTypes": ["application/octet-stream"],
            }
        ],
        "metrics": _metrics(architecture, whole_answers),
        "aggregation": {"averageOnly": []},  # every weight is trained
        "capabilities": {"evaluation": True, "inference": True, "inspection": True, "recordRanges": True},
        "inference": dict(inference),
        "tensors": named_tensors(architecture),
    }


def named_tensors(architecture: Configurable) -> list[JsonValue]:
    """ModelInfo.tensors."""
    return [{"name": name, "shape": list(shape)} for name, shape in architecture.tensors()]


def _metrics(architecture: Architecture, whole_answers: bool) -> list[JsonValue]:
    regression = isinstance(architecture, MlpArchitecture) and architecture.task == "regression"
    found: list[JsonValue] = [{"id": "loss", "label": "Loss", "direction": "minimize"}]
    if regression:
        return [*found, {"id": "mae", "label": "Mean absolute error", "direction": "minimize"}]
    found.append({"id": "accuracy", "label": "Accuracy", "direction": "maximize"})
    if whole_answers and not isinstance(architecture, MlpArchitecture):
        found.append({"id": "exact", "label": "Whole answers right", "direction": "maximize"})
    return found


def mlp_blob(
    architecture: MlpArchitecture,
    *,
    classes: Sequence[str] = (),
    input_statistics: Statistics = (),
    output_statistics: Statistics = (),
) -> bytes:
    """Names and statistics as the module `mlp` reads them: `classes` for a classification, `input_statistics` for
    float32 inputs, `output_statistics` for a regression; each as long as the architecture says, else empty.
    """
    regression = architecture.task == "regression"
    written = [] if regression else [struct.pack("<I", len(classes))]
    _check_length(classes, "classes", 0 if regression else architecture.outputs)
    written += [_named(name, f"classes[{index}]") for index, name in enumerate(classes)]
    if len(set(classes)) < len(classes):
        twice = next(name for name in classes if classes.count(name) > 1)
        raise Invalid(f"classes must be names that differ; found {shown(twice)} twice.", field="classes")
    for field, statistics, expected in (
        ("inputStatistics", input_statistics, architecture.inputs if architecture.input_kind == "float32" else 0),
        ("outputStatistics", output_statistics, architecture.outputs if regression else 0),
    ):
        _check_length(statistics, field, expected)
        written += [_statistic(mean, scale, f"{field}[{i}]") for i, (mean, scale) in enumerate(statistics)]
    return b"".join(written)


def _check_length(found: Sequence[object], field: str, expected: int) -> None:
    if len(found) != expected:
        raise Invalid(f"{field} must have {expected} entries for this architecture; found {len(found)}.", field=field)


def _named(name: str, field: str) -> bytes:
    data = name.encode(errors="surrogatepass")
    if not 1 <= len(data) <= MAX_CLASS_NAME_BYTES or min(data) < 0x20 or any("\ud800" <= c <= "\udfff" for c in name):
        raise Invalid(
            f"{field} must be 1 to {MAX_CLASS_NAME_BYTES} bytes of text without control characters; "
            f"found {shown(name)}.",
            field=field,
        )
    return struct.pack("<I", len(data)) + data


def _statistic(mean: float, scale: float, field: str) -> bytes:
    if abs(mean) <= _FLOAT32_MAX and 0 < scale <= _FLOAT32_MAX:
        written = struct.pack("<ff", mean, scale)
        if struct.unpack("<ff", written)[1] > 0:
            return written
    raise Invalid(f"{field} must be a mean and a positive scale as float32; found {mean} and {scale}.", field=field)


def _tokenizer(architecture: Configurable, blob: bytes) -> str | None:
    if isinstance(architecture, MlpArchitecture):
        return None
    kind = int.from_bytes(blob[:4], "little")
    if len(blob) < 16 or kind >= len(_TOKENIZERS):
        raise Invalid(f"The vocabulary must begin with its kind, 0 to {len(_TOKENIZERS) - 1}; found {kind}.")
    return _TOKENIZERS[kind]
