"""What the calls of peers answer, as OpenAPI and AsyncAPI describe it. Services make these objects as they stand
(peers/answers.py); tests compare the two."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from weei_core.model_info import ModelInfo


def absent(description: str | None = None) -> Any:
    """A member that is left out where there is nothing to tell; it is never null."""
    return Field(None, description=description, json_schema_extra=lambda schema: schema.pop("default", None))


class Told(BaseModel):
    """What the server tells. More members may come with any version; readers pass over those that they do not know."""

    model_config = ConfigDict(use_attribute_docstrings=True)


Id = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=["5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"])]
Sha256 = Annotated[
    str,
    Field(pattern="^[0-9a-f]{64}$", examples=["c16372899a2906d5f8ddcbd6371a6e2315909b9a7195368ed55793904e9b33d3"]),
]
Count = Annotated[int, Field(ge=0, examples=[4])]
Bytes = Annotated[int, Field(ge=0, description="Bytes.", examples=[20480])]
EpochMs = Annotated[int, Field(description="Milliseconds since 1970, UTC.", examples=[1764421200000])]
Seed = Annotated[str, Field(pattern="^[0-9]{1,20}$", description="A u64 as decimal text.", examples=["42"])]
Status = Literal["ready", "running", "paused", "completed"]
Role = Literal["coordinator", "participant"]
MembershipState = Literal["invited", "approved", "declined", "modelLoaded", "modelLoadFailed", "left", "removed"]
ParticipantState = Literal[
    "invited",
    "approved",
    "declined",
    "unknown",
    "disconnected",
    "modelLoaded",
    "assigned",
    "training",
    "updateReady",
    "resultReceived",
    "stopped",
    "modelLoadFailed",
]
PeerJobState = Literal[ParticipantState, "left", "removed"]
Sentence = Annotated[str, Field(examples=["Waiting for participants."])]


class NewPeer(Told):
    """A guest peer. The token is told this once."""

    peerId: Id
    token: Annotated[str, Field(examples=["Zk3pTtqv0x1mVYw8o2yD5A"])]
    """The bearer of every later call of this peer."""


class SiteFacts(Told):
    """What a page of the asking origin may do, and for whom it acts."""

    origin: Annotated[str | None, Field(examples=["https://example.org"])]
    """The asking origin; null on the server's own pages."""
    training: bool
    """Whether the page may use the widget."""
    reason: str | None
    """The sentence why not."""
    user: str | None
    """The name of the user for whom it acts."""


class ConnectedSite(Told):
    """A site that may act for this person. Its token is not told again."""

    tokenId: Id
    origin: str
    name: str
    createdAt: EpochMs
    expiresAt: EpochMs
    usedAt: EpochMs | None


class ModuleFile(Told):
    fileName: Annotated[str, Field(examples=["digits.wasm"])]
    bytes: Bytes
    sha256: Sha256


class AuxiliaryFile(Told):
    """A slot of the model that a file fills."""

    id: str
    role: str
    fileName: str
    bytes: Bytes
    sha256: Sha256


class FilledSlot(Told):
    """What fills a slot in this round: a file, or weights of an earlier checkpoint."""

    id: str
    sha256: Sha256
    bytes: Bytes


class Shaders(Told):
    """The shaders of the package's WGSL archive, when the coordinator gave the archive to the job."""

    present: bool
    sha256: list[Sha256]


class PlayedUnit(Told):
    """What an experience model plays."""

    id: str
    label: Annotated[str, Field(examples=["Games"])]


class PeerJob(Told):
    """The job that this peer takes part in."""

    id: Id
    name: Annotated[str, Field(examples=["Digits"])]
    status: Status
    round: Count
    role: Role
    trains: bool
    """Whether it is given assignments."""
    state: PeerJobState
    ready: bool
    """Whether it told that it holds the files of the job as they are now."""
    pausedByPeer: bool
    pausedByCoordinator: bool
    module: ModuleFile
    wgsl: Shaders
    auxiliary: list[AuxiliaryFile]
    unit: PlayedUnit | None
    """Null for a dataset job."""
    workers: Count
    """The coordinator's setting."""
    stallMinutes: Annotated[float, Field(ge=0, examples=[10])]
    waitingFor: Sentence | None
    passesDone: Count
    """Passes over the data; rounds in an experience job. So are `plannedPasses`."""
    plannedPasses: Count
    error: str | None
    """Why the model does not load here."""


class Weights(Told):
    sha256: Sha256
    bytes: Bytes
    inline: str = absent("The bytes as base64, when they are at most 16 KiB.")


