"""`upload`: what a web process grows by while a module of 256 MiB comes in slices, on the real server. And how fast
that is, beside a bare Starlette app on the same server that writes each body to a file and does nothing else.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.measured import Duration, Figure, Measured
from tests.stack.ports import free_port
from tests.stack.stack import ROOT, Stack
from weei_site.launch.supervision import end_with_parent

MIB = 2**20
TOTAL_MIB, SLICE_MIB = 256, 8
"""A browser sends slices of that size (SLICE_BYTES in static/weei/protocol.js)."""
REPEATS = 3
"""Of each, in turns. The best time counts, and the most memory."""
MOST_MIB = 64
START_SECONDS = 30


def measure() -> Iterator[Figure]:
    # Not in /tmp, which may be in memory.
    with tempfile.TemporaryDirectory(prefix="weei-bench-", dir="/var/tmp") as folder:
        places = {"STORAGE_URL": f"file://{folder}/artifacts"}
        with Stack(places, services=("valkey", "web")) as stack, BareServer(Path(folder, "bare")) as bare:
            person = stack.signed_in()
            upload(person, stack.url, module(0, MIB))  # What the first one loads, none loads again.
            ours, theirs, grown = [], [], []
            for number in range(1, REPEATS + 1):
                body = module(number, TOTAL_MIB * MIB)
                before = reset_peak(stack.pid("web"))
                ours.append(upload(person, stack.url, body))
                grown.append(status_bytes(stack.pid("web"), "VmHWM") - before)
                theirs.append(bare.upload(body))
    yield Duration("upload_memory", max(grown) / MIB, f"MiB, {TOTAL_MIB} MiB uploaded", MOST_MIB)
    peer = f"a bare Starlette app on uvicorn that writes {TOTAL_MIB} MiB in requests of {SLICE_MIB} MiB to one file"
    yield Measured("upload", TOTAL_MIB / min(ours), "MiB/s", peer, TOTAL_MIB / min(theirs))


def module(number: int, size: int) -> bytes:
    """Bytes that no upload brought before: known ones are not sent again."""
    return b"\0asm" + os.urandom(MIB - 4) + number.to_bytes(4, "big") * ((size - MIB) // 4)


def upload(person: httpx.Client, origin: str, body: bytes) -> float:
    """Seconds of a tus upload, as `weei.js` does it: created empty, then slices, the last of which joins them."""
    facts = {"kind": "file", "sha256": hashlib.sha256(body).hexdigest(), "filename": "module.wasm"}
    metadata = ",".join(f"{name} {b64encode(value.encode()).decode()}" for name, value in facts.items())
    headers = {"Tus-Resumable": "1.0.0", "Origin": origin}
    begun = time.perf_counter()
    create = {**headers, "Upload-Length": str(len(body)), "Upload-Metadata": metadata}
    made = person.post("/bytes/uploads", headers=create).raise_for_status()
    for offset in range(0, len(body), SLICE_MIB * MIB):
        piece = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        content = body[offset : offset + SLICE_MIB * MIB]
        person.patch(made.headers["Location"], headers={**headers, **piece}, content=content).raise_for_status()
    seconds = time.perf_counter() - begun
    if int(person.head(made.headers["Location"], headers=headers).headers["Upload-Offset"]) != len(body):
        raise ArithmeticError("The upload did not come to its end.")
    return seconds


class BareServer:
    """`benchmarks.upload_app` on uvicorn. Each upload begins a new file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> BareServer:
        port = free_port()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "benchmarks.upload_app:app", "--port", str(port), "--log-level", "error"],
            cwd=ROOT,
            env={**os.environ, "UPLOAD_FILE": str(self._file)},
            preexec_fn=end_with_parent,
        )
        transport = httpx.HTTPTransport(retries=0)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=60)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self._client.put("/", content=b"").raise_for_status()
                return self
            except httpx.TransportError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def __exit__(self, *args: object) -> None:
        self._client.close()
        self._process.terminate()
        self._process.wait()

    def upload(self, body: bytes) -> float:
        self._file.unlink(missing_ok=True)
        begun = time.perf_counter()
        for offset in range(0, len(body), SLICE_MIB * MIB):
            self._client.put("/", content=body[offset : offset + SLICE_MIB * MIB]).raise_for_status()
        return time.perf_counter() - begun


def reset_peak(pid: int) -> int:
    """Let the process's peak count from now on; the bytes that it has resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return status_bytes(pid, "VmRSS")


def status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)
