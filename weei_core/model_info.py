"""ModelInfo: what a model module tells about itself in `getModelInfo`, and the checks on it.

Every text in it comes from outside: its length is limited here, and it is escaped wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, Strict, model_validator

from weei_core import js_json, strict_json
from weei_core.aggregation import METHOD_IDS
from weei_core.errors import Invalid
from weei_core.schema_types import WHOLE, Count, Flag, Loose, One, Positive, Sha256, Text, validate
from weei_core.strict_json import shown

MAX_MODEL_INFO_BYTES = 256 * 1024
MAX_AVERAGE_ONLY_RANGES = 4096
MAX_AUXILIARY_SLOTS = 8
MAX_AUXILIARY_BYTES = 2**31
MAX_MODULE_WEIGHTS = 3 * 2**30
"""Auxiliary slots plus twice the weights: they lie in one WebAssembly memory, beside the working buffers."""
MAX_METRICS = 64
MAX_TENSORS = 4096
MAX_DIMENSIONS = 8
MAX_DATA_FORMATS = 64
MAX_MIME_TYPES = 16


class DataFormat(Loose):
    id: Text
    label: Text
    accepted_mime_types: Annotated[tuple[Text, ...], Field(max_length=MAX_MIME_TYPES)]


class MetricInfo(Loose):
    id: Text
    label: Text
    direction: Literal["minimize", "maximize"]


class ByteRange(Loose):
    """Float32 values of the weights, as bytes: both are multiples of 4."""

    offset: Annotated[Count, Field(json_schema_extra={"multipleOf": 4})]
    bytes: Annotated[Positive, Field(json_schema_extra={"multipleOf": 4})]

    @model_validator(mode="after")
    def _whole_floats(self) -> ByteRange:
        if self.offset % 4 or self.bytes % 4:
            raise ValueError(f"must have multiples of 4; found offset {self.offset}, bytes {self.bytes}")
        return self


class ModelAggregation(Loose):
    """How the weights may be merged. FedAvg is always allowed; without `methods` every method is."""

    methods: tuple[Annotated[str, Field(json_schema_extra={"enum": list(METHOD_IDS)})], ...] | None = None
    average_only: Annotated[tuple[ByteRange, ...], Field(max_length=MAX_AVERAGE_ONLY_RANGES)] | None = None

    @model_validator(mode="after")
    def _known_and_apart(self) -> ModelAggregation:
        for method in self.methods or ():
            if method not in METHOD_IDS:
                raise ValueError(f"must list methods out of {', '.join(METHOD_IDS)}; found {shown(method)}")
        end = 0
        for part in sorted(self.average_only or (), key=lambda part: part.offset):
            if part.offset < end:
                raise ValueError(
                    f"must have averageOnly ranges that do not overlap; found two that hold byte {part.offset}"
                )
            end = part.offset + part.bytes
        return self


class Capabilities(Loose):
    evaluation: Flag = False
    inference: Flag = False
    inspection: Flag = False
    record_ranges: Flag = False


class Unit(Loose):
    id: Text
    label: Text


class UnitsPerAssignment(Loose):
    default: Positive
    minimum: Positive
    maximum: Positive

    @model_validator(mode="after")
    def _in_order(self) -> UnitsPerAssignment:
        if not self.minimum <= self.default <= self.maximum:
            raise ValueError(
                "must have minimum, default and maximum in ascending order; "
                f"found {self.minimum}, {self.default}, {self.maximum}"
            )
        return self


class WorkSource(Loose):
    """The model makes its own training data ("none") or plays over the records of a dataset ("dataset")."""

    kind: Literal["experience"]
    inputs: Literal["none", "dataset"]
    unit: Unit
    units_per_assignment: UnitsPerAssignment
    evaluation_units: Count = 0


class SlotSource(Loose):
    """A snapshot of the job's own checkpoints: the first one, or the one `roundsAgo` rounds back."""

    kind: Literal["initial", "checkpoint"]
    rounds_ago: Count | None = None

    @model_validator(mode="after")
    def _rounds_for_checkpoints(self) -> SlotSource:
        if (self.kind == "checkpoint") != (self.rounds_ago is not None):
            raise ValueError('must have roundsAgo with kind "checkpoint", and only then')
        return self


