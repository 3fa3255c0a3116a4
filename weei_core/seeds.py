"""Seeds: how a job's 64-bit seed becomes every other seed and every order, bit for bit the same in each language.

All are unsigned 64-bit integers. Each derived one is the first 8 bytes, little-endian, of a SHA-256 over
8-byte little-endian numbers and ASCII words. Standard library only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TypeVar

from weei_core.errors import Invalid
from weei_core.strict_json import shown

MAX_SEED = 2**64 - 1

Item = TypeVar("Item")

# Not int(): it takes " 42 ", "4_2", "007" and digits of other scripts.
_SEED_TEXT = re.compile(r"0|[1-9][0-9]{0,19}")


def parse_seed(text: object, field: str) -> int:
    """A seed as it crosses JSON: decimal text, since a JavaScript number would lose bits."""
    if isinstance(text, str) and _SEED_TEXT.fullmatch(text) and int(text) <= MAX_SEED:
        return int(text)
    raise Invalid(
        f"{field} must be text of decimal digits from 0 to {MAX_SEED}, without leading zeros; found {shown(text)}.",
        field=field,
    )


def format_seed(seed: int) -> str:
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"a seed is an unsigned 64-bit integer, not {seed}")
    return str(seed)


def _derive(seed: int, *parts: int | bytes) -> int:
    digest = hashlib.sha256(seed.to_bytes(8, "little"))
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.to_bytes(8, "little"))
    return int.from_bytes(digest.digest()[:8], "little")


def initial_weights_seed(job_seed: int) -> int:
    return _derive(job_seed, b"weights")


def experience_seed(job_seed: int, unit_start: int) -> int:
    """`unit_start` is the global index of the assignment's first unit, so that a retry plays the same episodes."""
    return _derive(job_seed, unit_start)


def dataset_seed(job_seed: int, round_number: int, chunk_index: int, record_start: int = 0) -> int:
    """Rounds count from 1; chunks (in manifest order) and records from 0."""
    return _derive(job_seed, round_number, chunk_index, record_start)


def evaluation_seed(job_seed: int) -> int:
    """The same every round, so that results are comparable."""
    return _derive(job_seed, b"evaluation")


def shuffle_order(job_seed: int, n: int, items: Sequence[Item]) -> list[Item]:
    """The order that the job's n-th shuffle (from 1) gives to `items`, which stand in manifest order.

    Fisher-Yates from the end; draws that would make some positions likelier than others are drawn again.
    """
    order = list(items)
    draws = 0
    for i in range(len(order) - 1, 0, -1):
        fair = 2**64 - 2**64 % (i + 1)
        while True:
            drawn = _derive(job_seed, b"shuffle", n, draws)
            draws += 1
            if drawn < fair:
                break
        j = drawn % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def split_ranges(unit_start: int, unit_count: int, split: int) -> list[tuple[int, int]]:
    """An assignment's units as `split` contiguous (start, count) ranges, as even as possible, larger ones first."""
    if not 1 <= split <= unit_count:
        raise Invalid(
            f"split must be from 1 to the {unit_count} units of the assignment; found {split}.", field="split"
        )
    size, larger = divmod(unit_count, split)
    return [(unit_start + k * size + min(k, larger), size + (k < larger)) for k in range(split)]


def range_seed(assignment_seed: int, k: int, unit_start: int) -> int:
    """The seed of range `k` (from 0) of a split assignment; `unit_start` is that range's own first unit."""
    return assignment_seed if k == 0 else _derive(assignment_seed, unit_start)
