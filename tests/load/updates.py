"""The weights that a fake participant trains: a function of what it starts from and of the item, whoever it is.

So everybody who has the ledger of a checkpoint can make its updates again, and compare hashes.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def update_of(start_sha256: str, item: str, seed: str | None, size: int) -> bytes:
    """`size` bytes of float32 from -1 to below 1."""
    drawn = hashlib.shake_128(f"{start_sha256}/{item}/{seed}".encode()).digest(size)
    return (np.frombuffer(drawn, "<i4") / 2**31).astype("<f4").tobytes()


def item_of(assignment: dict[str, Any]) -> str:
    """The name of an item in assignments and in ledgers; two parts of a chunk have two names."""
    return str(assignment["chunkId"])


def report_of(assignment: dict[str, Any]) -> dict[str, Any]:
    count = assignment["exampleCount"]
    return {"round": assignment["round"], "examplesProcessed": count, "uniqueExamples": count, "metrics": {}}


def broken(kind: str, update: bytes, report: dict[str, Any]) -> tuple[bytes, dict[str, Any], str]:
    """A bad update of a kind of `tests.load.behaviour.BAD`: the bytes, the report, and the hash that is declared."""
    if kind == "non_finite":
        update = update[:-4] + np.array([np.nan], "<f4").tobytes()
    elif kind == "wrong_size":
        update = update + bytes(4)
    elif kind == "invalid_report":
        report = {**report, "uniqueExamples": 10**9}
    declared = hashlib.sha256(b"something else" if kind == "hash_mismatch" else update).hexdigest()
    return update, report, declared