class AuxiliarySlot(Loose):
    """Frozen weights beside the trained ones: a file known by its hash, or a snapshot."""

    id: Text
    role: Text
    bytes: Annotated[int, Strict(), Field(ge=4, le=MAX_AUXILIARY_BYTES, json_schema_extra={"multipleOf": 4}), WHOLE]
    sha256: Sha256 | None = None
    source: SlotSource | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> AuxiliarySlot:
        if self.bytes % 4:
            raise ValueError(f"must have a whole number of float32 values; found bytes {self.bytes}")
        if (self.sha256 is None) == (self.source is None):
            found = "neither" if self.sha256 is None else "both"
            raise ValueError(f"must have either sha256 or source; found {found}")
        return self


class NamedTensor(Loose):
    """A part of the weights: float32 values in row-major order. An empty shape is one number."""

    name: Text
    shape: Annotated[tuple[Positive, ...], Field(max_length=MAX_DIMENSIONS)]

    @model_validator(mode="after")
    def _usable_name(self) -> NamedTensor:
        if self.name == "__metadata__":  # safetensors keeps something else under it
            raise ValueError("must have names other than __metadata__ in tensors")
        return self

    @property
    def values(self) -> int:
        return prod(self.shape)


class ModelInfo(Loose):
    """What `getModelInfo` tells. `text` is the JSON text as the module wrote it, unknown fields included."""

    id: Text
    version: Text
    name: Text
    abi_version: One
    weight_format: Literal["float32-le"]
    max_workers: Positive
    max_chunk_bytes: Positive | None = None
    max_examples_per_chunk: Positive | None = None
    data_formats: Annotated[tuple[DataFormat, ...], Field(max_length=MAX_DATA_FORMATS)]
    metrics: Annotated[tuple[MetricInfo, ...], Field(max_length=MAX_METRICS)]
    aggregation: ModelAggregation | None = None
    capabilities: Capabilities = Capabilities()
    work_source: WorkSource | None = None
    auxiliary_weights: Annotated[tuple[AuxiliarySlot, ...], Field(max_length=MAX_AUXILIARY_SLOTS)] = ()
    inference: dict[str, Any] | None = None
    tensors: Annotated[tuple[NamedTensor, ...], Field(max_length=MAX_TENSORS)] = ()
    """What the weights consist of, in order and without gaps, for exports; empty: one tensor without a shape."""

    _text: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _ids_differ(self) -> ModelInfo:
        for field, entries in (
            ("dataFormats", self.data_formats),
            ("metrics", self.metrics),
            ("auxiliaryWeights", self.auxiliary_weights),
        ):
            ids = [entry.id for entry in entries]
            twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
            if twice is not None:
                raise ValueError(f"must have ids in {field} that differ; found {shown(twice)} twice")
        names = [tensor.name for tensor in self.tensors]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"must have names in tensors that differ; found {shown(twice)} twice")
        if self.reads_data and not self.data_formats:
            raise ValueError("must have at least one entry in dataFormats when the model reads data; found none")
        return self

    @property
    def text(self) -> str:
        return self._text

    @property
    def is_experience(self) -> bool:
        return self.work_source is not None

    @property
    def reads_data(self) -> bool:
        """Whether assignments carry chunks: dataset models, and experience over records."""
        return self.work_source is None or self.work_source.inputs == "dataset"

    @property
    def evaluation_units(self) -> int:
        """Units that one evaluation generates; 0 for models that read data, and for those that evaluate nothing."""
        if self.work_source is None or self.reads_data or not self.capabilities.evaluation:
            return 0
        return self.work_source.evaluation_units

    def can_evaluate(self, *, validation_file: bool) -> bool:
        """Whether a checkpoint can be evaluated: on a validation file, or on units that the model generates."""
        return self.evaluation_units > 0 or (self.reads_data and self.capabilities.evaluation and validation_file)

    @property
    def average_only(self) -> tuple[ByteRange, ...]:
        """Byte ranges of the weights that hold values not trained by gradient steps."""
        return (self.aggregation and self.aggregation.average_only) or ()

    @property
    def average_only_ranges(self) -> list[tuple[int, int]]:
        """The same as (offset, bytes), as `aggregation.merge` takes them."""
        return [(part.offset, part.bytes) for part in self.average_only]

    @property
    def metric_ids(self) -> frozenset[str]:
        return frozenset(metric.id for metric in self.metrics)


