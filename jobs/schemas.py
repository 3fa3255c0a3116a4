"""What the calls of coordinators answer, as OpenAPI describes it (peers/schemas.py says how)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from peers.schemas import (
    Bytes,
    Count,
    EpochMs,
    FilledSlot,
    Id,
    ModuleFile,
    ParticipantState,
    Role,
    Seed,
    Sentence,
    Sha256,
    Status,
    Told,
    TrainingSettings,
    absent,
)
from weei_core.model_info import ModelInfo

Round = Annotated[int, Field(ge=0, examples=[4])]
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T12:00:00.250Z"])]
Validation = Literal["none", "due", "running", "done", "failed"]


class Held(Told):
    """Which of the files need not be uploaded again."""

    held: list[Sha256]


class Draft(Told):
    """A job being made in the background. `failed` tells `error`, `code` and `field`; `done` tells `jobId`."""

    draftId: Id
    state: Literal["queued", "preparing", "done", "failed"]
    step: Annotated[str, Field(examples=["Checking the chunks"])]
    done: Count
    """Of `total` things of this step; 0 of 0 where nothing is counted."""
    total: Count
    error: str | None
    code: str | None
    field: str | None
    jobId: Id | None


class SavedJob(Told):
    id: Id
    name: Annotated[str, Field(examples=["Digits"])]
    status: Status
    modelId: str
    modelName: str
    round: Round
    """The round at work, or the last one; 0 before the first."""
    createdAt: EpochMs
    completedAt: EpochMs | None


class Place(Told):
    """What is left of a pass: the ids in `requeued`, then those of the order's chunks from position `cursor` on."""

    cursor: Count
    order: int | None
    """For `GET …/chunks?order=`; null: as the manifest lists them."""
    requeued: list[str]
    pass_: int = Field(alias="pass", ge=0)


class Progress(Told):
    datasetEpoch: Count
    plannedEpochs: Count
    remainingChunks: Count
    totalChunks: Count
    running: bool
    estimatedRemainingMs: Annotated[float, Field(ge=0)] = absent()


class ParticipantFacts(Told):
    label: Annotated[str, Field(examples=["Firefox 153 on Linux"])]
    role: Role
    connected: bool
    approved: bool
    trains: bool
    paused: bool
    state: ParticipantState
    error: str = absent("Why the model does not load there.")


class Participant(ParticipantFacts):
    """One row of the list of participants."""

    peerId: Id


class RoundSlot(Told):
    """One piece of work of the round at work."""

    peerId: Id
    chunkId: str
    status: Literal["loading", "training", "received", "stopped"]
    startedAt: EpochMs
    error: str = absent()


class HeldItem(Told):
    """Work that failed too often. `item` goes to retry-item or skip-item."""

    item: int
    position: Count
    errors: Count
    error: str


class JobFacts(SavedJob):
    """What a coordinator and a participant are told alike."""

    owner: str
    """The coordinator's device; "" before there is one."""
    info: ModelInfo
    settings: TrainingSettings
    incomplete: bool
    """Work was left out, or the job was finished early."""
    shuffled: bool
    transitioning: bool
    """The round's updates are being merged."""
    validating: list[Round]
    """Checkpoints whose evaluation was asked for and has not ended."""
    module: ModuleFile
    progress: Progress
    participants: dict[str, ParticipantFacts]
    """By peer id."""
    slots: list[RoundSlot]
    waitingFor: Sentence
    hasModuleFile: bool
    validationUnavailable: bool
    queue: Place | None
    """Null without data."""
    peers: list[Id]
    """Online guests that the coordinator knows, who can be invited."""


class Job(JobFacts):
    """A job as its coordinator may see it."""

    role: Literal["coordinator"]
    error: str | None
    seed: Seed
    hasValidationFile: bool
    canValidate: bool
    datasetEpoch: Count
    roundsDone: Count
    roundsEstimate: Count | None
    held: list[HeldItem]


class ParticipantJob(JobFacts):
    """A job as one participant may see it: participants and slots are its own, and nothing of the queue."""

    role: Literal["participant"]


