"""Metrics as files of other programs (docs/exports.md). A checkpoint's weights come from /bytes/."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.bytes.ranges import attachment
from jobs.selectors.access import job_for_owner
from jobs.selectors.metric_files import metrics_csv, tensorboard_zip
from peers.api import person_auth

router = Router(tags=["exports"], auth=person_auth)


def _as(media_type: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"responses": {200: {"description": "The file", "content": content}}}


@router.get("/jobs/{job_id}/metrics.csv", response={200: None}, openapi_extra=_as("text/csv"))
def metrics_as_csv(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Every checkpoint's metrics as CSV. An empty cell is a value that was not measured."""
    job = job_for_owner(request.user, job_id)
    return _file("".join(metrics_csv(job)).encode(), "text/csv; charset=utf-8", f"{job.name}-metrics.csv")


@router.get("/jobs/{job_id}/tensorboard", response={200: None}, openapi_extra=_as("application/zip"))
def metrics_for_tensorboard(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """A zip of a log folder for TensorBoard, with the runs `training` and `validation`."""
    job = job_for_owner(request.user, job_id)
    return _file(tensorboard_zip(job), "application/zip", f"{job.name}-tensorboard.zip")


def _file(content: bytes, media_type: str, name: str) -> HttpResponse:
    return HttpResponse(content, media_type, headers={"Content-Disposition": attachment(name)})
