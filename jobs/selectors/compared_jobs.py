"""Several jobs of one person side by side: what they have in common, and in what they differ."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from jobs.models import Chunk, Job
from jobs.selectors.pages import model_info, settings_of
from weei_core import js_json
from weei_core.errors import NotFound

FEWEST, MOST = 2, 6
PICKED_FROM = 100
"""Jobs that the list to choose from holds at most, newest first."""

LABELS = {
    "epochs": "Dataset passes, or last round",
    "localEpochs": "Local epochs",
    "batchSize": "Batch size",
    "learningRate": "Learning rate",
    "validationSchedule.enabled": "Validated on a schedule",
    "validationSchedule.unit": "Schedule counted in",
    "validationSchedule.every": "Validated every",
    "coordinatorParticipates": "The coordinator's browser trains too",
    "aggregation.method": "Merge method",
    "aggregation.serverLearningRate": "Server learning rate",
    "aggregation.momentum": "Momentum",
    "aggregation.beta1": "Beta 1",
    "aggregation.beta2": "Beta 2",
    "aggregation.epsilon": "Epsilon",
    "experience.unitsPerAssignment": "Units per round",
    "workers": "Workers per device",
    "seed": "Seed",
    "stragglerFactor": "Straggler limit",
}
# A setting that is left out means one value, which is not "missing".
DEFAULTS = {"learningRate": "the model's own", "stragglerFactor": 5}
# Colours and patterns differ together, so that neither has to be seen alone.
DASHES = ((), (10, 5), (3, 4), (14, 4, 3, 4), (7, 3), (2, 7))


@dataclass(frozen=True)
class ComparedJob:
    job: Job
    tone: int
    dash: Sequence[int]
    """Pixels drawn and left out in turn; none: a whole line."""

    @property
    def dash_text(self) -> str:
        return " ".join(str(part) for part in self.dash)


@dataclass(frozen=True)
class Fact:
    """`values` are those of each job as texts, None where a job has none."""

    name: str
    values: Sequence[str | None]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Finding:
    """Whether values may be compared, as a sentence; `tone` is that of its note."""

    sentence: str
    tone: str


@dataclass(frozen=True)
class JobComparison:
    jobs: Sequence[ComparedJob]
    facts: Sequence[Fact]
    findings: Sequence[Finding]

    @property
    def differing(self) -> int:
        return sum(fact.differs for fact in self.facts)


def jobs_to_pick(user: User) -> list[Job]:
    """Newest first."""
    light = Job.objects.filter(owner=user).only("name", "model_name", "created")
    return list(light.order_by("-created")[:PICKED_FROM])


def jobs_named(user: User, ids: Collection[str]) -> list[Job]:
    """In the order of `ids`. A job that is not this person's does not exist."""
    try:
        wanted = list(dict.fromkeys(UUID(text) for text in ids))
    except ValueError:
        raise NotFound("There is no such job of yours.", field="job") from None
    related = Job.objects.select_related("module", "dataset", "validation_file")
    found = {job.pk: job for job in related.filter(owner=user, pk__in=wanted)}
    if len(found) != len(wanted):
        raise NotFound("There is no such job of yours.", field="job")
    return [found[pk] for pk in wanted]


def compare_jobs(jobs: Sequence[Job]) -> JobComparison:
    """One query, for the chunks of all of them."""
    data = _data_of(jobs)
    facts = [
        Fact("Model", [f"{job.model_name} {model_info(job).get('version', '')}".strip() for job in jobs]),
        Fact("Module (SHA-256)", [job.module_id[:12] for job in jobs]),
        Fact("Weights", [f"{job.weight_bytes:,} bytes" for job in jobs]),
        Fact("Data", [_data_text(job, data[job.pk]) for job in jobs]),
        Fact("Validation file (SHA-256)", [(job.validation_file_id or "")[:12] or None for job in jobs]),
        Fact("Seed of the job", [job.job_seed for job in jobs]),
        Fact("First checkpoint", [f"round {job.first_round}" for job in jobs]),
        *_settings(jobs),
    ]
    looks = [ComparedJob(job, at % len(DASHES) + 1, DASHES[at % len(DASHES)]) for at, job in enumerate(jobs)]
    return JobComparison(looks, facts, _findings(jobs, data))


def _data_of(jobs: Sequence[Job]) -> dict[UUID, str]:
    """A hash over the data of each job in its order; empty for a job whose model makes its own."""
    chunks = Chunk.objects.filter(dataset__in={job.dataset_id for job in jobs if job.dataset_id})
    hashes: dict[int, Any] = {}
    for dataset_id, sha256 in chunks.order_by("dataset", "index").values_list("dataset_id", "artifact_id"):
        hashes.setdefault(dataset_id, hashlib.sha256()).update(sha256.encode())
    return {job.pk: hashes[job.dataset_id].hexdigest() if job.dataset_id in hashes else "" for job in jobs}


def _data_text(job: Job, sha256: str) -> str:
    if job.dataset is None:
        return "made by the model"
    return f"{job.dataset.examples:,} examples in {job.dataset.count:,} chunks ({sha256[:12]})"


def _settings(jobs: Sequence[Job]) -> list[Fact]:
    flat = [_flat(settings_of(job)) for job in jobs]
    names = [name for name in LABELS if any(name in one for one in flat)]
    names += sorted({name for one in flat for name in one} - set(LABELS))
    return [Fact(LABELS.get(name, name), [_text(one.get(name, DEFAULTS.get(name))) for one in flat]) for name in names]


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """One level: `aggregation.method`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return found


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else js_json.dumps(value)


def _findings(jobs: Sequence[Job], data: dict[UUID, str]) -> list[Finding]:
    """The two sentences that a reader of the curves has to know first."""
    those = "These two" if len(jobs) == 2 else f"These {len(jobs)}"
    findings = []
    if len({job.module_id for job in jobs}) > 1:
        findings.append(
            Finding(f"{those} trained different models: a metric of the same name may mean another thing.", "warn")
        )
    if len(set(data.values())) > 1:
        findings.append(Finding(f"{those} trained on different data.", "warn"))
    if len({job.validation_file_id for job in jobs if job.validation_file_id}) > 1:
        findings.append(
            Finding(f"{those} were validated on different files: their validation values cannot be compared.", "warn")
        )
    data_text = "the same data" if any(data.values()) else "what it makes itself"
    return findings or [Finding(f"{those} trained the same model on {data_text}.", "good")]
