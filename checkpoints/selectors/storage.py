"""What is stored for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Sum

from checkpoints.models import Artifact, JobArtifact, Upload


@dataclass(frozen=True)
class JobStorage:
    """Bytes of one kind in one job. A file that several jobs share counts in each."""

    job_id: str
    job_name: str
    kind: str
    files: int
    bytes: int


@dataclass(frozen=True)
class StorageInventory:
    """`bytes` counts every file once, and what is uploaded and not used yet."""

    bytes: int
    uploads: int
    upload_bytes: int
    jobs: list[JobStorage]


def storage_used(user_id: int) -> int:
    """Bytes that count against this person's quota: each stored file once, and uploads by their announced length."""
    used = _used(user_id)
    stored = used.aggregate(total=Sum("bytes"))["total"]
    waiting = (
        Upload.objects.filter(owner_id=user_id)
        .exclude(sha256__in=used.values("sha256"))
        .aggregate(total=Sum("length"))["total"]
    )
    return (stored or 0) + (waiting or 0)


def _used(user_id: int) -> QuerySet[Artifact]:
    """What this person's jobs and model packages refer to, each once."""
    jobs = Artifact.objects.filter(uses__job__owner_id=user_id)
    sources = Artifact.objects.filter(sources__owner_id=user_id)
    packages = Artifact.objects.filter(package_uses__package__owner_id=user_id)
    return Artifact.objects.filter(Q(pk__in=jobs) | Q(pk__in=sources) | Q(pk__in=packages))


def storage_inventory(user_id: int) -> StorageInventory:
    rows = (
        JobArtifact.objects.filter(job__owner_id=user_id)
        .values("job_id", "kind", name=F("job__name"))
        .annotate(files=Count("id"), size=Sum("artifact__bytes"))
        .order_by("name", "job_id", "kind")
    )
    uploads = Upload.objects.filter(owner_id=user_id).aggregate(count=Count("id"), size=Sum("length"))
    return StorageInventory(
        storage_used(user_id),
        uploads["count"],
        uploads["size"] or 0,
        [JobStorage(str(r["job_id"]), r["name"], r["kind"], r["files"], r["size"]) for r in rows],
    )


def held_hashes(user_id: int, hashes: Sequence[str]) -> set[str]:
    """Which of these files this person need not upload again: their own, whole, and still there.

    A file of somebody else is never mentioned, so nobody learns what others have.
    """
    present = Artifact.objects.filter(sha256__in=hashes, state=Artifact.State.PRESENT)
    uploaded = Upload.objects.filter(owner_id=user_id, done=True, sha256__in=hashes).values("sha256")
    own = present.filter(Q(sha256__in=_used(user_id).values("sha256")) | Q(sha256__in=uploaded))
    return set(own.values_list("sha256", flat=True))
