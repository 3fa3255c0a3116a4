"""The machine-readable form of Weei WASM ABI 1: what every operation is given and what it gives back.

`docs/abi.schema.json` is written from these models (`python -m weei_core.abi_schema`); the server, the browser
runtime, the agent and the reference models are tested against it. Prose is in docs/abi.md.
Fields stand in the order in which requests write their keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from weei_core import js_json
from weei_core.model_info import MAX_METRICS, ModelInfo
from weei_core.schema_types import Address, Count, Exact, Flag, Loose, Number, Positive, SeedText, Text

SCHEMA_FILE = Path(__file__).resolve().parent.parent / "docs" / "abi.schema.json"

Metrics = Annotated[dict[str, Number | None], Field(max_length=MAX_METRICS)]
"""Value by metric id. null is what JSON.stringify makes of a number that is not finite."""


class Buffer(Loose):
    """A range of the module's memory."""

    pointer: Address
    bytes: Address


# --- Requests ---


class Data(Exact):
    """A chunk, or a range of its records for models with `capabilities.recordRanges`."""

    pointer: Address
    bytes: Address
    format: Text
    record_start: Count | None = None
    record_count: Positive | None = None


class Experience(Exact):
    seed: SeedText
    unit_start: Count
    unit_count: Positive


class ModuleSettings(Exact):
    local_epochs: Positive
    batch_size: Positive
    learning_rate: Number | None = None


class Nothing(Exact):
    pass


class CreateInitialWeightsRequest(Exact):
    seed: SeedText


class LoadModelRequest(Exact):
    weights: Buffer


class LoadAuxiliaryRequest(Exact):
    id: Text
    weights: Buffer


class TrainOnDataRequest(Exact):
    data: Data
    settings: ModuleSettings
    round: Positive
    seed: SeedText


class TrainOnExperienceRequest(Exact):
    """`gpuBegin` is given the same."""

    experience: Experience
    settings: ModuleSettings
    round: Positive


class TrainOnRecordsRequest(Exact):
    """Experience over the records of a dataset."""

    data: Data
    experience: Experience
    settings: ModuleSettings
    round: Positive


class EvaluateOnDataRequest(Exact):
    data: Data
    settings: ModuleSettings


class EvaluateOnExperienceRequest(Exact):
    experience: Experience
    settings: ModuleSettings


class EvaluateOnRecordsRequest(Exact):
    data: Data
    experience: Experience
    settings: ModuleSettings


class InspectDataRequest(Exact):
    data: Data


class PredictRequest(Exact):
    input: dict[str, Any]


class GpuNextRequest(Exact):
    readback: dict[str, Buffer] | None = None


# --- Results ---


class Refusal(Loose):
    """Any operation may answer this instead of its result."""

    error: str


class Done(Loose):
    pass


class TrainResult(Loose):
    """`uniqueExamples` weighs the update in the average: records, each once; units finished for experience."""

    weights: Buffer
    metrics: Metrics
    examples_processed: Count
    unique_examples: Count
    optimizer_steps: Count | None = None


class EvaluateResult(Loose):
    metrics: Metrics
    examples_processed: Count


class InspectDataResult(Loose):
    example_count: Count


class PredictResult(Loose):
    output: dict[str, Any]


class DeviceBuffer(Loose):
    id: Text
    bytes: Positive
    initial: Buffer | None = None


class DevicePipeline(Loose):
    id: Text
    module: Text
    entry_point: Text
    bindings: tuple[Text, ...]


class DeviceStep(Loose):
    pipeline: Text
    workgroups: tuple[Positive, Positive, Positive]


class DeviceProgram(Loose):
    buffers: tuple[DeviceBuffer, ...]
    pipelines: tuple[DevicePipeline, ...]
    steps: tuple[DeviceStep, ...]
    readback: tuple[Text, ...]


class GpuBeginResult(Loose):
    program: DeviceProgram


class DeviceUpload(Loose):
    buffer: Text
    pointer: Address
    bytes: Address


class GpuUpdate(Loose):
    uploads: tuple[DeviceUpload, ...]
    steps: tuple[DeviceStep, ...] | None = None


class GpuDone(TrainResult):
    done: Flag


class ProgressReport(Loose):
    """What `weei.onProgress` is given."""

    processed_examples: Count
    total_examples: Count | None = None
    optimizer_steps: Count | None = None
    metrics: Metrics | None = None


class Operation(NamedTuple):
    requests: tuple[type[BaseModel], ...]
    results: tuple[type[BaseModel], ...]


OPERATIONS: dict[str, Operation] = {
    "getModelInfo": Operation((Nothing,), (ModelInfo,)),
    "createInitialWeights": Operation((CreateInitialWeightsRequest,), (Buffer,)),
    "loadModel": Operation((LoadModelRequest,), (Done,)),
    "loadAuxiliary": Operation((LoadAuxiliaryRequest,), (Done,)),
    "train": Operation((TrainOnDataRequest, TrainOnExperienceRequest, TrainOnRecordsRequest), (TrainResult,)),
    "evaluate": Operation(
        (EvaluateOnDataRequest, EvaluateOnExperienceRequest, EvaluateOnRecordsRequest), (EvaluateResult,)
    ),
    "inspectData": Operation((InspectDataRequest,), (InspectDataResult,)),
    "predict": Operation((PredictRequest,), (PredictResult,)),
    "gpuBegin": Operation((TrainOnExperienceRequest,), (GpuBeginResult,)),
    "gpuNext": Operation((GpuNextRequest,), (GpuDone, GpuUpdate)),
    "gpuEnd": Operation((Nothing,), (Done,)),
}


def abi_schema() -> dict[str, Any]:
    """One JSON Schema: a definition per model, and under "operations" which of them each operation takes and gives."""
    models: set[type[BaseModel]] = {Refusal, ProgressReport}
    for operation in OPERATIONS.values():
        models.update(operation.requests, operation.results)
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schema = models_json_schema([(model, "validation") for model in ordered], ref_template="#/$defs/{model}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weei WASM ABI 1",
        "operations": {
            name: {"request": _any_of(requests), "result": _any_of((*results, Refusal))}
            for name, (requests, results) in OPERATIONS.items()
        },
        "imports": {"weei.onProgress": _any_of((ProgressReport,))},
        "$defs": schema["$defs"],
    }


def _any_of(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in models]}


def schema_text() -> str:
    return js_json.dumps(abi_schema(), 2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
