"""Units of experience as plain rules: ids of ranges, snapshots that fill slots, how an assignment is divided."""

from __future__ import annotations


def units_id(start: int, count: int) -> str:
    """The id of a range of units; the end is not part of it."""
    return f"units-{start}-{start + count}"


def unit_starts(next_unit: int, members: int, units: int) -> range:
    """The first unit of each member's range, in order of acceptance; its `stop` is the job's next unit then."""
    return range(next_unit, next_unit + units * members, units)


def split_of(*, requested: int, device: int, most: int, units: int) -> int:
    """The ranges of an assignment: what the job asks for, the device runs, the model allows and the units give."""
    return max(1, min(requested, device, most, units))


def snapshot_round(*, rounds_ago: int | None, first: int, loaded: int) -> int:
    """The checkpoint in a slot while that of round `loaded` is loaded. None: the job's own first one, `first`."""
    return first if rounds_ago is None else max(first, loaded - rounds_ago)
