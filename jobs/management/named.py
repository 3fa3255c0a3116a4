"""What people name on the command line."""

from __future__ import annotations

from uuid import UUID

from jobs.models import Job
from weei_core.errors import NotFound


def job_named(text: str) -> Job:
    """The job with this id, whoever owns it: the command line is the operator's."""
    try:
        job = Job.objects.select_related("module", "dataset", "pass_order").filter(pk=UUID(text)).first()
    except ValueError:
        job = None
    if job is None:
        raise NotFound(f"There is no job {text}.", field="job")
    return job
