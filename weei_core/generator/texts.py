"""From text to records of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weei_core.errors import Invalid
from weei_core.generator.advice import tokenizer_warnings
from weei_core.generator.bpe import Ids
from weei_core.generator.chunking import planned, tokens_file
from weei_core.generator.configuration import TOKENS_FORMAT
from weei_core.generator.forms import text_form
from weei_core.generator.material import Look, Material, Progress, ShownRecord
from weei_core.generator.readers.jsonl import JsonLineRecords
from weei_core.generator.readers.text import LineRecords, Pieces
from weei_core.generator.records import BadRows, TextRecord, TokenSpool
from weei_core.generator.request import JsonLinesData, PackageRequest, TextData, TokenizerRequest
from weei_core.generator.tokenizers import Specials, Tokenizer

BATCH_CHARACTERS = 2**20
BATCH_RECORDS = 8_192
SHOWN_RECORDS = 10
WARNED_TEXTS = 1_000
"""Records of the sample that are cut to look for traps."""
WARNED_CHARACTERS = 20_000


class TextSource(Protocol):
    """Records of a file, all or an even sample."""

    def __iter__(self) -> Iterator[TextRecord]: ...
    def sampled(self) -> Iterator[TextRecord]: ...
    def progress(self) -> tuple[int, int]: ...


class Batch(NamedTuple):
    """Tokens, and of each record where it begins in them, its length and its first trained token.

    `origin`: which of the texts each record came from; a long text makes several.
    """

    ids: Ids
    first: Ids
    length: Ids
    loss_from: Ids
    origin: Ids


@dataclass(frozen=True)
class TextMaterial(Material):
    spool: TokenSpool
    vocabulary: int

    def file(self, records: Ids) -> bytes:
        return tokens_file(self.spool, records, self.vocabulary)


def text_material(request: PackageRequest, path: Path, folder: Path, progress: Progress) -> TextMaterial:
    """Reads the whole file, up to three times: for its characters, for a sample, and for its tokens.

    `folder` takes the spool. Raises Invalid with the lines that cannot be used.
    """
    bad = BadRows()
    source = _source(request, path, bad)
    tokenizer = _tokenizer(request, source, _told(source, "read", progress))
    sample = [part for record in source.sampled() for part in record.parts]
    bad.refuse()
    spool = TokenSpool(folder)
    records = _told(source, "read", progress)
    if isinstance(source, Pieces):
        _spool_windows(tokenizer, records, request.context, spool)
    else:
        for batch in _batches(tokenizer, records, request.context, bad):
            spool.append_records(batch.first + spool.token_count, batch.length, batch.loss_from)
            spool.append_tokens(batch.ids)
    spool.finish()
    bad.refuse()
    _check_any(spool.record_count)
    architecture = request.built(vocabSize=tokenizer.size, endToken=tokenizer.end_token)
    return TextMaterial(
        plan=planned(request.chunking, spool.record_count, spool.mean_record_bytes),
        architecture=architecture,
        blob=tokenizer.blob(),
        format=TOKENS_FORMAT,
        inference=text_form(request.context, tokenizer.size),
        record_bytes=spool.mean_record_bytes,
        whole_answers=_has_answers(request),
        warnings=tokenizer_warnings(tokenizer, _warned(sample)),
        spool=spool,
        vocabulary=tokenizer.size,
    )


def look_at_text(request: PackageRequest, path: Path, progress: Progress) -> Look:
    """What an even sample shows; all of a small file. `progress` hears of its three steps: read, learn tokens, cut."""
    bad = BadRows()
    source = _source(request, path, bad)
    progress("look", 0, 3)
    sample = list(source.sampled())
    bad.refuse()
    done, size = source.progress()
    progress("look", 1, 3)
    tokenizer = _tokenizer(request, source, sample)
    progress("look", 2, 3)
    texts = [part for record in sample for part in record.parts]
    spool = _SampleSpool()
    shown = _sample(request, tokenizer, source, sample, bad, spool)
    bad.refuse()
    _check_any(spool.record_count)
    return Look(
        architecture=request.built(vocabSize=tokenizer.size, endToken=tokenizer.end_token),
        record_count=max(spool.record_count, round(spool.record_count * size / done)),
        record_bytes=8 + 2 * spool.token_count / spool.record_count,
        exact=done >= size,
        records=tuple(shown),
        table=None,
        vocabulary_size=tokenizer.size,
        whole_answers=_has_answers(request),
        warnings=tokenizer_warnings(tokenizer, _warned(texts)),
    )


def _source(request: PackageRequest, path: Path, bad: BadRows) -> TextSource:
    if isinstance(request.data, JsonLinesData):
        return JsonLineRecords(path, request.data, bad)
    assert isinstance(request.data, TextData) and request.tokenizer is not None
    if request.data.records == "lines":
        return LineRecords(path, bad)
    return Pieces(path, _special_texts(request.tokenizer))


def _has_answers(request: PackageRequest) -> bool:
    return isinstance(request.data, JsonLinesData) and request.data.text is None


def _special_texts(request: TokenizerRequest) -> list[str]:
    end = [] if request.end_token is None else [request.end_token]
    return list(dict.fromkeys([*request.specials, *end]))


def _tokenizer(request: PackageRequest, source: TextSource, records: Iterable[TextRecord]) -> Tokenizer:
    """`records`: those whose characters the vocabulary must have. They are walked only if it is made of characters."""
    chosen = request.tokenizer
    assert chosen is not None
    alphabet: set[str] = set()
    if chosen.kind == "characters" or (chosen.kind == "bpe" and chosen.base == "characters"):
        marks = Specials(_special_texts(chosen))
        for record in records:
            for part in record.parts:
                alphabet |= marks.characters(part)
    sampled = (part for record in source.sampled() for part in record.parts) if chosen.merges else ()
    return Tokenizer.of_request(chosen, sampled, alphabet)


def _told(source: TextSource, stage: str, progress: Progress) -> Iterator[TextRecord]:
    """The records of `source`; `progress` hears of every mebibyte."""
    told = 0
    for record in source:
        done, size = source.progress()
        if done - told >= BATCH_CHARACTERS:
            told = done
            progress(stage, done, size)
        yield record
    progress(stage, source.progress()[1], source.progress()[1])


def _spool_windows(tokenizer: Tokenizer, pieces: Iterable[TextRecord], context: int, spool: TokenSpool) -> None:
    """One record after the other over the whole text: each begins with the last token of the one before."""
    for piece in pieces:
        spool.append_tokens(tokenizer.encode_many(piece.parts)[0])
    count = -(-(spool.token_count - 1) // context)
    for start in range(0, count, BATCH_CHARACTERS):
        first = context * np.arange(start, min(start + BATCH_CHARACTERS, count))
        length = np.minimum(context + 1, spool.token_count - first)
        spool.append_records(first, length, np.zeros_like(first))


def _batches(tokenizer: Tokenizer, records: Iterable[TextRecord], context: int, bad: BadRows) -> Iterator[Batch]:
    rest = iter(records)
    while batch := _some(rest):
        yield _batch(tokenizer, batch, context, bad)


def _some(records: Iterator[TextRecord]) -> list[TextRecord]:
    """The next few, so that tokenizing them at once takes little memory."""
    taken, characters = [], 0
    for record in islice(records, BATCH_RECORDS):
        taken.append(record)
        characters += sum(map(len, record.parts))
        if characters >= BATCH_CHARACTERS:
            break
    return taken


def _batch(tokenizer: Tokenizer, records: Sequence[TextRecord], context: int, bad: BadRows) -> Batch:
    """Encode texts or prompts with answers, set the end token behind each, and cut texts that are too long."""
    count = len(records)
    ids, lengths = tokenizer.encode_many([part for record in records for part in record.parts])
    by_part = lengths.reshape(count, -1)
    whole = by_part.sum(axis=1)
    if tokenizer.end_token is not None:
        ends = np.cumsum(whole)
        last = np.where(whole > 0, ids[np.maximum(ends - 1, 0)] if len(ids) else -1, -1)
        lacking = last != tokenizer.end_token
        ids = np.insert(ids, ends[lacking], tokenizer.end_token)
        whole = whole + lacking
    has_answers = by_part.shape[1] == 2
    loss_from = by_part[:, 0] if has_answers else np.zeros(count, np.int64)
    good = _usable(records, whole, loss_from if has_answers else None, context, bad)
    starts = np.cumsum(whole) - whole
    cuts = np.where(good, np.maximum(1, -(-(whole - 1) // context)), 0)
    origin = np.repeat(np.arange(count), cuts)
    offset = context * (np.arange(len(origin)) - np.repeat(np.cumsum(cuts) - cuts, cuts))
    return Batch(
        ids=ids,
        first=starts[origin] + offset,
        length=np.minimum(context + 1, whole[origin] - offset),
        loss_from=loss_from[origin],
        origin=origin,
    )


def _usable(
    records: Sequence[TextRecord], whole: Ids, prompts: Ids | None, context: int, bad: BadRows
) -> NDArray[np.bool_]:
    """Which records can be trained on; of the others `bad` hears why."""
    if prompts is None:
        wrong = {"has fewer than two tokens": whole < 2}
    else:
        wrong = {
            "has an empty prompt": prompts == 0,
            "has an empty answer": prompts >= whole,
            f"has more tokens than the {context + 1} that fit a context of {context}": whole > context + 1,
        }
    good = np.ones(len(records), bool)
    for reason, where in wrong.items():
        for index in np.flatnonzero(where & good).tolist():
            bad.add(records[index].line or "in a sample", reason)
        good &= ~where
    return good


class _SampleSpool:
    """Counts what a spool would hold."""

    def __init__(self) -> None:
        self.token_count = 0
        self.record_count = 0

    def count(self, length: Ids) -> None:
        self.token_count += int(length.sum())
        self.record_count += len(length)


def _sample(
    request: PackageRequest,
    tokenizer: Tokenizer,
    source: TextSource,
    sample: Sequence[TextRecord],
    bad: BadRows,
    spool: _SampleSpool,
) -> list[ShownRecord]:
    """The first records as they are cut; `spool` counts all of the sample."""
    shown: list[ShownRecord] = []
    if isinstance(source, Pieces):
        batches: Iterable[Batch] = [_windows(tokenizer, sample, request.context)]
    else:
        batches = _batches(tokenizer, sample, request.context, bad)
    at = 0
    for batch in batches:
        spool.count(batch.length)
        for index in range(min(len(batch.first), SHOWN_RECORDS - len(shown))):
            line = None if isinstance(source, Pieces) else sample[at + int(batch.origin[index])].line
            ids = batch.ids[batch.first[index] : batch.first[index] + batch.length[index]].tolist()
            trained_from = int(batch.loss_from[index]) if _has_answers(request) else None
            shown.append(ShownRecord(line, tokenizer.decode(ids), tuple(tokenizer.shown(ids)), trained_from))
        at += int(batch.origin[-1]) + 1 if len(batch.origin) else 0
    return shown


def _windows(tokenizer: Tokenizer, pieces: Iterable[TextRecord], context: int) -> Batch:
    """As `_spool_windows` makes them, in memory."""
    ids = np.concatenate([tokenizer.encode_many(piece.parts)[0] for piece in pieces] or [np.zeros(0, np.int64)])
    first = np.arange(0, max(0, len(ids) - 1), context)
    none = np.zeros_like(first)
    return Batch(ids, first, np.minimum(context + 1, len(ids) - first), none, none)


def _warned(texts: Iterable[str]) -> list[str]:
    return [text[:WARNED_CHARACTERS] for text in islice(texts, WARNED_TEXTS)]


def _check_any(records: int) -> None:
    if not records:
        raise Invalid("The data must hold at least two tokens of text; found fewer.", field="data")
