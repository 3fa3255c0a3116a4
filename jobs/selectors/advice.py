"""Advice about a job that is only a form yet: its module was not read, so what a model declares is not known."""

from __future__ import annotations

from typing import Any

from jobs.selectors.kind import Kind
from weei_core.advice import Advice, advise
from weei_core.dataset_manifest import ChunkEntry
from weei_core.errors import Invalid
from weei_core.model_info import Capabilities, ModelInfo
from weei_core.strict_json import JsonValue
from weei_core.training_settings import parse_settings

# Needs the model's own declaration, which nobody has read yet.
_NEEDS_THE_MODEL = frozenset({"average-only-undeclared"})


def draft_advice(settings: dict[str, JsonValue], facts: dict[str, Any], kind: Kind) -> tuple[Advice, ...]:
    """`facts` is the cleaned AdviceForm. Before a manifest is chosen there is nothing to say about the data."""
    if kind.reads_data and not facts["chunks"]:
        return ()
    try:
        parsed = parse_settings(settings, for_experience=kind.experience)
    except Invalid:
        return ()
    chunk = ChunkEntry.model_construct(
        id="", file_name="", bytes=1, sha256="", format="", example_count=facts["largestExamples"] or 1
    )
    chunks = [chunk] * (facts["chunks"] if kind.reads_data else 0)
    found = advise(_any_model(kind), chunks, parsed, has_validation=facts["hasValidation"], weight_bytes=0)
    return tuple(advice for advice in found if advice.code not in _NEEDS_THE_MODEL)


def _any_model(kind: Kind) -> ModelInfo:
    """A model of this kind that can do what it may and declares nothing beyond what it must."""
    return ModelInfo.model_construct(
        id="",
        version="",
        name="",
        abi_version=1,
        weight_format="float32-le",
        max_workers=1,
        data_formats=(),
        metrics=(),
        capabilities=Capabilities(evaluation=True),
        work_source=kind.source,
    )
