"""What an agent made of one assignment, and how it is labelled when it goes to the server by tus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weei_agent.outcomes import AttemptFailed
from weei_core.errors import Invalid
from weei_core.weights import FileSource, sha256_of_finite


@dataclass(frozen=True)
class Update:
    """The trained weights in a file, and what the module reported about them."""

    attempt_id: str
    weights: Path
    bytes: int
    sha256: str
    report: dict[str, Any]

    def labels(self) -> dict[str, str]:
        report = json.dumps(self.report, allow_nan=False, separators=(",", ":"))
        return {"kind": "update", "attempt": self.attempt_id, "sha256": self.sha256, "report": report}


def make_update(attempt_id: str, weights: Path, expected_bytes: int, report: dict[str, Any]) -> Update:
    """Reads the file once, in blocks. What the server would refuse never leaves this machine (C07, C18)."""
    with weights.open("rb") as file:
        source = FileSource(file.fileno())
        if source.size != expected_bytes:
            message = f"The trained weights have {source.size} bytes; the start weights have {expected_bytes}."
            raise AttemptFailed(message)
        try:
            sha256 = sha256_of_finite(source, "The trained weights")
        except Invalid as error:
            raise AttemptFailed(error.message) from None
    return Update(attempt_id, weights, expected_bytes, sha256, report)
