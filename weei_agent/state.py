"""What the server says to a peer, typed. Fields this agent does not know are ignored, so that newer servers work."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weei_agent.outcomes import Exit, Stop


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class File(Part):
    sha256: str
    bytes: int


class Module(File):
    fileName: str = "model.wasm"


class Auxiliary(File):
    id: str


class Weights(File):
    inline: str | None = None
    """The bytes themselves in base64, when they are few."""


class Data(File):
    format: str
    recordStart: int | None = None
    recordCount: int | None = None


class Experience(Part):
    seed: str
    unitStart: int
    unitCount: int


class Assignment(Part):
    """Immutable; `attemptId` tells it from every other try at the same work."""

    attemptId: str
    assignmentId: str
    jobId: str
    round: int
    chunkId: str
    exampleCount: int
    moduleSha256: str
    weights: Weights
    data: Data | None = None
    experience: Experience | None = None
    auxiliary: list[Auxiliary] = []
    settings: str
    seed: str | None = None
    split: int = 1
    backend: str = "cpu-wasm"
    secondsLeft: float


class Wgsl(Part):
    present: bool = False
    sha256: list[str] = []


class Unit(Part):
    id: str
    label: str


class Job(Part):
    id: str
    name: str
    status: str
    round: int
    state: str
    ready: bool
    pausedByPeer: bool
    pausedByCoordinator: bool = False
    module: Module
    wgsl: Wgsl = Wgsl()
    """The job's shaders: told of, but not used here."""
    auxiliary: list[Auxiliary] = []
    unit: Unit | None = None
    """What an experience model plays; None for a dataset job."""
    stallMinutes: float
    waitingFor: str | None = None
    passesDone: float = 0
    plannedPasses: float = 0
    error: str | None = None


class PeerState(Part):
    peerId: str
    session: int
    job: Job | None
    assignment: Assignment | None


class DataSize(Part):
    chunks: int = 0
    bytes: int = 0
    examples: int = 0
    largestChunkBytes: int = 0


class Requirements(Part):
    requiredFeatures: list[str] = []
    minimumDeviceLimits: dict[str, Any] = {}
    estimatedWorkingBytes: int | None = None


class Invitation(Part):
    jobId: str
    jobName: str
    coordinator: str
    modelInfo: dict[str, Any]
    module: Module
    settings: dict[str, Any]
    auxiliary: list[Auxiliary] = []
    data: DataSize | None = None
    weightBytes: int
    requirements: Requirements = Requirements()
    state: str


Read = TypeVar("Read", bound=Part)


def read(what: type[Read], value: object) -> Read:
    """`value`, parsed JSON, as `what`; a server that speaks otherwise needs another version of the agent."""
    try:
        return what.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Stop(
            Exit.VERSION, f"This agent does not understand the server: {what.__name__}.{where}: {first['msg']}."
        ) from error
