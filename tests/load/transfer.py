"""Files of a fake participant: fetched and verified, and updates sent by tus, whole or in slices."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from tests.load.calls import Answer, Caller
from tests.load.shared import Shared

TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = {"Content-Type": "application/offset+octet-stream"}


class Transfer:
    def __init__(self, shared: Shared, calls: Caller) -> None:
        self._shared, self._calls = shared, calls

    async def fetch_for(self, assignment: dict[str, Any]) -> None:
        weights = assignment["weights"]
        if "inline" in weights:
            if hashlib.sha256(base64.b64decode(weights["inline"])).hexdigest() != weights["sha256"]:
                raise ValueError("inline weights without their hash")
        elif self._shared.behaviour.download:
            await self.fetch(assignment["jobId"], weights, keep=False)
        if self._shared.behaviour.download:
            for file in (*assignment["auxiliary"], *([assignment["data"]] if assignment["data"] else [])):
                await self.fetch(assignment["jobId"], file)

    async def fetch(self, job_id: str, file: dict[str, Any], *, keep: bool = True) -> None:
        sha256 = file["sha256"]
        if keep and sha256 in self._shared.fetched:
            return
        answer = await self._calls.answered("GET", f"/bytes/jobs/{job_id}/{sha256}")
        if hashlib.sha256(answer.body).hexdigest() != sha256:
            raise ValueError("a file without its hash")
        if keep:
            self._shared.fetched.add(sha256)

    async def upload(self, attempt: str, update: bytes, sha256: str, report: dict[str, Any]) -> bool:
        """Whether the server had it already. Raises `Problem`."""
        told = {"kind": "update", "attempt": attempt, "sha256": sha256, "report": json.dumps(report)}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in told.items())
        headers = {**TUS, "Upload-Metadata": metadata, "Upload-Length": str(len(update))}
        if len(update) <= self._shared.behaviour.slice_bytes:
            answer = await self._calls.answered("POST", "/bytes/uploads", {**headers, **OCTETS}, update)
        else:
            answer = await self._upload_slices(headers, update)
        self._shared.note(attempt, sha256)
        duplicate = answer.headers.get("weei-duplicate") == "true"
        self._shared.counters.duplicates += duplicate
        return duplicate

    async def _upload_slices(self, headers: dict[str, str], update: bytes) -> Answer:
        answer = await self._calls.answered("POST", "/bytes/uploads", headers, b"")
        path, offset = answer.headers["location"], int(answer.headers["upload-offset"])
        while offset < len(update):
            part = update[offset : offset + self._shared.behaviour.slice_bytes]
            answer = await self._calls.answered("PATCH", path, {**TUS, **OCTETS, "Upload-Offset": str(offset)}, part)
            # After a 409 without a problem detail too: another slice of ours came through without our hearing of it.
            offset = int(answer.headers["upload-offset"])
        return answer
