"""Jobs, checkpoints and invitations as JSON: the one serializer of the API and of pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from checkpoints.models import Artifact, Checkpoint
from checkpoints.selectors.storage import StorageInventory
from jobs.models import Job, Requeued, Round
from jobs.selectors.queue_json import checkpoint_queues_json, job_queue_json
from jobs.selectors.status import (
    ParticipantRow,
    SlotRow,
    online_peers,
    participants,
    progress,
    round_view,
    waiting_for,
    waiting_for_peer,
)
from jobs.services.lifecycle import round_at_work
from jobs.services.status import can_validate
from peers.models import Invitation, Membership
from weei_core import strict_json


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def saved_job_json(job: Job) -> dict[str, Any]:
    return {
        "id": str(job.pk),
        "name": job.name,
        "status": job.status,
        "modelId": job.model_id,
        "modelName": job.model_name,
        "round": job.round_no,
        "createdAt": _ms(job.created),
        "completedAt": _ms(job.completed_at),
    }


def job_json(job: Job, now: datetime) -> dict[str, Any]:
    """TrainingJob for its coordinator, as far as the server knows it; weei.js adds what is this device's alone."""
    done = progress(job, now)
    return {
        **_told_to_all(job, now, done),
        "role": "coordinator",
        "error": job.last_error or None,
        "waitingFor": waiting_for(job, now),
        "seed": job.job_seed,
        "hasModuleFile": True,
        "hasValidationFile": job.validation_file_id is not None,
        "validationUnavailable": _validation_unavailable(job),
        "canValidate": can_validate(job),
        "datasetEpoch": done["passesDone"],
        "queue": job_queue_json(job),
        "roundsDone": done["roundsDone"],
        "roundsEstimate": done["roundsEstimate"],
        "peers": [str(peer_id) for peer_id in online_peers(job, now)],
        "held": [
            {"item": row.pk, "position": row.position, "errors": row.errors, "error": row.last_error}
            for row in Requeued.objects.filter(job=job, held=True)
        ],
    }


def participant_job_json(membership: Membership, now: datetime) -> dict[str, Any]:
    """The same for one participant: of participants and slots their own, and nothing of the queue."""
    job = membership.job
    return {
        **_told_to_all(job, now, progress(job, now), only=membership.peer_id),
        "role": "participant",
        "waitingFor": waiting_for_peer(membership, round_at_work(job), None),
        "hasModuleFile": False,
        "validationUnavailable": False,
        "queue": None,
        "peers": [],
    }


def _told_to_all(job: Job, now: datetime, done: dict[str, Any], *, only: UUID | None = None) -> dict[str, Any]:
    at = round_view(job, now, only=only)
    return {
        **saved_job_json(job),
        "owner": str(job.coordinator_peer_id or ""),
        "info": strict_json.loads(job.model_info_text),
        "settings": strict_json.loads(job.settings_text),
        "incomplete": job.incomplete,
        "shuffled": job.shuffles > 0 or job.pass_order_id is not None or job.next_order_id is not None,
        "transitioning": at is not None and at.round.state == Round.State.CLOSING,
        "validating": validating_rounds(job),
        "module": {"fileName": job.module_file_name, "bytes": job.module.bytes, "sha256": job.module_id},
        "progress": {
            "datasetEpoch": done["passesDone"],
            "plannedEpochs": done["plannedPasses"],
            "remainingChunks": done["remainingItems"],
            "totalChunks": done["totalItems"],
            "running": job.status == Job.Status.RUNNING,
            **({} if done["remainingMs"] is None else {"estimatedRemainingMs": done["remainingMs"]}),
        },
        "participants": {str(row.peer_id): participant_json(row) for row in participants(job, now, only=only)},
        "slots": [slot_json(row) for row in (at.slots if at else [])],
    }


def _validation_unavailable(job: Job) -> bool:
    """A validation file was chosen, and its bytes are gone."""
    return job.validation_file is not None and job.validation_file.state != Artifact.State.PRESENT


def validating_rounds(job: Job) -> list[int]:
    """Checkpoints whose evaluation was asked for and has not ended."""
    found = Checkpoint.objects.filter(Checkpoint.UNDER_WAY, job=job)
    return list(found.order_by("round").values_list("round", flat=True))


