"""The `.weei-checkpoint` file: `u32le metadataBytes ‖ metadata JSON ‖ weights ‖ state`.

Version 1 ends with the weights; version 2 adds the state of FedAvgM or FedAdam. A file from outside is hostile until
`read_header` (lengths, then metadata) and `verify` (values, hashes) have passed: nothing is allocated by a length that
the file claims, and no byte is hashed before all lengths add up.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from weei_core.checkpoint_metadata import (
    MAX_FILE_BYTES,
    AggregationState,
    Artifact,
    Check,
    build_metadata,
    check_contents,
    described_parts,
)
from weei_core.errors import Invalid, TooLarge
from weei_core.strict_json import JsonValue, as_object, loads
from weei_core.weights import FileSource, sha256_of_finite

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_METADATA_BYTES",
    "AggregationState",
    "Artifact",
    "CheckpointFile",
    "build_metadata",
    "read_header",
    "verify",
    "write_header",
]

MAX_METADATA_BYTES = 1_048_576
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class CheckpointFile:
    """A checkpoint file whose lengths and metadata are right. `state_bytes` is 0 in version 1."""

    metadata: dict[str, JsonValue]
    metadata_text: bytes
    round: int
    weights_offset: int
    weights_bytes: int
    weights_sha256: str
    state_offset: int
    state_bytes: int
    state_sha256: str | None


def read_header(file: BinaryIO, size: int, *, check_model_info: Check, check_settings: Check) -> CheckpointFile:
    """Check everything but the float values and hashes of a file of `size` bytes. `file` is read from its start."""
    text = _metadata_text(file, size)
    metadata = as_object(loads(text, what="checkpoint metadata"), "checkpoint metadata")
    parts = described_parts(metadata)
    weights_offset = _LENGTH.size + len(text)
    state_offset = weights_offset + parts.weights_bytes
    expected = state_offset + parts.state_bytes
    if expected != size:
        raise Invalid(
            f"The checkpoint file must be {expected} bytes ({weights_offset} with the metadata, "
            f"{parts.weights_bytes} of weights, {parts.state_bytes} of state); found {size}.",
            field="checkpoint",
            code="wrong_size",
        )
    check_contents(metadata, check_model_info=check_model_info, check_settings=check_settings)
    return CheckpointFile(
        metadata=metadata,
        metadata_text=text,
        round=parts.round,
        weights_offset=weights_offset,
        weights_bytes=parts.weights_bytes,
        weights_sha256=parts.weights_sha256,
        state_offset=state_offset,
        state_bytes=parts.state_bytes,
        state_sha256=parts.state_sha256,
    )


def verify(file: BinaryIO | int, header: CheckpointFile) -> None:
    """Check every value and both hashes, in blocks. `file` is the one that `header` was read from."""
    weights = FileSource(file, header.weights_offset, header.weights_bytes)
    _check_hash(weights, "checkpoint.sha256", "The weights", header.weights_sha256)
    if header.state_sha256 is not None:
        state = FileSource(file, header.state_offset, header.state_bytes)
        _check_hash(state, "aggregationState.sha256", "The aggregation state", header.state_sha256)


def write_header(metadata_text: bytes) -> bytes:
    """What stands before the weights."""
    if not 0 < len(metadata_text) <= MAX_METADATA_BYTES:
        raise TooLarge(
            f"checkpoint metadata must be 1 to {MAX_METADATA_BYTES} bytes; found {len(metadata_text)}.",
            field="metadata",
            code="metadata_too_large",
        )
    return _LENGTH.pack(len(metadata_text)) + metadata_text


def _metadata_text(file: BinaryIO, size: int) -> bytes:
    if size > MAX_FILE_BYTES:
        raise TooLarge(f"A checkpoint file must be at most {MAX_FILE_BYTES} bytes; found {size}.", field="checkpoint")
    source = FileSource(file, 0, size)
    prefix = bytearray(_LENGTH.size)
    if size < len(prefix):
        raise _wrong_length(f"a file of {size} bytes, which is too short to hold it")
    source.readinto(0, memoryview(prefix))
    (length,) = _LENGTH.unpack(prefix)
    if not 0 < length <= MAX_METADATA_BYTES:
        raise _wrong_length(str(length))
    if length > size - len(prefix):
        raise _wrong_length(f"{length} in a file with {size - len(prefix)} bytes behind it")
    text = bytearray(length)
    source.readinto(len(prefix), memoryview(text))
    return bytes(text)


def _wrong_length(found: str) -> Invalid:
    return Invalid(
        f"The metadata length must be 1 to {MAX_METADATA_BYTES} and within the checkpoint file; found {found}.",
        field="metadata length",
        code="metadata_length",
    )


def _check_hash(source: FileSource, field: str, name: str, expected: str) -> None:
    found = sha256_of_finite(source, name)
    if found != expected:
        raise Invalid(
            f"{name} must have the SHA-256 {expected} of {field}; found {found}.", field=field, code="wrong_hash"
        )
