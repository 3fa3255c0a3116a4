"""`weei export`: a file of a job, whole or not at all, compared with the hash that the server tells of its weights."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from rich.markup import escape

from weei_cli.api import Api
from weei_cli.looking import JOBS
from weei_cli.outcomes import Exit, Failed, usage
from weei_cli.output import Printer, amount, clean
from weei_client.download import Download

STDOUT = "-"
BLOCK = 1024 * 1024
MOST_HEADER_BYTES = 100 * 1024 * 1024
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

WeightsAt = Callable[[BinaryIO], tuple[int, int | None]]
"""Where the weights lie in a file: the offset, and their length, or None for all that follows."""


@dataclass(frozen=True)
class Format:
    """`address` within /bytes/jobs/<id>/ or /api/v1/jobs/<id>/; `{round}`, `{module}` and `{weights}` are filled in."""

    address: str
    name: str
    of_round: bool = True
    weights_at: WeightsAt | None = None
    """None: there is no hash to compare with."""


def _checkpoint(file: BinaryIO) -> tuple[int, int | None]:
    metadata = json.loads(_block(file, _U32))
    return file.tell(), int(metadata["checkpoint"]["bytes"])


def _safetensors(file: BinaryIO) -> tuple[int, int | None]:
    _block(file, _U64)
    return file.tell(), None


def _npy(file: BinaryIO) -> tuple[int, int | None]:
    start = file.read(8)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it is no .npy file")
    _block(file, struct.Struct("<H") if start[6] == 1 else _U32)
    return file.tell(), None


def _raw(file: BinaryIO) -> tuple[int, int | None]:
    return 0, None


def _block(file: BinaryIO, length: struct.Struct) -> bytes:
    """What a length before it announces."""
    (size,) = length.unpack(file.read(length.size))
    if size > MOST_HEADER_BYTES:
        raise ValueError(f"its header claims {size} bytes")
    found = file.read(size)
    if len(found) < size:
        raise ValueError("it ends within its header")
    return found


FORMATS = {
    "checkpoint": Format(
        "/bytes/jobs/{id}/checkpoints/{round}", "{job}-round-{round}.weei-checkpoint", weights_at=_checkpoint
    ),
    "weights": Format("/bytes/jobs/{id}/{weights}", "{job}-round-{round}.f32", weights_at=_raw),
    "safetensors": Format(
        "/bytes/jobs/{id}/checkpoints/{round}/weights.safetensors",
        "{job}-round-{round}.safetensors",
        weights_at=_safetensors,
    ),
    "npy": Format("/bytes/jobs/{id}/checkpoints/{round}/weights.npy", "{job}-round-{round}.npy", weights_at=_npy),
    "ledger": Format(JOBS + "/{id}/checkpoints/{round}/ledger", "{job}-round-{round}-ledger.json"),
    "module": Format("/bytes/jobs/{id}/{module}", "{module_name}", of_round=False, weights_at=_raw),
    "manifest": Format(JOBS + "/{id}/manifest", "{job}-manifest.json", of_round=False),
    "csv": Format(JOBS + "/{id}/metrics.csv", "{job}-metrics.csv", of_round=False),
    "tensorboard": Format(JOBS + "/{id}/tensorboard", "{job}-tensorboard.zip", of_round=False),
}


async def export(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    chosen = FORMATS[options.format]
    if options.round is not None and not chosen.of_round:
        raise usage(f"--round does not go with --format {options.format}, which is of the whole job.")
    if options.output == STDOUT and printer.as_json:
        raise usage("--json does not go with --output -, for both are standard output.")
    saved = await api.job_named(options.job)
    job = await api.get(f"{JOBS}/{saved['id']}")
    names, expected = await _names(api, job, options, chosen)
    path = chosen.address.format(**names)
    if options.output == STDOUT:
        with tempfile.TemporaryFile() as sink:
            await _fetch(api, printer, path, sink, expected)
            _verify(sink, chosen, expected)
            sink.seek(0)
            shutil.copyfileobj(sink, sys.stdout.buffer, BLOCK)
            sys.stdout.buffer.flush()
        return Exit.DONE
    target = Path(options.output or _file_name(chosen.name.format(**names)))
    if target.is_dir():
        target /= _file_name(chosen.name.format(**names))
    if target.exists() and not options.force:
        raise usage(f"{target} exists; name another by --output, or replace it by --force.", "file_exists")
    size, sha256 = await _into(api, printer, path, target, chosen, expected)
    printer.data(
        {"jobId": job["id"], "format": options.format, "file": str(target), "bytes": size, "sha256": sha256}
        | ({"round": int(names["round"])} if chosen.of_round else {})
        | ({"verified": expected} if expected else {})
    )
    verified = (
        f" Its {'module' if options.format == 'module' else 'weights'} have SHA-256 {expected}, as the server says."
        if expected
        else ""
    )
    printer.say(f"{target}, {amount(size)}.{verified}")
    return Exit.DONE


async def _names(
    api: Api, job: dict[str, Any], options: argparse.Namespace, chosen: Format
) -> tuple[dict[str, str], str | None]:
    """What addresses and file names are filled with, and the SHA-256 that must come out."""
    names = {
        "id": job["id"],
        "job": job["name"],
        "module": job["module"]["sha256"],
        "module_name": job["module"]["fileName"],
    }
    if not chosen.of_round:
        return names, names["module"] if chosen.weights_at else None
    artifact = (await api.checkpoint(job["id"], options.round))["artifact"]
    names |= {"round": str(artifact["round"]), "weights": artifact["sha256"]}
    return names, artifact["sha256"] if chosen.weights_at else None


def _file_name(text: str) -> str:
    """A name that is one on every system, whatever the job is called."""
    return re.sub(r"[^\w.()+ -]+", "_", text).strip(" .") or "export"


async def _into(
    api: Api, printer: Printer, path: str, target: Path, chosen: Format, expected: str | None
) -> tuple[int, str]:
    """The file appears under its name only when it is whole and right."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("w+b") as sink:
            sha256 = await _fetch(api, printer, path, sink, expected)
            _verify(sink, chosen, expected)
            size = sink.seek(0, 2)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return size, sha256


async def _fetch(api: Api, printer: Printer, path: str, sink: IO[bytes], expected: str | None) -> str:
    with printer.progress() as progress:
        task = progress.add_task("Receiving", total=None, note=escape(clean(path.rpartition("/")[2][:20])))

        def received(done: int, size: int | None) -> None:
            progress.update(task, completed=done, total=size)

        download = Download(api.server, path, sink, on_progress=received)
        await api.wait_for(api.server.until_answered(download.go_on))
    return download.sha256()


def _verify(sink: IO[bytes], chosen: Format, expected: str | None) -> None:
    """The weights inside, or the whole of a module, against the hash that the server told."""
    if expected is None or chosen.weights_at is None:
        return
    sink.seek(0)
    try:
        offset, length = chosen.weights_at(sink)  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise Failed(f"What came is not such a file: {error}. Nothing was kept.", code="wrong_format") from None
    found = _sha256(sink, offset, length)
    if found != expected:
        raise Failed(f"What came has SHA-256 {found}; it should be {expected}. Nothing was kept.", code="wrong_hash")


def _sha256(file: IO[bytes], offset: int, length: int | None) -> str:
    digest = hashlib.sha256()
    file.seek(offset)
    while block := file.read(BLOCK if length is None else min(BLOCK, length)):
        digest.update(block)
        length = None if length is None else length - len(block)
    return digest.hexdigest()
