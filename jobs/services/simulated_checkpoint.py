"""A simulated checkpoint as a file: the same bytes that the job on a server exports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from jobs.domain.progress import Progress, chunk_lists
from jobs.services.auxiliary import file_slots
from jobs.services.simulating import Simulated, Simulation
from jobs.services.simulation_inputs import Inputs
from weei_core import strict_json
from weei_core.checkpoint_file import write_header
from weei_core.checkpoint_metadata import AggregationState, Artifact, build_metadata


def checkpoint_write(path: Path, inputs: Inputs, simulation: Simulation, made: Simulated) -> None:
    """Written aside and renamed, so that a file with this name is whole."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            file.write(write_header(checkpoint_metadata(inputs, simulation, made)))
            for part in (made.weights, made.state):
                if part is not None:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, file)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def checkpoint_metadata(inputs: Inputs, simulation: Simulation, made: Simulated) -> bytes:
    module, info = inputs.module_file, simulation.info
    weight_bytes = made.weights.stat().st_size
    return build_metadata(
        job_id=inputs.job_id,
        module=Artifact(module.sha256, module.name, module.bytes, module.sha256),
        model_info=strict_json.as_object(strict_json.loads(info.text), "modelInfo"),
        settings=simulation.settings.to_json(),
        round_number=made.round,
        weights=Artifact(made.sha256, f"round-{made.round}.f32", weight_bytes, made.sha256),
        metrics=made.metrics,
        examples_processed=made.examples_processed,
        incomplete=made.standing is not None and made.standing.incomplete,
        aggregation_state=_state(simulation, made),
        **_dataset_progress(inputs, simulation, made),
        **_experience(simulation, made),
        auxiliary_weights=file_slots(info) or None,
    )


def _dataset_progress(inputs: Inputs, simulation: Simulation, made: Simulated) -> dict[str, Any]:
    order = simulation.order
    if not order:
        return {}
    ids = {index: chunk.id for index, chunk in enumerate(inputs.chunks)}
    progress = made.standing.progress if made.standing else Progress(0, 0, ())
    assert progress is not None
    lists = chunk_lists(progress, order, ids)
    return {
        "chunk_order": None if list(order) == list(range(len(order))) else [ids[index] for index in order],
        "trained_chunk_ids": lists.trained,
        "remaining_chunk_ids": lists.remaining,
        "remaining_work_items": lists.work_items or None,
    }


def _experience(simulation: Simulation, made: Simulated) -> dict[str, Any]:
    if not simulation.info.is_experience:
        return {}
    next_unit = made.standing.next_unit if made.standing else 0
    return {"job_seed": simulation.job_seed, "next_unit": next_unit}


def _state(simulation: Simulation, made: Simulated) -> AggregationState | None:
    if made.state is None or made.state_sha256 is None:
        return None
    return AggregationState(
        simulation.settings.aggregation.method, made.step, made.state.stat().st_size, made.state_sha256
    )