def parse_model_info(data: bytes | dict[str, Any]) -> ModelInfo:
    """Read the JSON that a module returned, or `modelInfo` out of a checkpoint's metadata."""
    raw = js_json.dumps(data).encode() if isinstance(data, dict) else data
    if len(raw) > MAX_MODEL_INFO_BYTES:
        raise Invalid(f"modelInfo must be at most {MAX_MODEL_INFO_BYTES} bytes; found {len(raw)}.", field="modelInfo")
    info = validate(ModelInfo, strict_json.loads(raw, what="modelInfo"), "modelInfo")
    info._text = raw.decode()
    return info


def check_against_weights(info: ModelInfo, weight_bytes: int) -> None:
    """What can be checked only when the size of the model's weights is known."""
    if weight_bytes <= 0 or weight_bytes % 4:
        raise Invalid(
            f"The initial weights must be a whole number of float32 values; found {weight_bytes} bytes.",
            field="weights",
        )
    if info.tensors and (named := sum(tensor.values for tensor in info.tensors)) != weight_bytes // 4:
        raise Invalid(
            f"modelInfo.tensors must name all {weight_bytes // 4} values of the weights; found {named}.",
            field="modelInfo.tensors",
        )
    _check_average_only_bounds(info, weight_bytes)
    check_slot_sizes(info.auxiliary_weights, weight_bytes, "modelInfo")


def _check_average_only_bounds(info: ModelInfo, weight_bytes: int) -> None:
    for index, part in enumerate(info.average_only):
        if part.offset + part.bytes > weight_bytes:
            field = f"modelInfo.aggregation.averageOnly[{index}]"
            raise Invalid(
                f"{field} must end within the {weight_bytes} bytes of the weights; "
                f"found offset {part.offset}, bytes {part.bytes}.",
                field=field,
            )


def check_slot_sizes(slots: Sequence[AuxiliarySlot], weight_bytes: int, where: str) -> None:
    """A snapshot is as large as the weights, and one memory holds all slots beside two copies of the weights."""
    for index, slot in enumerate(slots):
        if slot.source is not None and slot.bytes != weight_bytes:
            field = f"{where}.auxiliaryWeights[{index}].bytes"
            raise Invalid(
                f"{field} must be the {weight_bytes} bytes of the weights, since slot {shown(slot.id)} is a snapshot "
                f"of them; found {slot.bytes}.",
                field=field,
            )
    needed = sum(slot.bytes for slot in slots) + 2 * weight_bytes
    if needed > MAX_MODULE_WEIGHTS:
        field = f"{where}.auxiliaryWeights"
        raise Invalid(
            f"{field} and twice the weights must fit into {MAX_MODULE_WEIGHTS} bytes; found {needed}.", field=field
        )


def allowed_methods(info: ModelInfo) -> tuple[str, ...]:
    """Aggregation methods the model may be trained with; "fedavg" is always one of them."""
    listed = info.aggregation.methods if info.aggregation else None
    return tuple(method for method in METHOD_IDS if listed is None or method == "fedavg" or method in listed)


def same_declaration(a: ModelInfo, b: ModelInfo) -> bool:
    """Whether two answers of `getModelInfo` say the same, unknown fields included, whatever the order of the keys."""
    return _same_json(strict_json.loads(a.text), strict_json.loads(b.text))


def _same_json(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_json(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same_json, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b