def slot_json(row: SlotRow) -> dict[str, Any]:
    return {
        "peerId": str(row.peer_id),
        "chunkId": row.item,
        "status": row.status,
        "startedAt": _ms(row.slot.started_at),
        **({"error": row.slot.error} if row.slot.error else {}),
    }


def participant_json(row: ParticipantRow) -> dict[str, Any]:
    return {
        "label": row.label,
        "role": row.role,
        "connected": row.connected,
        "approved": row.state not in ("invited", "declined"),
        "trains": row.trains,
        "paused": row.paused_by_peer or row.paused_by_coordinator,
        "state": row.state,
        **({"error": row.load_error} if row.load_error else {}),
    }


def checkpoints_json(job: Job, *, before: int | None, limit: int, queues: bool = True) -> list[dict[str, Any]]:
    """One page of a job's checkpoints, newest first; without `queues` they do not say what remained."""
    found = Checkpoint.objects.filter(job=job).select_related("weights", "state").order_by("-round")
    page = list((found if before is None else found.filter(round__lt=before))[:limit])
    remaining = checkpoint_queues_json(job, page) if queues else [None] * len(page)
    return [_checkpoint(made, left) for made, left in zip(page, remaining, strict=True)]


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return _checkpoint(checkpoint, checkpoint_queues_json(checkpoint.job, [checkpoint])[0])


def _checkpoint(checkpoint: Checkpoint, remaining: dict[str, Any] | None) -> dict[str, Any]:
    """CheckpointSummary; `remaining` travels as a place in the pass (queue_json) and is expanded on access."""
    aggregation = None
    if checkpoint.state is not None:
        aggregation = {
            "method": checkpoint.aggregation_method,
            "step": checkpoint.aggregation_step,
            "bytes": checkpoint.state.bytes,
        }
    validation = strict_json.loads(checkpoint.validation_text) if checkpoint.validation_text else None
    return {
        "artifact": {
            "round": checkpoint.round,
            "sha256": checkpoint.weights_id,
            "bytes": checkpoint.weights.bytes,
            "fileName": f"round-{checkpoint.round}.weei-checkpoint",
        },
        "metrics": {
            "values": strict_json.loads(checkpoint.metrics_text),
            "examplesProcessed": checkpoint.examples_processed,
        },
        "validation": checkpoint.validation,
        **(
            {
                "validationMetrics": {
                    "values": validation["metrics"],
                    "examplesProcessed": validation["examplesProcessed"],
                }
            }
            if isinstance(validation, dict)
            else {}
        ),
        **({"validationError": checkpoint.validation_error} if checkpoint.validation_error else {}),
        "datasetEpoch": checkpoint.dataset_epoch,
        "datasetProgress": checkpoint.dataset_progress,
        "remainingItems": checkpoint.remaining_items,
        "remaining": remaining,
        **({} if checkpoint.next_unit is None else {"nextUnit": checkpoint.next_unit}),
        "settings": strict_json.loads(checkpoint.settings_text),
        **({"aggregation": aggregation} if aggregation else {}),
        "createdAt": _ms(checkpoint.created),
    }


def invitation_json(invitation: Invitation, now: datetime) -> dict[str, Any]:
    return {
        "id": str(invitation.pk),
        "uses": invitation.uses,
        "maxUses": invitation.max_uses,
        "expiresAt": _ms(invitation.expires_at),
        "state": invitation_state(invitation, now),
    }


def invitation_state(invitation: Invitation, now: datetime) -> str:
    if invitation.revoked_at is not None:
        return "revoked"
    if invitation.expires_at <= now:
        return "expired"
    return "used" if invitation.uses >= invitation.max_uses else "open"


def storage_json(found: StorageInventory) -> dict[str, Any]:
    return {
        "bytes": found.bytes,
        "uploads": found.uploads,
        "uploadBytes": found.upload_bytes,
        "jobs": [
            {"jobId": row.job_id, "jobName": row.job_name, "kind": row.kind, "files": row.files, "bytes": row.bytes}
            for row in found.jobs
        ],
    }
