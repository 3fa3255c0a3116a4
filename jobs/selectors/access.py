"""Who may see which job. Everything that a URL names goes through here; what is not yours does not exist."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.models import Job, JobDraft, Package
from weei_core.errors import NotFound


def job_for_owner(user: Any, job_id: UUID) -> Job:
    related = Job.objects.select_related("module", "dataset", "pass_order", "validation_file")
    found = related.filter(pk=job_id, owner_id=user.pk).first()
    if found is None:
        raise NotFound("There is no such job of yours.", field="jobId")
    return found


def draft_for_owner(user: Any, draft_id: UUID) -> JobDraft:
    found = JobDraft.objects.filter(pk=draft_id, owner_id=user.pk).first()
    if found is None:
        raise NotFound("There is no such draft of yours.", field="draftId")
    return found


def package_for_owner(user: Any, package_id: UUID) -> Package:
    found = Package.objects.select_related("source").filter(pk=package_id, owner_id=user.pk).first()
    if found is None:
        raise NotFound("There is no such model package of yours.", field="packageId")
    return found
