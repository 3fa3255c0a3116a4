"""What goes wrong with fake participants, and when: a function of a seed, so that a run can be made again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

BAD = ("non_finite", "wrong_size", "hash_mismatch", "invalid_report")
"""The kinds of bad updates, by the code that they must be refused with."""
FAULTS = ("drop_out", "reload", "straggle", "bad", "duplicate", "other_bytes", "late")


@dataclass(frozen=True)
class Behaviour:
    """`work_seconds` is how long training takes. Each rate is the share of assignments that a fault happens to (at most
    one fault to each); the sum of all rates is at most 1.

    drop_out: the connection is cut in the middle of training; the participant comes back after `away_seconds`, and its
    work goes on if it is still its own. reload: the same, and the work in hand is forgotten. straggle: training takes
    `straggle_factor` times as long. bad: one of `BAD`. duplicate: the same update is sent twice. other_bytes: another
    update follows the accepted one. late: the update comes after its attempt was given up for a new one.
    """

    work_seconds: float = 0.0
    drop_out: float = 0.0
    reload: float = 0.0
    straggle: float = 0.0
    bad: float = 0.0
    duplicate: float = 0.0
    other_bytes: float = 0.0
    late: float = 0.0
    away_seconds: float = 2.0
    straggle_factor: float = 10.0
    telemetry_seconds: float = 2.0
    """Between two snapshots; 0: none."""
    ping_seconds: float = 0.0
    """Between two messages that are sent for their answer's time; 0: none."""
    download: bool = False
    """Fetch and verify the module, the chunks and the start weights that are not inline, all but the weights once."""
    slice_bytes: int = 8 * 1024 * 1024
    """An update that is larger is sent in slices of this."""

    def fault(self, seed: int, *of: object) -> str | None:
        """What happens to an assignment, which `of` names."""
        drawn = draw(seed, "fault", *of)
        for name in FAULTS:
            drawn -= getattr(self, name)
            if drawn < 0:
                return name
        return None

    @classmethod
    def read(cls, values: dict[str, Any]) -> Behaviour:
        """Raises ValueError for a name that there is not."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"a behaviour has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        return cls(**values)


def draw(seed: int, *of: object) -> float:
    """From 0 to below 1, always the same for the same arguments."""
    digest = hashlib.blake2b(repr((seed, *of)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
