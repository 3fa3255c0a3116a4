"""From files to a job over the HTTP API: what is stored, what settings mean, the draft that becomes a job, the list."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field, WithJsonSchema

from checkpoints.selectors.storage import held_hashes, storage_inventory
from jobs import schemas
from jobs.models import Job, JobDraft
from jobs.selectors.access import draft_for_owner
from jobs.selectors.advice import draft_advice
from jobs.selectors.job_json import saved_job_json, storage_json
from jobs.selectors.kind import DATASET, Kind
from jobs.selectors.presets import presets
from jobs.services.drafts import draft_create, draft_json, draft_retry
from peers.answers import PAGE, PAGED, Cursor, Limit, Page, as_made, by_time, part
from peers.api import person_auth
from peers.schemas import SETTINGS_EXAMPLE
from weei_core.errors import Invalid
from weei_core.model_info import WorkSource
from weei_core.schema_types import validate
from weei_core.training_settings import parse_settings

router = Router(tags=["new jobs"], auth=person_auth)
router.add_decorator(as_made)
MAX_FILES = 10_100

Settings = Annotated[dict[str, Any], WithJsonSchema({"x-schema": "TrainingSettings"})]
"""Read by weei_core alone, whose sentences name the field and what the model allows."""


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class FileBody(Body):
    """A file that was uploaded before (docs/protocol.md, HTTP bytes), or that a job of this person has."""

    fileName: str = Field(min_length=1, max_length=255)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-fA-F]{64}$")


class HeldBody(Body):
    hashes: list[str] = Field(max_length=MAX_FILES)


class CreateBody(Body):
    name: str | None = Field(None, max_length=120)
    module: FileBody
    manifest: FileBody
    files: list[FileBody] = Field([], max_length=MAX_FILES)
    validation: FileBody | None = None
    executionFiles: list[FileBody] = Field([], max_length=8)
    settings: Settings
    checkpoint: FileBody | None = None
    datasetMode: Literal["new", "resume"] | None = None


class SettingsBody(Body):
    """`workSource` is that of an experience model's package. The other facts are for the advice."""

    model_config = ConfigDict(json_schema_extra={"example": {"settings": SETTINGS_EXAMPLE, "chunks": 40}})

    settings: Settings
    workSource: dict[str, Any] | None = None
    chunks: int = Field(0, ge=0, le=10_000)
    largestExamples: int = Field(1, ge=1, le=2**31 - 1)
    hasValidation: bool = False


def _user_id(request: HttpRequest) -> int:
    assert request.user.pk is not None
    return request.user.pk


@router.post("/artifacts/held", response=schemas.Held)
def held_files(request: HttpRequest, payload: HeldBody) -> dict[str, list[str]]:
    """Which of these the person has uploaded before, or has in a job."""
    return {"held": sorted(held_hashes(_user_id(request), payload.hashes))}


@router.get("/jobs", response=list[schemas.SavedJob], tags=["jobs"], openapi_extra=PAGED)
def list_jobs(request: HttpRequest, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """All jobs of this person, newest first."""
    rows, further = by_time(Job.objects.filter(owner_id=_user_id(request)).select_related("module"), limit, cursor)
    return Page([saved_job_json(job) for job in rows], further)


@router.post("/jobs", response={202: schemas.Draft})
def create_job(request: HttpRequest, payload: CreateBody) -> Status[dict[str, Any]]:
    """Begin making a job from uploaded files; the draft tells how it goes."""
    body = payload.model_dump(exclude_none=True)
    named = [payload.module, payload.manifest, *payload.files, *payload.executionFiles]
    named += [file for file in (payload.validation, payload.checkpoint) if file is not None]
    hashes = {file.sha256.lower() for file in named}
    missing = hashes - held_hashes(_user_id(request), list(hashes))
    if missing:
        names = sorted(file.fileName for file in named if file.sha256.lower() in missing)
        raise Invalid(f"Not uploaded yet: {', '.join(names[:5])}.", field="files", code="not_uploaded", files=names)
    return Status(202, draft_json(draft_create(request.user, body)))


@router.get("/drafts", response=list[schemas.Draft], openapi_extra=PAGED)
def list_drafts(request: HttpRequest, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """Jobs being made and made, and those that failed, newest first."""
    rows, further = by_time(JobDraft.objects.filter(owner_id=_user_id(request)), limit, cursor)
    return Page([draft_json(row) for row in rows], further)


@router.get("/drafts/{draft_id}", response=schemas.Draft)
def get_draft(request: HttpRequest, draft_id: UUID) -> dict[str, Any]:
    """How the making goes. It may be asked again and again; twice a second is often enough."""
    return draft_json(draft_for_owner(request.user, draft_id))


@router.post("/drafts/{draft_id}/retry", response={202: schemas.Draft})
def retry_draft(request: HttpRequest, draft_id: UUID) -> Status[dict[str, Any]]:
    """A failed draft's request again, as a new draft."""
    return Status(202, draft_json(draft_retry(draft_for_owner(request.user, draft_id))))


@router.get("/presets", response=list[schemas.PresetFacts], openapi_extra=PAGED)
def list_presets(request: HttpRequest, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """The shipped models that a new job can be filled from, by name."""
    shown, further = part(presets(), limit, cursor)
    return Page([asdict(preset) for preset in shown], further)


@router.post("/settings/check", response=schemas.CheckedSettings)
def check_settings(request: HttpRequest, payload: SettingsBody) -> dict[str, Any]:
    """Whether settings fit the kind of job, before anything is uploaded. Changes nothing."""
    kind = DATASET if payload.workSource is None else Kind(validate(WorkSource, payload.workSource, "workSource"))
    checked = parse_settings(payload.settings, for_experience=kind.experience).to_json()
    facts = payload.model_dump(include={"chunks", "largestExamples", "hasValidation"})
    return {
        "settings": checked,
        "advice": [{"code": advice.code, "text": advice.text} for advice in draft_advice(checked, facts, kind)],
    }


@router.get("/storage", response=schemas.Storage)
def storage(request: HttpRequest) -> dict[str, Any]:
    """What the server keeps for this person, by job and kind."""
    return storage_json(storage_inventory(_user_id(request)))
