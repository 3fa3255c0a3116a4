"""Celery tasks: load, call a service. Any of them may run twice, or be lost; the database says what is due."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from checkpoints.services.collector import collect as collect_artifacts
from jobs.services.aggregation import round_merge
from jobs.services.creating import datasets_clean
from jobs.services.deleting import jobs_purge
from jobs.services.drafts import draft_prepare
from jobs.services.evaluation import validation_run
from jobs.services.package_work import package_run, work_clean
from jobs.services.packaging import packages_collect


@shared_task(name="jobs.tasks.merge")
def merge(round_id: int) -> None:
    round_merge(round_id)


@shared_task(name="jobs.tasks.prepare")
def prepare(draft_id: str) -> None:
    draft_prepare(UUID(draft_id))


@shared_task(name="jobs.tasks.evaluate")
def evaluate(checkpoint_id: int) -> None:
    validation_run(checkpoint_id)


@shared_task(name="jobs.tasks.package")
def package(package_id: str) -> None:
    package_run(UUID(package_id))


@shared_task(name="jobs.tasks.collect")
def collect() -> None:
    """Free what nothing refers to any more."""
    now = timezone.now()
    jobs_purge(now)
    datasets_clean(now)
    packages_collect(now)
    work_clean(now)
    collect_artifacts(now)
