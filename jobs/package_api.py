"""Model packages over the HTTP API. Files are looked at and made by a background task; every call answers at once
how it stands."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Body as Whole
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field

from jobs import package_schemas as schemas
from jobs.models import Package
from jobs.schemas import Draft
from jobs.selectors.access import package_for_owner
from jobs.selectors.package_json import package_files_json, package_json, package_row_json, packages_of
from jobs.services import packaging
from jobs.services.drafts import draft_json
from peers.answers import PAGE, PAGED, Cursor, Limit, Page, as_made, by_time, part
from peers.api import person_auth
from weei_core.generator.request import FORMATS

router = Router(tags=["packages"], auth=person_auth)
router.add_decorator(as_made)
PATH = "/packages/{package_id}"


class NewPackageBody(Schema):
    """`format` "" (or left out): told from the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fileName: str = Field(min_length=1, max_length=255)
    sha256: str = Field(pattern="^[0-9a-fA-F]{64}$")
    format: str = Field("", json_schema_extra={"enum": ["", *FORMATS]})


def _package(request: HttpRequest, package_id: UUID) -> Package:
    return package_for_owner(request.user, package_id)


def _answer(request: HttpRequest, package_id: UUID) -> dict[str, Any]:
    return package_json(_package(request, package_id))


@router.get("/packages", response=list[schemas.PackageRow], openapi_extra=PAGED)
def list_packages(request: HttpRequest, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """The person's packages, newest first."""
    rows, further = by_time(packages_of(request.user), limit, cursor)
    return Page([package_row_json(row) for row in rows], further)


@router.post("/packages", response={202: schemas.Package})
def create_package(request: HttpRequest, payload: NewPackageBody) -> Status[dict[str, Any]]:
    """Begin with a data file that was uploaded before. It is looked at first."""
    made = packaging.package_create(request.user, payload.model_dump())
    return Status(202, _answer(request, made.pk))


@router.get(PATH, response=schemas.Package)
def get_package(request: HttpRequest, package_id: UUID) -> dict[str, Any]:
    """What was found in the file, what is asked for, and how the task at work goes."""
    return _answer(request, package_id)


@router.delete(PATH, response={204: None})
def delete_package(request: HttpRequest, package_id: UUID) -> Status[None]:
    """Jobs that were made of it keep their files."""
    packaging.package_delete(_package(request, package_id))
    return Status(204, None)


@router.get(f"{PATH}/files", response=list[schemas.PackageFileFacts], openapi_extra=PAGED)
def list_package_files(request: HttpRequest, package_id: UUID, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """Of the package that was made last. All together as a zip: `/bytes/packages/<packageId>`."""
    shown, further = part(package_files_json(_package(request, package_id)), limit, cursor)
    return Page(shown, further)


@router.post(f"{PATH}/inspect", response={202: schemas.Package})
def inspect_package(request: HttpRequest, package_id: UUID) -> Status[dict[str, Any]]:
    """Look at the file again, after a failure or a stop."""
    packaging.package_inspect(_package(request, package_id))
    return Status(202, _answer(request, package_id))


@router.post(f"{PATH}/preview", response={202: schemas.Package})
def preview_package(request: HttpRequest, package_id: UUID, payload: Whole[dict[str, Any]]) -> Status[dict[str, Any]]:
    """Show what this request (docs/packages.md) would make."""
    packaging.package_preview(_package(request, package_id), payload)
    return Status(202, _answer(request, package_id))


@router.post(f"{PATH}/make", response={202: schemas.Package})
def make_package(request: HttpRequest, package_id: UUID, payload: Whole[dict[str, Any]]) -> Status[dict[str, Any]]:
    """Make the files. What was made before stays until they are there."""
    packaging.package_make(_package(request, package_id), payload)
    return Status(202, _answer(request, package_id))


@router.post(f"{PATH}/cancel", response=schemas.Package)
def cancel_package(request: HttpRequest, package_id: UUID) -> dict[str, Any]:
    """Stop what is at work. Said too late it does nothing."""
    packaging.package_cancel(_package(request, package_id))
    return _answer(request, package_id)


@router.post(f"{PATH}/job", response={202: Draft})
def start_package_job(request: HttpRequest, package_id: UUID) -> Status[dict[str, Any]]:
    """Begin making a job from the files, which are not uploaded again."""
    return Status(202, draft_json(packaging.package_start_job(_package(request, package_id))))
