"""What a peer is told: its invitations, its job, its assignment. Always read whole, always from the database."""

from __future__ import annotations

import base64
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import Q

from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.rows import only_row
from jobs.models import Attempt, Job, Slot
from jobs.selectors.status import passes_done, waiting_for_peer
from jobs.services.auxiliary import filled_slots
from jobs.services.lifecycle import round_at_work
from jobs.services.settling import slot_item_id
from jobs.services.texts import info_of, runs_of, settings_in, settings_of
from peers.models import Membership, Peer
from weei_core import strict_json
from weei_core.protocol import INLINE_WEIGHT_BYTES


def peer_state(peer: Peer, now: datetime) -> dict[str, Any]:
    """PeerState of docs/protocol.md."""
    invited = Q(state=Membership.State.INVITED, job__deleted_at=None) & ~Q(job__status=Job.Status.COMPLETED)
    parts = Membership.objects.filter(invited | Q(current=True), peer=peer).select_related("peer", "job__module")
    found = sorted(parts, key=lambda part: part.created)  # as SQL it would cost more
    if found:
        peer.session = found[0].peer.session
    else:
        peer.refresh_from_db(fields=["session"])
    current = next((part for part in found if part.current), None)
    live = _live_attempt(peer, current)
    return {
        "peerId": str(peer.pk),
        "session": peer.session,
        "invitations": [str(part.job_id) for part in found if part.state == Membership.State.INVITED],
        "job": _job(current, live) if current else None,
        "assignment": _assignment(live, now) if live else None,
    }


def _job(membership: Membership, live: Attempt | None) -> dict[str, Any]:
    job = membership.job
    chosen = settings_of(job)
    at = live.slot.round if live and live.slot.round.number == job.round_no else round_at_work(job)
    return {
        "id": str(job.pk),
        "name": job.name,
        "status": job.status,
        "round": job.round_no,
        "role": membership.role,
        "trains": membership.trains,
        "state": membership.state,
        "ready": membership.ready_for == job.ready_key,
        "pausedByPeer": membership.paused_by_peer,
        "pausedByCoordinator": membership.paused_by_coordinator,
        "module": {"fileName": job.module_file_name, "bytes": job.module.bytes, "sha256": job.module_id},
        "wgsl": wgsl_of(job),
        "auxiliary": auxiliary_files(job),
        "unit": unit_of(job),
        "workers": chosen.workers,
        "stallMinutes": settings.STALL_MINUTES,
        "waitingFor": waiting_for_peer(membership, at, live.slot if live else None),
        "passesDone": passes_done(job, at),
        "plannedPasses": chosen.epochs,
        "error": membership.load_error or None,
    }


def unit_of(job: Job) -> dict[str, str] | None:
    """What an experience model plays; None for a dataset job."""
    source = info_of(job).work_source
    return {"id": source.unit.id, "label": source.unit.label} if source else None


def wgsl_of(job: Job) -> dict[str, Any]:
    """Whether the job has shaders, and which: the coordinator may have left the package's archive out."""
    shaders = runs_of(job).shaders
    present = bool(shaders) and JobArtifact.objects.filter(job=job, kind=JobArtifact.Kind.ARCHIVE).exists()
    return {"present": present, "sha256": list(shaders) if present else []}


def auxiliary_files(job: Job) -> list[dict[str, Any]]:
    """The slots that files fill, in declared order: what every participant holds before its first assignment."""
    slots = [slot for slot in info_of(job).auxiliary_weights if slot.sha256 is not None]
    if not slots:
        return []
    uses = JobArtifact.objects.filter(job=job, kind=JobArtifact.Kind.AUXILIARY)
    names = dict(uses.values_list("artifact_id", "file_name"))
    return [
        {"id": slot.id, "role": slot.role, "fileName": names[slot.sha256], "bytes": slot.bytes, "sha256": slot.sha256}
        for slot in slots
        if slot.sha256 is not None
    ]


def assignment_of(peer: Peer, now: datetime) -> dict[str, Any] | None:
    """What this peer works on, if anything."""
    live = _live_attempt(peer, None)
    return _assignment(live, now) if live else None


