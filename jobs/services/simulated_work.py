"""What each participant of a simulated job gets in each round, by the same rules as `dealing`, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from jobs.domain.experience import split_of, unit_starts
from jobs.domain.progress import Progress
from jobs.domain.queue import Item, PassQueue, deal
from jobs.domain.rounds import After, Position, after_checkpoint, after_experience
from weei_core import seeds
from weei_core.abi.requests import DataRange, Units
from weei_core.errors import Conflict
from weei_core.model_info import ModelInfo
from weei_core.training_settings import TrainingSettings

MOST_FAILURES = 3
"""A chunk of which no unit was finished so many times ends the simulation, as it pauses a job."""


@dataclass(frozen=True)
class ChunkFile:
    """A chunk, or a validation file: where it lies, and what its manifest says of it."""

    id: str
    path: Path
    format: str
    records: int


@dataclass(frozen=True)
class Part:
    """One participant's part of a round. `place` orders the merge; `item` goes back when no unit was finished."""

    place: tuple[int, int]
    seed: str
    records: int = 0
    data: Path | None = None
    range: DataRange | None = None
    units: Units | None = None
    split: int = 1
    item: Item | None = None


@dataclass(frozen=True)
class Standing:
    """Where the job stands at a checkpoint: what follows, and what an exported file says of the queue. `incomplete`: it
    ends before what its settings plan."""

    after: After
    ends_pass: bool
    passes: int
    progress: Progress | None
    next_unit: int | None
    incomplete: bool


class Dealer(Protocol):
    def deal(self, number: int) -> list[Part]:
        """The parts of round `number`, in order of acceptance."""

    def closed(self, number: int, unfinished: Sequence[Item], *, finishing: bool = False) -> Standing:
        """Round `number` is merged; `unfinished` are items that came back without a finished unit. `finishing`: the
        job is to end here."""


class UnitDealer:
    """For a model that makes its own data: every participant gets the next range of units."""

    def __init__(
        self, settings: TrainingSettings, info: ModelInfo, job_seed: int, *, participants: int, device: int
    ) -> None:
        assert settings.units_per_assignment is not None
        self._units = settings.units_per_assignment
        self._split = split_of(
            requested=settings.workers, device=device, most=info.max_workers, units=settings.units_per_assignment
        )
        self._epochs = settings.epochs
        self._job_seed = job_seed
        self._participants = participants
        self._next_unit = 0

    def deal(self, number: int) -> list[Part]:
        starts = unit_starts(self._next_unit, self._participants, self._units)
        self._next_unit = starts.stop
        return [self._part(start) for start in starts]

    def _part(self, start: int) -> Part:
        seed = seeds.format_seed(seeds.experience_seed(self._job_seed, start))
        return Part((0, start), seed, units=Units(seed, start, self._units), split=self._split)

    def closed(self, number: int, unfinished: Sequence[Item], *, finishing: bool = False) -> Standing:
        after = after_experience(round_no=number, epochs=self._epochs, left=None, finishing=finishing)
        return Standing(
            after,
            ends_pass=False,
            passes=number,
            progress=None,
            next_unit=self._next_unit,
            incomplete=after == After.COMPLETED and number < self._epochs,
        )


class ChunkDealer:
    """For a model that reads chunks: passes over the queue, one item for each participant and round. Where the records
    are units of experience, these count on over all passes."""

    def __init__(
        self,
        chunks: Sequence[ChunkFile],
        settings: TrainingSettings,
        info: ModelInfo,
        job_seed: int,
        *,
        participants: int,
        shuffled: bool,
        max_parts: int,
    ) -> None:
        self._chunks = chunks
        self._firsts = list(accumulate((chunk.records for chunk in chunks), initial=0))
        self._info = info
        self._epochs = settings.epochs
        self._job_seed = job_seed
        self._participants = participants
        self._max_parts = max_parts
        manifest_order = range(len(chunks))
        self.order: Sequence[int] = (
            seeds.shuffle_order(job_seed, 1, manifest_order) if shuffled else list(manifest_order)
        )
        self._pass = 0
        self._pass_begin()

    def _pass_begin(self) -> None:
        self._queue = PassQueue(self.order, 0, (), lambda index: self._chunks[index].records)

    @property
    def _first_unit(self) -> int:
        """Of the pass at work."""
        return self._pass * self._firsts[-1]

    def deal(self, number: int) -> list[Part]:
        cut = self._info.capabilities.record_ranges
        dealt = deal(self._queue, self._participants, cut=cut, max_parts=self._max_parts)
        self._queue = dealt.rest
        return [self._part(number, item) for item in dealt.items]

    def _part(self, number: int, item: Item) -> Part:
        chunk, units = self._chunks[item.chunk_index], None
        if self._info.is_experience:
            unit = self._first_unit + self._firsts[item.chunk_index] + item.record_start
            seed = seeds.format_seed(seeds.experience_seed(self._job_seed, unit))
            units = Units(seed, unit, item.record_count)
        else:
            derived = seeds.dataset_seed(self._job_seed, number, item.chunk_index, item.record_start)
            seed = seeds.format_seed(derived)
        part = DataRange(chunk.format) if item.whole else DataRange(chunk.format, item.record_start, item.record_count)
        return Part(item.place, seed, item.record_count, chunk.path, part, units, item=item)

    def closed(self, number: int, unfinished: Sequence[Item], *, finishing: bool = False) -> Standing:
        back = tuple(replace(item, errors=item.errors + 1) for item in unfinished)
        stuck = next((item for item in back if item.errors >= MOST_FAILURES), None)
        if stuck is not None:
            raise Conflict(
                f"Round {number}: chunk {self._chunks[stuck.chunk_index].id} came back {stuck.errors} times without a "
                "finished unit.",
                code="nothing_finished",
            )
        self._queue = replace(self._queue, requeued=(*self._queue.requeued, *back))
        left = self._queue.left
        planned = self._after(number, left, finishing=False)
        standing = Standing(
            after=self._after(number, left, finishing=finishing),
            ends_pass=left == 0,
            passes=self._pass + (left == 0),
            progress=Progress(self._pass, self._queue.cursor, self._queue.requeued),
            next_unit=self._next_unit(left),
            incomplete=finishing and planned != After.COMPLETED,
        )
        if standing.after == After.NEXT_PASS:
            self._pass += 1
            self._pass_begin()
        return standing

    def _after(self, number: int, left: int, *, finishing: bool) -> After:
        if self._info.is_experience:
            return after_experience(round_no=number, epochs=self._epochs, left=left, finishing=finishing)
        return after_checkpoint(Position(self._pass, left, self._epochs), finishing=finishing)

    def _next_unit(self, left: int) -> int | None:
        if not self._info.is_experience:
            return None
        return self._first_unit + (self._firsts[-1] if left == 0 else 0)
