"""Who may read which bytes: the only place that decides it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, Q, QuerySet

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from checkpoints.services.rows import only_row
from jobs.models import Attempt, Package, PackageFile
from jobs.services.auxiliary import filled_slots
from jobs.services.export import checkpoint_metadata
from jobs.services.texts import info_of
from peers.models import Membership, Peer
from weei_core.checkpoint_file import write_header
from weei_core.errors import Forbidden, NotFound
from weei_core.weight_files import npy_header, safetensors_header

Kind = JobArtifact.Kind

ACCEPTED = (Membership.State.APPROVED, Membership.State.MODEL_LOADED, Membership.State.MODEL_LOAD_FAILED)
ALWAYS = (Kind.MODULE, Kind.AUXILIARY)
"""What every participant of the job may read, once they accepted."""
ASSIGNED = (Kind.WEIGHTS, Kind.CHUNK)
"""What a participant may read while a live attempt of their own names it."""


@dataclass(frozen=True)
class Download:
    artifact: Artifact
    file_name: str


@dataclass(frozen=True)
class CheckpointDownload:
    """A `.weei-checkpoint`, or a file of weights: `header`, then the parts."""

    job_name: str
    header: bytes
    parts: list[Artifact]


@dataclass(frozen=True)
class PackageDownload:
    """The files of a model package, in the order of its archive, which is named after `name`."""

    name: str
    files: list[PackageFile]


def artifact_for_peer(*, peer: Peer, job_id: UUID, sha256: str) -> Download:
    """One query when it may be read, a few for a snapshot. Raises `Forbidden` for members, `NotFound` for others."""
    live = Attempt.objects.filter(peer=peer, state=Attempt.State.LIVE, slot__round__job=job_id)
    named = live.filter(Q(slot__chunk__artifact=sha256) | Q(slot__round__start_weights=sha256))
    uses = _uses(job_id, sha256).filter(Exists(Membership.objects.filter(peer=peer, job=job_id, state__in=ACCEPTED)))
    use = uses.filter(Q(kind__in=ALWAYS) | (Q(kind__in=ASSIGNED) & Exists(named))).first()
    if use is None and _is_snapshot(live, sha256):
        use = uses.filter(kind=Kind.WEIGHTS).first()
    if use is None:
        raise _refusal(peer, job_id, sha256)
    return Download(use.artifact, use.file_name)


def _is_snapshot(live: QuerySet[Attempt], sha256: str) -> bool:
    """Whether the assignment at work needs these weights in an auxiliary slot."""
    attempt = only_row(live.select_related("slot__round__job"))
    if attempt is None:
        return False
    at = attempt.slot.round
    return any(slot.sha256 == sha256 for slot in filled_slots(at.job, at.number - 1))


def artifact_for_owner(*, user_id: int, job_id: UUID, sha256: str) -> Download:
    """A coordinator reads everything of their jobs, and of others' jobs nothing is there."""
    use = _uses(job_id, sha256).filter(job__owner_id=user_id).first()
    if use is None:
        raise _not_there()
    return Download(use.artifact, use.file_name)


def checkpoint_for_owner(*, user_id: int, job_id: UUID, round_number: int) -> CheckpointDownload:
    found = _checkpoint(user_id, job_id, round_number, "state", "job__dataset", "pass_order", "next_order")
    parts = [found.weights] if found.state is None else [found.weights, found.state]
    return CheckpointDownload(found.job.name, write_header(checkpoint_metadata(found)), parts)


def weights_for_owner(*, user_id: int, job_id: UUID, round_number: int, kind: str) -> CheckpointDownload:
    """A checkpoint's weights alone, as a file of another program: `kind` is "safetensors" or "npy"."""
    found = _checkpoint(user_id, job_id, round_number)
    size = found.weights.bytes
    if kind == "npy":
        return CheckpointDownload(found.job.name, npy_header(size), [found.weights])
    info = info_of(found.job)
    metadata = {
        "job": str(found.job_id),
        "round": str(found.round),
        "model": f"{info.id} {info.version}",
        "module_sha256": found.job.module_id,
        "weights_sha256": found.weights_id,
    }
    return CheckpointDownload(found.job.name, safetensors_header(info.tensors, size, metadata), [found.weights])


def _checkpoint(user_id: int, job_id: UUID, round_number: int, *related: str) -> Checkpoint:
    mine = Checkpoint.objects.filter(job=job_id, job__owner_id=user_id, round=round_number)
    found = mine.select_related("weights", "job__module", *related).first()
    if found is None:
        raise NotFound("There is no such checkpoint of yours.", field="round")
    return found


def package_files_for_owner(*, user_id: int, package_id: UUID) -> PackageDownload:
    package = Package.objects.filter(pk=package_id, owner_id=user_id).first()
    files = list(package.files.select_related("artifact")) if package else []
    if package is None or not files:
        raise NotFound("There is no such model package of yours, or it is not made yet.", field="packageId")
    return PackageDownload(package.source_name.rpartition(".")[0] or package.source_name, files)


def _uses(job_id: UUID, sha256: str) -> QuerySet[JobArtifact]:
    present = Artifact.State.PRESENT
    return JobArtifact.objects.select_related("artifact").filter(job=job_id, artifact=sha256, artifact__state=present)


def _refusal(peer: Peer, job_id: UUID, sha256: str) -> Forbidden | NotFound:
    state = Membership.objects.filter(peer=peer, job=job_id).values_list("state", flat=True).first()
    if state is None:
        return _not_there()
    if state not in ACCEPTED:
        return Forbidden("Nothing of a job can be read before its invitation is accepted, or after leaving it.")
    if not _uses(job_id, sha256).exists():
        return _not_there()
    return Forbidden("This file belongs to no assignment that you have now.")


def _not_there() -> NotFound:
    return NotFound("There is no such file, or none that you may read.")