def _live_attempt(peer: Peer, current: Membership | None) -> Attempt | None:
    """With its slot, chunk and round; the job of `current` is not read again."""
    live = Attempt.objects.filter(peer=peer, state=Attempt.State.LIVE).select_related("slot__chunk", "slot__round")
    attempt = only_row(live)
    if attempt is not None and current is not None and attempt.slot.round.job_id == current.job_id:
        attempt.slot.round.job = current.job
    return attempt


def _assignment(attempt: Attempt, now: datetime) -> dict[str, Any]:
    """As a whole; immutable but for `secondsLeft`."""
    slot, at = attempt.slot, attempt.slot.round
    return {
        "attemptId": str(attempt.pk),
        "assignmentId": str(slot.pk),
        "jobId": str(at.job_id),
        "round": at.number,
        "chunkId": slot_item_id(slot),
        "exampleCount": slot.record_count,
        "moduleSha256": at.job.module_id,
        "weights": _weights(at.start_weights),
        "data": _data(slot),
        "experience": _experience(slot),
        "auxiliary": [asdict(filled) for filled in filled_slots(at.job, at.number - 1)],
        "settings": settings_in(at.job, at.settings_text).train_text,
        "seed": slot.seed,
        "split": slot.split,
        "backend": runs_of(at.job).cpu_backend,
        "secondsLeft": max(0, round((attempt.deadline - now).total_seconds())),
    }


@lru_cache(maxsize=64)
def _weights(sha256: str) -> dict[str, Any]:
    """Read once for all participants of a round: what has this hash never changes."""
    stored = Artifact.objects.get(pk=sha256)
    inline = {}
    if stored.body is not None and stored.bytes <= INLINE_WEIGHT_BYTES:
        inline = {"inline": base64.b64encode(stored.body).decode()}
    return {"sha256": stored.pk, "bytes": stored.bytes, **inline}


def _experience(slot: Slot) -> dict[str, Any] | None:
    if slot.unit_start is None:
        return None
    return {"seed": slot.seed, "unitStart": slot.unit_start, "unitCount": slot.record_count}


def _data(slot: Slot) -> dict[str, Any] | None:
    chunk = slot.chunk
    if chunk is None:
        return None
    part = {} if slot.whole else {"recordStart": slot.record_start, "recordCount": slot.record_count}
    return {"sha256": chunk.artifact_id, "bytes": chunk.bytes, "format": chunk.format, **part}


def invitation_facts(membership: Membership) -> dict[str, Any]:
    """What a person sees before accepting. Nothing of it needs a download."""
    job = membership.job
    dataset = job.dataset
    chunks = dataset.chunks.order_by("-bytes").values_list("bytes", flat=True)[:1] if dataset else []
    return {
        "jobId": str(job.pk),
        "jobName": job.name,
        "coordinator": job.owner.get_username() if job.owner else "",
        "owner": str(job.coordinator_peer_id or ""),
        "modelInfo": strict_json.loads(job.model_info_text),
        "module": {"fileName": job.module_file_name, "bytes": job.module.bytes, "sha256": job.module_id},
        "settings": strict_json.loads(job.settings_text),
        "auxiliary": auxiliary_files(job),
        "data": {
            "chunks": dataset.count if dataset else 0,
            "bytes": dataset.bytes if dataset else 0,
            "examples": dataset.examples if dataset else 0,
            "largestChunkBytes": max(chunks, default=0),
        },
        "weightBytes": job.weight_bytes,
        "requirements": requirements(job),
        "state": membership.state,
    }


def requirements(job: Job) -> dict[str, Any]:
    """What the package says that a device must have for the CPU backend; a plain chunk list asks for nothing."""
    none: dict[str, Any] = {"requiredFeatures": [], "minimumDeviceLimits": {}, "estimatedWorkingBytes": None}
    if not job.package_text:
        return none
    package = strict_json.as_object(strict_json.loads(job.package_text), "package")
    execution = strict_json.as_object(package["execution"], "execution")
    for backend in strict_json.as_list(execution["backends"], "backends"):
        found = strict_json.as_object(backend, "backend")
        if found.get("kind") == "cpu":
            return {name: found.get(name, default) for name, default in none.items()}
    return none
