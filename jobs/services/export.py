"""The metadata of an exported checkpoint: written when it is asked for, always the same bytes."""

from __future__ import annotations

from typing import Any

from checkpoints.models import Checkpoint
from jobs.domain.progress import chunk_lists, progress_from
from jobs.models import Chunk
from jobs.services.auxiliary import file_slots
from jobs.services.dealing import order_of
from jobs.services.texts import info_of
from weei_core import strict_json
from weei_core.checkpoint_metadata import AggregationState, Artifact, build_metadata
from weei_core.seeds import parse_seed


def checkpoint_metadata(checkpoint: Checkpoint) -> bytes:
    """What stands before the weights of a `.weei-checkpoint`. Equal checkpoints of equal jobs give equal bytes."""
    job, weights = checkpoint.job, checkpoint.weights
    metrics = strict_json.as_object(strict_json.loads(checkpoint.metrics_text), "metrics")
    return build_metadata(
        job_id=str(job.pk),
        module=Artifact(job.module_id, job.module_file_name, job.module.bytes, job.module_id),
        model_info=strict_json.as_object(strict_json.loads(job.model_info_text), "modelInfo"),
        settings=strict_json.as_object(strict_json.loads(checkpoint.settings_text), "settings"),
        round_number=checkpoint.round,
        weights=Artifact(weights.sha256, f"round-{checkpoint.round}.f32", weights.bytes, weights.sha256),
        metrics={name: strict_json.as_number(value, name) for name, value in metrics.items()},
        examples_processed=checkpoint.examples_processed,
        incomplete=job.incomplete and not Checkpoint.objects.filter(job=job, round__gt=checkpoint.round).exists(),
        aggregation_state=_state(checkpoint),
        **_dataset_progress(checkpoint),
        **_experience(checkpoint),
        auxiliary_weights=file_slots(info_of(job)) or None,
    )


def _dataset_progress(checkpoint: Checkpoint) -> dict[str, Any]:
    dataset = checkpoint.job.dataset
    if dataset is None:
        return {}
    ids = dict(Chunk.objects.filter(dataset=dataset).values_list("index", "chunk_id"))
    order = order_of(checkpoint.pass_order, dataset.count)
    lists = chunk_lists(progress_from(checkpoint.progress_text), order, ids)
    # The order that goes on in later passes; one that was never shuffled is the manifest's, and is left out.
    later = list(order_of(checkpoint.next_order or checkpoint.pass_order, dataset.count))
    return {
        "chunk_order": None if later == list(range(dataset.count)) else [ids[i] for i in later],
        "trained_chunk_ids": lists.trained,
        "remaining_chunk_ids": lists.remaining,
        "remaining_work_items": lists.work_items or None,
    }


def _experience(checkpoint: Checkpoint) -> dict[str, Any]:
    if checkpoint.next_unit is None:
        return {}
    return {"job_seed": parse_seed(checkpoint.job.job_seed, "job_seed"), "next_unit": checkpoint.next_unit}


def _state(checkpoint: Checkpoint) -> AggregationState | None:
    state = checkpoint.state
    if state is None:
        return None
    return AggregationState(checkpoint.aggregation_method, checkpoint.aggregation_step, state.bytes, state.sha256)
