"""Warnings before a run: settings that are allowed and have done harm. Never a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from weei_core.aggregation import method_named
from weei_core.dataset_manifest import ChunkEntry
from weei_core.model_info import ModelInfo
from weei_core.training_settings import TrainingSettings

FEW_ROUNDS_PER_PASS = 10
SMALL_MODEL_WEIGHTS = 100_000

END_TOKEN = re.compile(r"</?(?:eos|s|bos|pad|end|eot|eod|sep)>|<\|[a-z_]+\|>|\[(?:eos|sep|end)\]", re.IGNORECASE)
_DIGIT_BESIDE_OPERATOR = re.compile(r"[0-9]\s*[-+*/=×÷−^%<>]|[-+*/=×÷−^%<>]\s*[0-9]")


class Advice(NamedTuple):
    code: str
    text: str


def advise(
    info: ModelInfo,
    chunks: Sequence[ChunkEntry],
    settings: TrainingSettings,
    *,
    has_validation: bool,
    weight_bytes: int,
    participants: int | None = None,
    uses_gpu: bool = False,
    memory_budget_bytes: int | None = None,
) -> tuple[Advice, ...]:
    """What is worth saying before the job starts. `participants` and `memory_budget_bytes` (the smallest
    participant's) are None while nobody has joined."""
    found = [
        *_momentum_advice(info, chunks, settings, participants),
        *_data_advice(info, chunks, has_validation, memory_budget_bytes),
        *_experience_advice(info, settings),
    ]
    if uses_gpu and weight_bytes // 4 < SMALL_MODEL_WEIGHTS:
        found.append(
            Advice(
                "small-model-on-gpu",
                f"This model has {weight_bytes // 4} weights. Below about {SMALL_MODEL_WEIGHTS} the GPU is usually "
                "slower than the CPU.",
            )
        )
    return tuple(found)


def _momentum_advice(
    info: ModelInfo, chunks: Sequence[ChunkEntry], settings: TrainingSettings, participants: int | None
) -> list[Advice]:
    method = method_named(settings.aggregation.method)
    if not method.state_vectors:
        return []
    found = []
    rounds = ceil(len(chunks) / (participants or 1))
    if len(chunks) == 1:
        text = f"With one chunk a round is a whole pass, and {method.label} overshoots. FedAvg is the safe choice."
        found.append(Advice("momentum-one-chunk", text))
    elif info.reads_data and rounds < FEW_ROUNDS_PER_PASS:
        text = (
            f"A pass has only about {rounds} rounds. {method.label} needs many small rounds: use more chunks or FedAvg."
        )
        found.append(Advice("momentum-few-rounds", text))
    if participants == 1:
        text = f"With one participant {method.label} only adds momentum to that participant's own training."
        found.append(Advice("momentum-one-participant", text))
    if info.aggregation is None or info.aggregation.average_only is None:
        text = (
            f"The model does not say which of its values are not trained (averageOnly). {method.label} can damage "
            "running statistics and counters: use FedAvg if it has any."
        )
        found.append(Advice("average-only-undeclared", text))
    return found


def _data_advice(
    info: ModelInfo, chunks: Sequence[ChunkEntry], has_validation: bool, memory_budget_bytes: int | None
) -> list[Advice]:
    if not info.reads_data:
        return []
    found = []
    if not has_validation:
        text = "There is no validation data. Training metrics alone do not show when a model starts to overfit."
        found.append(Advice("no-validation-data", text))
    if chunks and all(chunk.example_count == 1 for chunk in chunks):
        text = "Every chunk holds one example. Most of the time will go into moving files: use larger chunks."
        found.append(Advice("one-example-per-chunk", text))
    largest = max(chunks, key=lambda chunk: chunk.bytes, default=None)
    if largest and memory_budget_bytes is not None and largest.bytes > memory_budget_bytes:
        text = (
            f"Chunk {largest.id} has {largest.bytes} bytes; a participant's memory budget is {memory_budget_bytes}. "
            "Use smaller chunks."
        )
        found.append(Advice("chunk-over-memory-budget", text))
    return found


def _experience_advice(info: ModelInfo, settings: TrainingSettings) -> list[Advice]:
    """For models that make all of their data."""
    if info.reads_data:
        return []
    found = []
    schedule = settings.validation_schedule
    if info.evaluation_units and not (schedule and schedule.enabled):
        text = (
            "Evaluation is off. Metrics while training rest on chance and do not show how good the model is: evaluate "
            "every few rounds."
        )
        found.append(Advice("no-evaluation", text))
    if settings.units_per_assignment == 1:
        text = (
            "Each participant's part is one unit. Most of the time will go into moving weights, and every update rests "
            "on chance: use more."
        )
        found.append(Advice("one-unit-per-round", text))
    return found


def advise_tokens(tokens: Sequence[str]) -> tuple[Advice, ...]:
    """What is worth saying about a tokenizer, from the tokens of its vocabulary or of a sample of the data."""
    found = []
    joined = next((token for token in tokens if _DIGIT_BESIDE_OPERATOR.search(END_TOKEN.sub("", token))), None)
    if joined is not None:
        text = f"The token {joined!r} joins a digit with an operator. Arithmetic is learned only from single digits."
        found.append(Advice("tokenizer-joins-operators", text))
    glued = next((token for token in tokens if _has_glued_end(token)), None)
    if glued is not None:
        text = f"The token {glued!r} glues the end of the text to other characters. Give the end a token of its own."
        found.append(Advice("tokenizer-glues-end", text))
    return tuple(found)


def _has_glued_end(token: str) -> bool:
    return bool(END_TOKEN.search(token)) and not END_TOKEN.fullmatch(token)
