"""The headers of tus 1.0 (core, creation, creation-with-upload), read strictly."""

from __future__ import annotations

import base64
import binascii
import uuid

from checkpoints.bytes.http import Headers, Request, UnsupportedMedia, WrongTusVersion
from checkpoints.models import Upload
from checkpoints.services.uploads import MAX_FILE_BYTES, Declared
from weei_core.errors import Invalid, TooLarge
from weei_core.protocol import SLICE_BYTES
from weei_core.schema_types import Exact, FileName, Sha256, validate
from weei_core.strict_json import as_choice, as_int, as_text

VERSION = "1.0.0"
TUS: Headers = (("Tus-Resumable", VERSION), ("Cache-Control", "no-store"))
OPTIONS: Headers = (
    *TUS,
    ("Tus-Version", VERSION),
    ("Tus-Extension", "creation,creation-with-upload"),
    ("Tus-Max-Size", str(MAX_FILE_BYTES)),
)
BODY_TYPE = "application/offset+octet-stream"
MAX_METADATA_BYTES = 32 * 1024
MAX_REPORT_BYTES = 16 * 1024


class _FileLabels(Exact):
    filename: FileName
    sha256: Sha256


class _UpdateLabels(Exact):
    attempt: str
    sha256: Sha256
    report: str


def check_version(request: Request) -> None:
    found = request.header("tus-resumable")
    if found != VERSION:
        raise WrongTusVersion(
            f"Tus-Resumable must be {VERSION}; found {(found or 'none')[:20]}.", field="Tus-Resumable"
        )


def number(request: Request, name: str) -> int:
    """A header that is a whole number of bytes."""
    text = request.header(name.lower()) or ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise Invalid(f"{name} must be a whole number of bytes; found {text[:20] or 'none'}.", field=name)
    return as_int(int(text), name, 0, 2**53)


def body_length(request: Request, left: int) -> int:
    """The length of the slice that follows; 0 for none. `left` is what the upload still lacks."""
    length = request.content_length()
    if length == 0:
        return 0
    media_type = (request.header("content-type") or "none").partition(";")[0].strip().lower()
    if media_type != BODY_TYPE:
        raise UnsupportedMedia(f"Content-Type must be {BODY_TYPE}; found {media_type[:60]}.", field="Content-Type")
    allowed = min(SLICE_BYTES, left)
    if length > allowed:
        raise TooLarge(f"The body may have at most {allowed} bytes here; it has {length}.", field="Content-Length")
    return length


def declared(request: Request) -> Declared:
    """What POST announces, or `Invalid`."""
    length = number(request, "Upload-Length")
    values = _metadata(request)
    kind = as_choice(values.pop("kind", None), "Upload-Metadata.kind", Upload.Kind.values)
    if kind == Upload.Kind.FILE:
        file = validate(_FileLabels, values, "Upload-Metadata")
        if length == 0:
            raise Invalid("Upload-Length must be at least 1; an empty file is of no use.", field="Upload-Length")
        return Declared(kind, length, file.sha256, file.filename)
    update = validate(_UpdateLabels, values, "Upload-Metadata")
    report = as_text(update.report, "Upload-Metadata.report", MAX_REPORT_BYTES)
    return Declared(kind, length, update.sha256, attempt_id=_attempt(update.attempt), report_text=report)


def _attempt(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise Invalid(
            f"Upload-Metadata.attempt must be an attempt's id; found {text[:60]}.", field="Upload-Metadata.attempt"
        ) from None


def _metadata(request: Request) -> dict[str, str]:
    """tus: pairs of a key and a base64 value, parted by commas."""
    text = request.header("upload-metadata") or ""
    if len(text) > MAX_METADATA_BYTES:
        raise TooLarge(
            f"Upload-Metadata may have at most {MAX_METADATA_BYTES} bytes; it has {len(text)}.", field="Upload-Metadata"
        )
    values: dict[str, str] = {}
    for pair in text.split(","):
        key, _, value = pair.strip().partition(" ")
        if key in values:
            raise Invalid(f"Upload-Metadata holds the key {key[:40]} twice.", field="Upload-Metadata")
        try:
            values[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise Invalid(f"Upload-Metadata.{key[:40]} is not text in base64.", field="Upload-Metadata") from None
    return values
