"""A checkpoint of the simulated job as the file that a person downloads, and a new job that goes on from it."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from jobs.domain.progress import chunk_lists, progress_from
from tests.simulation.store import Checkpoint
from weei_core import strict_json
from weei_core.checkpoint_file import (
    AggregationState,
    Artifact,
    CheckpointFile,
    build_metadata,
    read_header,
    verify,
    write_header,
)
from weei_core.dataset_manifest import DatasetManifest
from weei_core.model_info import parse_model_info
from weei_core.training_settings import parse_settings

MODULE = Artifact("0" * 64, "toy.wasm", 8, "0" * 64)


def chunk_ids(order) -> dict[int, str]:
    return {index: f"chunk-{index}" for index in range(len(order))}


def write_checkpoint(world, made: Checkpoint) -> CheckpointFile:
    """Write the file and read it back with every check that a file from outside gets."""
    files, info = world.store.files, world.server.info
    state = None
    if made.state:
        state = AggregationState(made.method, made.step, len(files[made.state]), made.state)
    metadata = build_metadata(
        job_id="simulated",
        module=MODULE,
        model_info=strict_json.as_object(strict_json.loads(info.text), "modelInfo"),
        settings=made.settings.to_json(),
        round_number=made.round,
        weights=Artifact(made.weights, "w.f32", len(files[made.weights]), made.weights),
        metrics=made.metrics,
        examples_processed=made.examples,
        incomplete=False,
        aggregation_state=state,
        **(_lists(made) if info.reads_data else {}),
        **({"job_seed": world.server.job_seed, "next_unit": made.next_unit} if info.is_experience else {}),
    )
    data = write_header(metadata) + files[made.weights] + (files[made.state] if made.state else b"")
    header = read_header(
        io.BytesIO(data),
        len(data),
        check_model_info=parse_model_info,
        check_settings=lambda value: parse_settings(value, for_experience=info.is_experience),
    )
    verify(io.BytesIO(data), header)
    assert header.metadata_text == metadata
    assert strict_json.loads(metadata) == header.metadata
    return header


def _lists(made: Checkpoint) -> dict[str, Any]:
    ids = chunk_ids(made.order)
    lists = chunk_lists(progress_from(made.progress_text), made.order, ids)
    later = made.next_order or (made.order if made.shuffles else None)
    return {
        "chunk_order": [ids[index] for index in later] if later else None,
        "trained_chunk_ids": lists.trained,
        "remaining_chunk_ids": lists.remaining,
        "remaining_work_items": lists.work_items or None,
    }


def origin_of(header: CheckpointFile, *, resume: bool):
    """What a job that goes on from the file is made by."""
    from jobs.services.continuing import Origin  # needs Django, which the rest of the simulation does not

    return Origin(Path("unused"), header, resume)


def manifest_of(records: list[int]) -> DatasetManifest:
    chunks = [SimpleNamespace(id=f"chunk-{index}", example_count=count) for index, count in enumerate(records)]
    return cast(DatasetManifest, SimpleNamespace(chunks=chunks))