class CurrentJob(Told):
    job: ParticipantJob | None


class CheckpointArtifact(Told):
    round: Round
    sha256: Sha256
    """Of the weights."""
    bytes: Bytes
    fileName: str


class Metrics(Told):
    values: dict[str, float]
    """By the metric's id."""
    examplesProcessed: Count


class AggregationState(Told):
    method: str
    step: Count
    bytes: Bytes


class Checkpoint(Told):
    artifact: CheckpointArtifact
    metrics: Metrics
    validation: Validation
    validationMetrics: Metrics = absent()
    validationError: str = absent()
    datasetEpoch: Count
    datasetProgress: float
    """Passes, with the part of the one at work."""
    remainingItems: Count
    remaining: Place | None
    nextUnit: int = absent("Experience jobs: the first unit that was not played.")
    settings: TrainingSettings
    aggregation: AggregationState = absent("Methods that keep a state.")
    createdAt: EpochMs


class Ledger(Told):
    """Everything that made a checkpoint, by value or hash: docs/formats.md has its members."""


class MetricValue(Told):
    label: str
    training: float | None
    checked: float | None


class CheckpointFiles(Told):
    """What a device needs to ask this checkpoint's model: files by hash, read at `/bytes/jobs/<jobId>/<sha256>`."""

    round: Round
    newest: Round
    weights: WeightFile
    auxiliary: list[FilledSlot]
    metrics: list[MetricValue]


class WeightFile(Told):
    sha256: Sha256
    bytes: Bytes


class Series(Told):
    """`values[i]` belongs to `rounds[i]`; null is a gap: not measured, never 0."""

    metric: str
    label: str
    direction: Literal["minimize", "maximize"]
    kind: Literal["training", "validation"]
    values: list[float | None]


class MetricSeries(Told):
    """Metrics by round, thinned to 2,000. Every list but `series` has one entry for each of `rounds`."""

    rounds: list[Round]
    series: list[Series]
    check: Annotated[str, Field(examples=["Validation"])]
    """What values of the kind "validation" are called for this job."""
    times: list[EpochMs]
    """When the checkpoint was saved."""
    started: EpochMs | None
    """When the job was started."""
    examples: list[Count]
    """Trained since the job's first checkpoint."""
    participants: list[int | None]
    """Whose update was merged; null for a checkpoint that no round made."""
    unit: str
    """What `examples` counts."""
    found: Count
    """Checkpoints in all; more than there are `rounds` when it was thinned."""


class Event(Told):
    id: int
    at: Instant
    event: Annotated[str, Field(examples=["checkpoint.saved"])]
    details: dict[str, Any] = absent()


class DebugLog(Told):
    """The last 1,000 events as a file; docs/debug-log.schema.json describes it in full."""

    schemaVersion: Literal[2]
    exportedAt: Instant
    baseline: dict[str, Any]
    events: list[dict[str, Any]]


class ChunkIds(Told):
    chunkIds: list[str]
    """By position in the order, from the position of the page on."""


class Invitation(Told):
    """A link. Its address is told when it is made, and never again."""

    id: Id
    uses: Count
    maxUses: Count
    expiresAt: EpochMs
    state: Literal["open", "used", "expired", "revoked"]


class NewInvitation(Invitation):
    url: Annotated[str, Field(examples=["https://weei.example/join/…/"])]


class StoredKind(Told):
    jobId: Id
    jobName: str
    kind: str
    files: Count
    bytes: Bytes


class Storage(Told):
    """What the server keeps for this person. `bytes` counts a file once that several jobs share."""

    bytes: Bytes
    uploads: Count
    uploadBytes: Bytes
    jobs: list[StoredKind]


class AdviceText(Told):
    code: str
    text: str


class CheckedSettings(Told):
    """The settings in their one form, and what is worth saying about them. Advice is never a refusal."""

    settings: TrainingSettings
    advice: list[AdviceText]


class PresetFacts(Told):
    """A shipped model. `url` is its description; its files lie beside it."""

    id: str
    name: str
    description: str
    url: str
    data: str


CheckpointFiles.model_rebuild()
