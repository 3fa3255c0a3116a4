"""The queue of a pass as plain rules: an order, a cursor, and the few items that go before it.

An item is a whole chunk or a range of its records. Its place is (position in the pass, first record); places decide the
order of dealing among requeued items and the order of merging, whoever trains an item and whenever it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Place(NamedTuple):
    position: int
    record_start: int


@dataclass(frozen=True)
class Item:
    """`whole`: the chunk was never cut, so its id is the chunk's own and its seed that of the whole chunk."""

    position: int
    chunk_index: int
    record_start: int
    record_count: int
    whole: bool = True
    errors: int = 0

    @property
    def place(self) -> Place:
        return Place(self.position, self.record_start)


def item_id(chunk_id: str, item: Item) -> str:
    """The id of an item: the chunk's, or `<chunkId>@<recordStart>+<recordCount>` for a part."""
    return chunk_id if item.whole else f"{chunk_id}@{item.record_start}+{item.record_count}"


@dataclass(frozen=True)
class PassQueue:
    """What is left of a pass. `order[p]` is the chunk index at position p; positions from `cursor` on are undealt."""

    order: Sequence[int]
    cursor: int
    requeued: tuple[Item, ...]
    records_of: Callable[[int], int]

    @property
    def left(self) -> int:
        return len(self.requeued) + len(self.order) - self.cursor

    def undealt(self, count: int) -> list[Item]:
        """The next `count` items behind the cursor, fewer at the end of the pass."""
        positions = range(self.cursor, min(self.cursor + count, len(self.order)))
        return [Item(p, self.order[p], 0, self.records_of(self.order[p])) for p in positions]


@dataclass(frozen=True)
class Deal:
    """Items to hand out now, in queue order, and the queue that remains."""

    items: tuple[Item, ...]
    rest: PassQueue


def deal(queue: PassQueue, wanted: int, *, cut: bool, max_parts: int) -> Deal:
    """Take up to `wanted` items. With `cut` (the model reads record ranges, and this is a deal's start), items are cut
    while there are fewer of them than `wanted`."""
    requeued = sorted(queue.requeued, key=lambda item: item.place)
    if cut and queue.left < wanted:
        items = [*requeued, *queue.undealt(queue.left)]
        parts = tuple(cut_items(items, wanted, max_parts))
        return Deal(parts, replace(queue, cursor=len(queue.order), requeued=()))
    taken = requeued[:wanted]
    fresh = queue.undealt(wanted - len(taken))
    rest = replace(queue, cursor=queue.cursor + len(fresh), requeued=tuple(requeued[len(taken) :]))
    return Deal((*taken, *fresh), rest)


def cut_items(items: Sequence[Item], wanted: int, max_parts: int) -> list[Item]:
    """Cut the largest item (the first of equals) in two, first half larger, until there are `wanted` items, the largest
    has one record, or `max_parts` parts are open already."""
    result = list(items)
    while 0 < len(result) < wanted:
        at = max(range(len(result)), key=lambda i: (result[i].record_count, -i))
        item = result[at]
        if item.record_count < 2 or sum(not other.whole for other in result) >= max_parts:
            break
        first = (item.record_count + 1) // 2
        result[at : at + 1] = [
            replace(item, record_count=first, whole=False),
            replace(item, record_start=item.record_start + first, record_count=item.record_count - first, whole=False),
        ]
    return result


def reshuffled(order: Sequence[int], cursor: int, new_order: Sequence[int]) -> list[int]:
    """The order of the pass at work after a shuffle: dealt stays, the rest follows in the new order."""
    left = set(order[cursor:])
    return [*order[:cursor], *(index for index in new_order if index in left)]
