"""The metadata of an exported checkpoint: written when it is asked for, always the same bytes."""

from __future__ import annotations

from typing import Any

from checkpoints.models import Checkpoint
from jobs.domain.progress import chunk_lists, progress_from
from jobs.models import Chunk
from jobs.services.dealing import order_of
from weei_core import strict_json
from weei_core.checkpoint_metadata import AggregationState, Artifact, build_metadata


def checkpoint_metadata(checkpoint: Checkpoint) -> bytes:
    job = checkpoint.job
    info = strict_json.as_object(strict_json.loads(job.model_info_text), "modelInfo")
    weights = checkpoint.weights
    extra: dict[str, Any] = {}
    if job.dataset_id is not None and job.dataset is not None:
        ids = dict(Chunk.objects.filter(dataset_id=job.dataset_id).values_list("index", "chunk_id"))
        order = order_of(checkpoint.pass_order, job.dataset.count)
        lists = chunk_lists(progress_from(checkpoint.progress_text), order, ids)
        later = checkpoint.next_order or checkpoint.pass_order
        extra = {
            "chunk_order": [ids[i] for i in order_of(later, job.dataset.count)] if later else None,
            "trained_chunk_ids": lists.trained,
            "remaining_chunk_ids": lists.remaining,
            "remaining_work_items": lists.work_items or None,
        }
    state = None
    if checkpoint.state is not None:
        state = AggregationState(
            checkpoint.aggregation_method,
            checkpoint.aggregation_step,
            checkpoint.state.bytes,
            checkpoint.state_id or "",
        )
    return build_metadata(
        job_id=str(job.pk),
        module=Artifact(job.module_id, job.module_file_name, job.module.bytes, job.module_id),
        model_info=info,
        settings=strict_json.as_object(strict_json.loads(checkpoint.settings_text), "settings"),
        round_number=checkpoint.round,
        weights=Artifact(weights.sha256, f"round-{checkpoint.round}.f32", weights.bytes, weights.sha256),
        metrics={
            k: strict_json.as_number(v, k)
            for k, v in strict_json.as_object(strict_json.loads(checkpoint.metrics_text), "metrics").items()
        },
        examples_processed=checkpoint.examples_processed,
        incomplete=job.incomplete and not Checkpoint.objects.filter(job=job, round__gt=checkpoint.round).exists(),
        aggregation_state=state,
        **extra,
    )
