"""Byte-pair encoding over arrays of token ids: learning merges from a sample, and applying them.

No text here: ids go in and come out, and a pair of neighbours that must not become one is kept apart by WALL (when
learning) or by the end of its text (when applying).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]

WALL = -1
_SHIFT = 16  # ids fit into 16 bits
_BLOCK = 1 << 18


def learn(ids: Ids, count: int, first_id: int) -> list[tuple[int, int]]:
    """At most `count` merges in rank order; the k-th makes the token `first_id + k`. `ids` are used up.

    Each joins the most frequent pair of neighbours, of equals the one with the smallest ids, left before right. Ends
    early when no pair occurs twice: a token for something that occurs once says nothing.
    """
    amounts: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    for start in range(0, len(ids) - 1, _BLOCK):
        _count(amounts, heap, _codes(ids, np.arange(start, min(start + _BLOCK, len(ids) - 1))), 1)
    merges: list[tuple[int, int]] = []
    while heap and len(merges) < count:
        negative, code = heapq.heappop(heap)
        if amounts.get(code, 0) != -negative:  # The count has changed since; the newer entry is in the heap too.
            continue
        if -negative < 2:
            break
        left, right = code >> _SHIFT, code & (1 << _SHIFT) - 1
        ids = _join_counted(ids, left, right, first_id + len(merges), amounts, heap)
        merges.append((left, right))
    return merges


def _join_counted(
    ids: Ids, left: int, right: int, result: int, amounts: dict[int, int], heap: list[tuple[int, int]]
) -> Ids:
    """`ids` with every left-right replaced, from left to right; `amounts` follows."""
    found = np.flatnonzero((ids[:-1] == left) & (ids[1:] == right))
    if left == right:
        found = found[_every_other(found[1:] == found[:-1] + 1)]
    touched = _distinct([found - 1, found, found + 1])
    _count(amounts, heap, _codes(ids, touched[(touched >= 0) & (touched < len(ids) - 1)]), -1)
    kept = np.ones(len(ids), bool)
    kept[found + 1] = False
    ids[found] = result
    ids = ids[kept]
    moved = found - np.arange(len(found))
    made = _distinct([moved - 1, moved])
    _count(amounts, heap, _codes(ids, made[(made >= 0) & (made < len(ids) - 1)]), 1)
    return ids


def _codes(ids: Ids, at: Ids) -> Ids:
    """Pairs that begin at `at`, as one number each, without those beside a wall."""
    left, right = ids[at], ids[at + 1]
    open_ = (left != WALL) & (right != WALL)
    codes: Ids = (left[open_] << _SHIFT) | right[open_]
    return codes


def _count(amounts: dict[int, int], heap: list[tuple[int, int]], codes: Ids, sign: int) -> None:
    unique, times = np.unique(codes, return_counts=True)
    for code, many in zip(unique.tolist(), times.tolist(), strict=True):
        amount = amounts.get(code, 0) + sign * many
        amounts[code] = amount
        if amount:
            heapq.heappush(heap, (-amount, code))


def _distinct(parts: Sequence[Ids]) -> Ids:
    """All numbers of `parts`, ascending. (Faster here than `numpy.unique`, which hashes.)"""
    numbers = np.sort(np.concatenate(parts))
    return numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])] if len(numbers) else numbers


def _every_other(follows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of some matches to keep where they overlap: of each run the first, third, fifth and so on.

    `follows[k]`: match k + 1 overlaps match k.
    """
    begins = np.concatenate([[True], ~follows])
    position = np.arange(len(begins))
    kept: NDArray[np.bool_] = (position - np.maximum.accumulate(np.where(begins, position, 0))) % 2 == 0
    return kept


class Merges:
    """Merges in rank order, ready to be applied."""

    def __init__(self, triples: Sequence[tuple[int, int, int]]) -> None:
        """`triples`: (left, right, result). The parts of a merge are base tokens or results of earlier merges."""
        self._left = np.array([left for left, _, _ in triples], np.int64)
        self._right = np.array([right for _, right, _ in triples], np.int64)
        self._result = np.array([result for _, _, result in triples], np.int64)
        codes = (self._left << _SHIFT) | self._right
        self._order = np.argsort(codes, kind="stable")
        self._sorted = codes[self._order]

    def _ranks(self, left: Ids, right: Ids) -> Ids:
        """The rank of each pair, or -1."""
        codes = (left << _SHIFT) | right
        at = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
        return np.where(self._sorted[at] == codes, self._order[at], -1)

    def apply(self, ids: Ids, lengths: Ids) -> tuple[Ids, Ids]:
        """Merge within each of the texts that stand one behind the other in `ids`. Returns the same two, shorter.

        The pair of lowest rank is merged first, everywhere and from left to right, until none is left. Since a result
        occurs only in later merges, one walk through the ranks does it: each sees the pairs that were there from the
        start and those that earlier ranks made.
        """
        if not len(self._result) or not len(ids):
            return ids, lengths
        chain = _Chain(ids, lengths)
        waiting: dict[int, list[Ids]] = {}
        queue: list[int] = []

        def wait(at: Ids) -> None:
            at = at[chain.following[at] >= 0]
            ranks = self._ranks(chain.ids[at], chain.ids[chain.following[at]])
            at, ranks = at[ranks >= 0], ranks[ranks >= 0]
            order = np.argsort(ranks, kind="stable")
            values, starts = np.unique(ranks[order], return_index=True)
            for rank, group in zip(values.tolist(), np.split(at[order], starts[1:]), strict=False):
                if rank not in waiting:
                    waiting[rank] = []
                    heapq.heappush(queue, rank)
                waiting[rank].append(group)

        wait(np.arange(len(ids)))
        while queue:
            rank = heapq.heappop(queue)
            at = _distinct(waiting.pop(rank))
            wait(chain.join(at, self._left[rank], self._right[rank], self._result[rank]))
        return chain.rest(lengths)


class _Chain:
    """Texts of ids as one doubly linked list, cut at the ends of the texts: merging moves no memory."""

    def __init__(self, ids: Ids, lengths: Ids) -> None:
        self.ids = ids.copy()
        self.following = np.arange(1, len(ids) + 1)
        self.preceding = np.arange(-1, len(ids) - 1)
        ends = np.cumsum(lengths)
        filled = ends[lengths > 0]
        self.following[filled - 1] = -1
        self.preceding[filled[:-1]] = -1

    def join(self, at: Ids, left: np.int64, right: np.int64, result: np.int64) -> Ids:
        """Join the pairs at `at` (ascending) that still are left-right. Returns where new pairs begin."""
        after = self.following[at]
        at = at[(self.ids[at] == left) & (after >= 0) & (self.ids[after] == right)]
        if left == right:
            at = at[_every_other(at[1:] == self.following[at[:-1]])] if len(at) else at
        gone = self.following[at]
        after = self.following[gone]
        self.ids[at] = result
        self.ids[gone] = WALL
        self.following[at] = after
        linked = after >= 0
        self.preceding[after[linked]] = at[linked]
        before = self.preceding[at]
        return _distinct([at, before[before >= 0]])

    def rest(self, lengths: Ids) -> tuple[Ids, Ids]:
        kept = self.ids != WALL
        ends = np.cumsum(lengths)
        counted = np.concatenate([[0], np.cumsum(kept)])
        return self.ids[kept], counted[ends] - counted[ends - lengths]
