"""Every page that people see, with rows in it: what `make screenshots` draws and what the checks of all pages visit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.stack.model_jobs import Agent, CartPoleJob, DigitsJob
from tests.stack.stack import Stack
from weei_site.help_topics import TOPICS

TABLE = (
    "petal length,petal width,sepal length,kind\n"
    + "".join(f"{1 + i % 5 / 5:.1f},{0.2 + i % 3 / 10:.1f},{4.6 + i % 7 / 10:.1f},setosa\n" for i in range(60))
    + "".join(f"{4 + i % 8 / 5:.1f},{1.3 + i % 4 / 10:.1f},{5.9 + i % 9 / 10:.1f},versicolor\n" for i in range(60))
)

PACKAGES = """
from django.contrib.auth.models import User
from django.utils import timezone
from checkpoints.models import Upload
from checkpoints.services.artifacts import artifact_put_bytes
from jobs.models import JobDraft, Package
from jobs.services.packaging import package_create
alice, _ = User.objects.get_or_create(username="alice")
now = timezone.now()
made = artifact_put_bytes(table.encode(), now)
Package.objects.filter(owner=alice).delete()
package = Package.objects.create(
    owner=alice, source_id=made.sha256, source_name="flowers.csv", step="Waiting for a worker", touched=now
)
from jobs.tasks import package as work
work(str(package.pk))
JobDraft.objects.create(
    owner=alice, state="failed", request_text="{}", error="validation.bin: 12 bytes given, the manifest says 19,008.",
    error_code="size_differs",
)
answer = str(package.pk)
"""
OLDER = """
import copy
from datetime import timedelta
from django.utils import timezone
from jobs.models import Job
source = Job.objects.get(pk=job_id)
names = ["Digits, small batches", "Digits, one participant", "Kitchen table", "Night run"]
for number in range(count):
    job = copy.copy(source)
    job.pk, job._state.adding = None, True
    from uuid import uuid4
    job.id = uuid4()
    job.name = f"{names[number % len(names)]} {number + 1}"
    job.coordinator_peer = None
    job.status = ("completed", "ready", "paused")[number % 3]
    if job.status == "paused":
        job.pass_no, job.cursor = 0, 5 + number % 6
    job.last_error = ""
    job.save(force_insert=True)
    Job.objects.filter(pk=job.pk).update(created=timezone.now() - timedelta(hours=number + 2))
"""


@dataclass(frozen=True)
class Place:
    """`ready` is a selector of what is visible when the page has come to rest."""

    name: str
    path: str
    ready: str = "h1"


@dataclass(frozen=True)
class World:
    """Ids of what is in the stack."""

    running: str
    finished: str
    cartpole: str
    package: str
    link: str


@contextmanager
def world(stack: Stack, *, epochs: int = 1) -> Iterator[World]:
    """A finished job of so many passes, one at work for as long as the block lasts, one without data, a package, and a
    list of others."""
    finished, running = DigitsJob(stack, epochs=epochs), DigitsJob(stack, epochs=60, localEpochs=900)
    cartpole = CartPoleJob(stack)
    with Agent(stack, finished.link, "ada"), Agent(stack, finished.link, "ben"):
        finished.start(wanted=2)
        finished.wait_until_completed(120)
    package = stack.shell(PACKAGES, table=TABLE)
    stack.shell(OLDER, job_id=finished.id, count=30)
    with Agent(stack, running.link, "cleo"), Agent(stack, running.link, "dan"):
        running.start(wanted=2)
        running.wait_for_round(2, 120)
        yield World(running.id, finished.id, cartpole.id, package, cartpole.link.removeprefix(stack.url))


def public_places(world: World) -> list[Place]:
    """What anybody may see."""
    return [
        Place("home", "/"),
        Place("sign-in", "/sign-in/"),
        Place("help", "/help/"),
        Place("help-errors", "/help/errors"),
        *(Place(f"help-{topic.slug}", f"/help/{topic.slug}/") for topic in TOPICS),
        Place("train", "/train/", "#train-none h1"),
        Place("invitation", world.link, "#join-card h1"),
        Place("not-found", "/jobs/nothing-here/"),
    ]


def coordinator_places(world: World) -> list[Place]:
    """What alice, whose jobs these are, sees besides."""
    job = f"/jobs/{world.finished}"
    return [
        Place("jobs", "/jobs/"),
        Place("job-new", "/jobs/new/"),
        Place("job-continue", "/jobs/continue/"),
        Place("job-running", f"/jobs/{world.running}/", "#chart canvas"),
        Place("job-ready", f"/jobs/{world.cartpole}/"),
        Place("job-finished", f"{job}/", "#chart canvas"),
        Place("rounds", f"{job}/rounds/"),
        Place("round", f"{job}/rounds/2/"),
        Place("job-compare", f"/jobs/compare?job={world.finished}&job={world.running}", "#chart canvas"),
        Place("job-compare-pick", "/jobs/compare"),
        Place("rounds", f"{job}/rounds/"),
        Place("round", f"{job}/rounds/3/", ".lanes"),
        Place("checkpoints", f"{job}/checkpoints/"),
        Place("checkpoint", f"{job}/checkpoints/3/"),
        Place("checkpoint-continue", f"{job}/checkpoints/3/continue"),
        Place("play", f"{job}/play/", "#play h2"),
        Place("job-delete", f"{job}/delete"),
        Place("packages", "/packages/"),
        Place("package", f"/packages/{world.package}/"),
        Place("package-delete", f"/packages/{world.package}/delete"),
        Place("sites", "/account/sites/"),
        Place("tokens", "/account/tokens/"),
    ]
