"""The ledger of a checkpoint: everything that made it, by value or hash. Whoever has it can rebuild the bytes."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.auxiliary import filled_slots
from jobs.services.settling import slot_item_id
from jobs.services.texts import runs_of
from weei_core import js_json, strict_json
from weei_core.aggregation import MergeResult


def ledger_text(at: Round, job: Job, slots: Sequence[tuple[Slot, Attempt]], result: MergeResult) -> str:
    before = Checkpoint.objects.get(job=job, round=at.number - 1)
    refused = (
        Attempt.objects.filter(slot__round=at)
        .exclude(state=Attempt.State.RECEIVED)
        .select_related("slot__chunk")
        .order_by("slot__position", "slot__record_start", "started_at", "id")
    )
    return js_json.dumps(
        {
            "schema": "weei-ledger",
            "schemaVersion": 1,
            "codeVersion": settings.CODE_VERSION,
            "jobId": str(job.pk),
            "round": at.number,
            "module": job.module_id,
            "start": {"weights": at.start_weights, "state": before.state_id, "step": before.aggregation_step},
            **_auxiliary(job, at.number - 1),
            "settings": strict_json.loads(at.settings_text),
            "slots": [{**_slot(job, slot, attempt), **_update(attempt)} for slot, attempt in slots],
            "discarded": [{**_slot(job, a.slot, a), "state": a.state, "reason": a.reason} for a in refused],
            "result": {"weights": result.weights_sha256, "state": result.state_sha256, "step": result.step},
        }
    )


def first_ledger_text(job: Job, seed: str | None, weights_sha256: str, parent: dict[str, object] | None) -> str:
    """Of a job's first checkpoint: made by the module from a seed, or taken from a file."""
    return js_json.dumps(
        {
            "schema": "weei-ledger",
            "schemaVersion": 1,
            "codeVersion": settings.CODE_VERSION,
            "jobId": str(job.pk),
            "round": job.first_round,
            "module": job.module_id,
            **({"initialSeed": seed} if seed else {}),
            **({"continuedFrom": parent} if parent else {}),
            "result": {"weights": weights_sha256},
        }
    )


def _auxiliary(job: Job, loaded: int) -> dict[str, object]:
    """What filled the model's slots, in declared order."""
    slots = [{"id": slot.id, "sha256": slot.sha256} for slot in filled_slots(job, loaded)]
    return {"auxiliary": slots} if slots else {}


def _slot(job: Job, slot: Slot, attempt: Attempt) -> dict[str, object]:
    return {
        "item": slot_item_id(slot),
        "position": slot.position,
        **_records(slot),
        **({} if slot.unit_start is None else {"unitStart": slot.unit_start, "unitCount": slot.record_count}),
        "seed": slot.seed,
        "split": slot.split,
        "backend": runs_of(job).cpu_backend,
        "peer": str(attempt.peer_id),
        "attempt": str(attempt.pk),
    }


def _records(slot: Slot) -> dict[str, object]:
    if slot.chunk is None:
        return {}
    return {
        "chunkId": slot.chunk.chunk_id,
        "chunkSha256": slot.chunk.artifact_id,
        "format": slot.chunk.format,
        **({} if slot.whole else {"recordStart": slot.record_start}),
        "recordCount": slot.record_count,
    }


def _update(attempt: Attempt) -> dict[str, object]:
    report = strict_json.loads(attempt.report_text)
    assert isinstance(report, dict)
    return {
        "uniqueExamples": attempt.unique_examples,
        "metrics": report.get("metrics", {}),
        "sha256": attempt.sha256,
    }
