"""Jobs, checkpoints and invitations as JSON: the one serializer of the API and of pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from checkpoints.models import Checkpoint
from jobs.models import Job, Requeued
from jobs.selectors.status import ParticipantRow, participants, progress, round_view, waiting_for
from jobs.services.status import can_validate
from peers.models import Invitation
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
    """TrainingJob as far as the server knows it; what is this device's alone is added by weei.js."""
    at = round_view(job, now)
    done = progress(job, now)
    return {
        **saved_job_json(job),
        "role": "coordinator",
        "owner": str(job.coordinator_peer_id) if job.coordinator_peer_id else None,
        "info": strict_json.loads(job.model_info_text),
        "settings": strict_json.loads(job.settings_text),
        "waitingFor": waiting_for(job, now),
        "error": job.last_error or None,
        "incomplete": job.incomplete,
        "shuffled": job.shuffles > 0 or job.pass_order_id is not None or job.next_order_id is not None,
        "seed": job.job_seed,
        "module": {"fileName": job.module_file_name, "bytes": job.module.bytes, "sha256": job.module_id},
        "hasModuleFile": True,
        "hasValidationFile": job.validation_file_id is not None,
        "canValidate": can_validate(job),
        "progress": {
            "datasetEpoch": done["passesDone"],
            "plannedEpochs": done["plannedPasses"],
            "remainingChunks": done["remainingItems"],
            "totalChunks": done["totalItems"],
            "running": job.status == Job.Status.RUNNING,
            **({} if done["remainingMs"] is None else {"estimatedRemainingMs": done["remainingMs"]}),
        },
        "roundsDone": done["roundsDone"],
        "roundsEstimate": done["roundsEstimate"],
        "participants": {str(row.peer_id): participant_json(row) for row in participants(job, now)},
        "slots": [
            {
                "peerId": str(row.peer_id),
                "chunkId": row.item,
                "status": row.status,
                "startedAt": _ms(row.slot.started_at),
                **({"error": row.slot.error} if row.slot.error else {}),
            }
            for row in (at.slots if at else [])
        ],
        "held": [
            {"item": row.pk, "position": row.position, "errors": row.errors, "error": row.last_error}
            for row in Requeued.objects.filter(job=job, held=True)
        ],
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


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """CheckpointSummary; `remaining` travels as a count here and is expanded on access."""
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