class ChunkPart(Told):
    """The data of an assignment: a whole chunk, or some of its records."""

    sha256: Sha256
    bytes: Bytes
    format: Annotated[str, Field(examples=["digits-8x8"])]
    recordStart: int = absent("With `recordCount`: only these records.")
    recordCount: int = absent()


class UnitRange(Told):
    seed: Seed
    unitStart: Count
    unitCount: Count


class Assignment(Told):
    """One piece of work. Immutable but for `secondsLeft`; `attemptId` fences everything that the peer sends for it."""

    attemptId: Id
    assignmentId: str
    jobId: Id
    round: Count
    chunkId: Annotated[str, Field(examples=["chunk-003"])]
    """The chunk, or `units-<start>-<end>` for one without data."""
    exampleCount: Count
    moduleSha256: Sha256
    weights: Weights
    data: ChunkPart | None
    experience: UnitRange | None
    auxiliary: list[FilledSlot]
    """All slots in declared order."""
    settings: Annotated[str, Field(examples=['{"localEpochs":2,"batchSize":16,"learningRate":0.1}'])]
    """JSON text that goes into the module's request as it stands."""
    seed: Seed
    split: Annotated[int, Field(ge=1)]
    """Into how many ranges the work is divided."""
    backend: Annotated[str, Field(examples=["cpu-wasm"])]
    secondsLeft: Count


class PeerState(Told):
    """All that a peer is told. Always whole."""

    peerId: Id
    session: int
    """Which tab trains: the number of the newest hello with `train`."""
    invitations: list[Id]
    """Jobs that it is invited to, oldest first."""
    job: PeerJob | None
    assignment: Assignment | None


class DataFacts(Told):
    chunks: Count
    bytes: Bytes
    examples: Count
    largestChunkBytes: Bytes


class Requirements(Told):
    """What the package says that a device must have for the CPU."""

    requiredFeatures: list[str]
    minimumDeviceLimits: dict[str, Any]
    estimatedWorkingBytes: int | None


class InvitationFacts(Told):
    """What a person sees before accepting. Nothing of it needs a download."""

    jobId: Id
    jobName: str
    coordinator: Annotated[str, Field(examples=["alice"])]
    owner: str
    """The coordinator's device; "" before there is one."""
    modelInfo: ModelInfo
    module: ModuleFile
    settings: TrainingSettings
    auxiliary: list[AuxiliaryFile]
    data: DataFacts
    weightBytes: Bytes
    requirements: Requirements
    state: MembershipState


class ValidationSchedule(BaseModel):
    enabled: bool
    unit: Literal["round", "epoch"]
    every: Annotated[int, Field(ge=1, le=2**31 - 1)]


class Aggregation(BaseModel):
    """How updates become the next weights; the options that belong to no method are left out."""

    method: Literal["fedavg", "fedavgm", "fedadam"]
    serverLearningRate: float = absent()
    momentum: float = absent()
    beta1: float = absent()
    beta2: float = absent()
    epsilon: float = absent()


class Experience(BaseModel):
    unitsPerAssignment: Annotated[int, Field(ge=1, le=2**31 - 1)]


SETTINGS_EXAMPLE: dict[str, Any] = {
    "epochs": 3,
    "localEpochs": 1,
    "batchSize": 16,
    "learningRate": 0.1,
    "coordinatorParticipates": False,
}


class TrainingSettings(BaseModel):
    """What a coordinator chooses for a job."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={"example": SETTINGS_EXAMPLE},
    )

    epochs: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """Passes over the data; in an experience job the last round, counted from the job's very first."""
    localEpochs: Annotated[int, Field(ge=1, le=2**31 - 1)]
    batchSize: Annotated[int, Field(ge=1, le=2**31 - 1)]
    coordinatorParticipates: bool
    learningRate: Annotated[float, Field(ge=0, le=1e6)] = absent("Left out: the model's own.")
    validationSchedule: ValidationSchedule = absent()
    aggregation: Aggregation = absent("Left out: FedAvg.")
    experience: Experience = absent("Experience jobs only.")
    workers: Annotated[int, Field(ge=1, le=64)] = absent("Training Workers of a device at most; left out: 1.")
    stragglerFactor: Annotated[float, Field(ge=0, le=1000)] = absent(
        "How many times the median a piece of work may take; 0: no limit, left out: 5."
    )
    seed: Seed = absent("Left out: drawn. It cannot change later.")


InvitationFacts.model_rebuild()
