"""The diagnostics of a fake participant: those of the golden file, so that the server has a whole one to check."""

from __future__ import annotations

import json
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "diagnostics.json"


class Template:
    """The text is made once; what differs is put into it."""

    def __init__(self) -> None:
        golden = json.loads(GOLDEN.read_text())["whole"]
        snapshot = {**golden, "sequence": "@sequence", "assignment": {**golden["assignment"], "jobId": "@job"}}
        self._text = json.dumps({"type": "diagnostics", "snapshot": snapshot})

    def frame(self, job_id: str, sequence: int) -> bytes:
        return self._text.replace('"@sequence"', str(sequence)).replace("@job", job_id).encode()


SNAPSHOT = Template()
