"""What the calls of model packages answer, as OpenAPI describes it (peers/schemas.py says how)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from peers.schemas import Bytes, Count, EpochMs, Id, Sha256, Told, TrainingSettings


class PackageFileFacts(Told):
    kind: Literal["module", "manifest", "chunk", "validation"]
    fileName: str
    bytes: Bytes
    sha256: Sha256


class MadePackage(Told):
    """The files that were made last. All of them as a zip: `GET /bytes/packages/<packageId>`."""

    settings: TrainingSettings
    """Suggested for a job."""
    warnings: list[str]
    records: Count
    files: Count
    bytes: Bytes
    stale: bool
    """The request has changed since."""


class PackageRow(Told):
    """A model package being made from one data file."""

    packageId: Id
    sourceName: Annotated[str, Field(examples=["flowers.csv"])]
    format: Literal["", "text", "jsonl", "csv", "npz", "images"]
    """As chosen; "" where it is told from the file."""
    task: Literal["inspect", "preview", "make"]
    state: Literal["queued", "working", "done", "failed", "cancelled"]
    step: str
    done: Count
    total: Count
    error: str | None
    code: str | None
    field: str | None
    hasFiles: bool
    createdAt: EpochMs
    keptUntil: EpochMs
    """When it is removed if nobody asks anything of it."""


class Package(PackageRow):
    found: dict[str, Any] | None
    """What the file holds (docs/packages.md); null before it was looked at."""
    request: dict[str, Any] | None
    """What is to be made; first what the file suggests."""
    preview: dict[str, Any] | None
    """What the request would make, `stale` where it has changed since."""
    made: MadePackage | None
