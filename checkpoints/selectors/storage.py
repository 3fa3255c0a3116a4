"""What is stored for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, Sum

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
    stored = Artifact.objects.filter(uses__job__owner_id=user_id).distinct().aggregate(total=Sum("bytes"))["total"]
    waiting = (
        Upload.objects.filter(owner_id=user_id)
        .exclude(sha256__in=JobArtifact.objects.filter(job__owner_id=user_id).values("artifact_id"))
        .aggregate(total=Sum("length"))["total"]
    )
    return (stored or 0) + (waiting or 0)


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
    own = present.filter(Q(uses__job__owner_id=user_id) | Q(sha256__in=uploaded))
    return set(own.values_list("sha256", flat=True))
