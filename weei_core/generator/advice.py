"""Warnings before a package is made: what `weei_core.advice` says of tokens and jobs, told of data that lie here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weei_core.advice import END_TOKEN, Advice, advise, advise_tokens
from weei_core.dataset_manifest import ChunkEntry
from weei_core.generator.request import PackageRequest
from weei_core.generator.tokenizers import Tokenizer
from weei_core.model_info import ModelInfo
from weei_core.training_settings import TrainingSettings


def tokenizer_warnings(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[Advice, ...]:
    """`texts`: some of the data. What they are cut into is told before what the vocabulary could do."""
    sample = list(texts)
    cut = dict.fromkeys(token for text in sample for token in tokenizer.cut(text))
    found = advise_tokens([*cut, *tokenizer.shown(range(tokenizer.size))])
    return found + _end_in_pieces(tokenizer, sample)


def _end_in_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Advice, ...]:
    """Data that mark their ends by a text which is no token."""
    marks = (found[0] for text in texts for found in END_TOKEN.finditer(text))
    mark = next((mark for mark in marks if mark not in tokenizer.special_texts), None)
    if mark is None or any(mark.encode() in token for token in tokenizer.tokens):
        return ()
    text = (
        f"The text {mark!r} in the data is cut into {len(tokenizer.encode(mark))} tokens. If it marks the end, name it "
        "as the end token."
    )
    return (Advice("end-in-pieces", text),)


def job_warnings(
    request: PackageRequest,
    info: ModelInfo,
    settings: TrainingSettings,
    chunks: Sequence[ChunkEntry],
    *,
    has_validation: bool,
    weight_bytes: int,
    memory_bytes: int,
) -> tuple[Advice, ...]:
    """Of a job with the suggested settings. `memory_bytes`: what a training on the largest chunk takes."""
    budget = request.training.memory_budget_bytes
    found = advise(
        info,
        chunks,
        settings,
        has_validation=has_validation,
        weight_bytes=weight_bytes,
        participants=request.training.participants,
        memory_budget_bytes=budget,
    )
    if memory_bytes > budget:
        text = (
            f"A training takes {memory_bytes} bytes of memory; a participant's memory budget is {budget}. Use a "
            "smaller network, smaller chunks or a smaller batch."
        )
        found += (Advice("training-over-memory-budget", text),)
    return found


def class_warnings(classes: int, records: int) -> tuple[Advice, ...]:
    """`classes` 0: no classification."""
    if classes * 2 <= records:
        return ()
    text = (
        f"The label has {classes} different values in {records} records, too few of each to learn from. If it is a "
        "quantity, the task is regression."
    )
    return (Advice("label-has-many-values", text),)
