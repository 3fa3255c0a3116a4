"""Running a job's module on the server: always in the jailed child, never in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings

from checkpoints.services.artifacts import artifact_path
from jobs.models import Chunk
from weei_core import strict_json
from weei_core.abi.limits import Limits
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.results import Evaluation, parse_evaluation

INSPECT_BATCH = 16


def limits() -> Limits:
    return Limits(
        memory_bytes=settings.MODULE_MEMORY_BYTES,
        run_seconds=settings.MODULE_WALL_SECONDS,
        compile_seconds=settings.MODULE_CPU_SECONDS,
    )


def open_jail(module_sha256: str) -> Jail:
    return Jail(artifact_path(module_sha256), limits(), cache=settings.VAR_DIR / "modules")


def describe(jail: Jail, *, seed: str | None, weights: Path | None) -> tuple[ModelInfo, Path | None, list[str]]:
    """ModelInfo, and new initial weights (from `seed`) or the verdict of `loadModel` on given ones.

    The file with new weights is the caller's to delete."""
    if weights is not None:
        outcome = jail.run({"operation": "describe"}, {"weights": InputFile(weights)})
        fresh = None
    else:
        with tempfile.NamedTemporaryFile(dir=settings.VAR_DIR, delete=False) as file:
            fresh = Path(file.name)
            outcome = jail.run({"operation": "describe", "seed": seed}, {}, {"weightsOut": file.file})
    info = parse_model_info(str(outcome["modelInfo"]).encode())
    return info, fresh, [str(warning) for warning in strict_json.as_list(outcome["warnings"], "warnings")]


def inspect(jail: Jail, weights: Path, chunks: Sequence[tuple[Path, str]], on_done: Callable[[int], None]) -> list[int]:
    """The module's own count of examples in each (file, format), a batch of files per instance."""
    counts: list[int] = []
    for start in range(0, len(chunks), INSPECT_BATCH):
        batch = chunks[start : start + INSPECT_BATCH]
        outcome = jail.run(
            {"operation": "inspect", "chunks": [{"format": chunk_format} for _, chunk_format in batch]},
            {"weights": InputFile(weights), **{f"chunk/{i}": InputFile(path) for i, (path, _) in enumerate(batch)}},
        )
        counts += [
            strict_json.as_int(n, "exampleCount", 0, strict_json.EXACT_INT)
            for n in strict_json.as_list(outcome["exampleCounts"], "")
        ]
        on_done(len(counts))
    return counts


def evaluate(
    jail: Jail, info: ModelInfo, *, weights: Path, data: Path, data_format: str, train_text: str
) -> Evaluation:
    outcome = jail.run(
        {"operation": "evaluate", "work": {"settings": train_text, "data": {"format": data_format}}},
        {"weights": InputFile(weights), "data": InputFile(data)},
    )
    return parse_evaluation(strict_json.loads(str(outcome["result"]), what="result"), info.metric_ids)


def chunk_inputs(chunks: Sequence[Chunk]) -> list[tuple[Path, str]]:
    return [(artifact_path(chunk.artifact_id), chunk.format) for chunk in chunks]
