"""Units of experience as plain rules: ids of ranges, snapshots that fill slots, how an assignment is divided."""

from __future__ import annotations


def units_id(start: int, count: int) -> str:
    """The id of a range of units; the end is not part of it."""
    return f"units-{start}-{start + count}"


def unit_of_record(*, passes: int, records: int, first_example: int, record_start: int) -> int:
    """The unit index of a record: each pass over all `records` continues the count."""
    return passes * records + first_example + record_start


def split_of(*, requested: int, device: int, most: int, units: int) -> int:
    """The ranges of an assignment: what the job asks for, the device runs, the model allows and the units give."""
    return max(1, min(requested, device, most, units))


def snapshot_round(*, rounds_ago: int | None, first: int, loaded: int) -> int:
    """The checkpoint in a slot while that of round `loaded` is loaded. None: the job's own first one, `first`."""
    return first if rounds_ago is None else max(first, loaded - rounds_ago)


def rounds_completed(round_no: int, epochs: int) -> bool:
    """Whether the checkpoint of `round_no` is the last one of an experience job, whose `epochs` is its last round."""
    return round_no >= epochs
