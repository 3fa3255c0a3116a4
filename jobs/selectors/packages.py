"""What the pages of the package generator show."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from jobs.models import Package, PackageFile
from weei_core.generator.inspection.found import Found

State, Task, Kind = Package.State, Package.Task, PackageFile.Kind
SHOWN_CLASSES = 12
TITLES = {
    Task.INSPECT: "Looking at the file",
    Task.PREVIEW: "Preparing the preview",
    Task.MAKE: "Making the package",
}
FORMATS = {
    "text": "text",
    "jsonl": "JSON lines",
    "csv": "table (CSV)",
    "npz": "NumPy arrays (NPZ)",
    "images": "pictures in class folders",
}


@dataclass(frozen=True)
class PackageRow:
    """A package in the list. `word` and `tone` are its badge."""

    package: Package
    word: str
    tone: str
    made: bool


def package_rows(user: User) -> list[PackageRow]:
    """The person's packages, newest first."""
    found = Package.objects.filter(owner=user).select_related("source").defer("found_text", "preview_text")
    return [_row(package) for package in found.order_by("-created")[:200]]


def _row(package: Package) -> PackageRow:
    made = bool(package.made_text)
    if at_work(package):
        return PackageRow(package, TITLES[Task(package.task)], "accent", made)
    if package.state == State.FAILED:
        return PackageRow(package, "Needs a look", "bad", made)
    return PackageRow(package, "Ready" if made else "Not made yet", "good" if made else "", made)


def at_work(package: Package) -> bool:
    return package.state in (State.QUEUED, State.WORKING)


@dataclass(frozen=True)
class FoundView:
    """What was found in the file, in words and short lists. `more`: classes that are not listed."""

    found: Found
    kind: str
    classes: Sequence[tuple[str, int]]
    more: int
    records: str
    """What a record is called."""


def found_of(package: Package) -> Found | None:
    return Found.from_json(json.loads(package.found_text)) if package.found_text else None


def found_view(found: Found) -> FoundView:
    records = {"text": "lines", "jsonl": "lines", "csv": "rows", "npz": "records", "images": "pictures"}
    shown = found.classes[:SHOWN_CLASSES]
    return FoundView(found, FORMATS[found.format], shown, len(found.classes) - len(shown), records[found.format])


@dataclass(frozen=True)
class ShownToken:
    """`text` with its spaces visible, `said` for who hears it."""

    text: str
    said: str
    trained: bool


@dataclass(frozen=True)
class ShownRecord:
    line: int | None
    tokens: Sequence[ShownToken]
    more: int


SHOWN_TOKENS = 160
_VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})
_SPOKEN = {" ": " space ", "\n": " new line ", "\t": " tab ", "\r": " carriage return "}


def shown_token(text: str, *, trained: bool) -> ShownToken:
    said = "".join(_SPOKEN.get(letter, letter) for letter in text).strip()
    return ShownToken(text.translate(_VISIBLE), said, trained)


def _shown_record(record: dict[str, Any]) -> ShownRecord:
    trained_from = record["trained_from"] or 0
    tokens = record["tokens"]
    shown = [shown_token(text, trained=at >= trained_from) for at, text in enumerate(tokens[:SHOWN_TOKENS])]
    return ShownRecord(record["line"], shown, max(0, len(tokens) - SHOWN_TOKENS))


def preview_view(package: Package) -> dict[str, Any] | None:
    """The last preview, and whether the request has changed since. Warnings are their sentences."""
    if not package.preview_text:
        return None
    kept = json.loads(package.preview_text)
    preview = kept["preview"]
    return {
        **preview,
        "records": [_shown_record(record) for record in preview["records"]],
        "partly": any(record["trained_from"] for record in preview["records"]),
        "warnings": [text for _, text in preview["warnings"]],
        "stale": kept["request"] != json.loads(package.request_text),
    }


def made_view(package: Package, now: datetime) -> dict[str, Any] | None:
    """The files, by kind; None before there are any."""
    if not package.made_text:
        return None
    made: dict[str, Any] = json.loads(package.made_text)
    files = list(package.files.select_related("artifact"))
    counts = Counter(file.kind for file in files)
    return {
        **made,
        "bytes": sum(file.artifact.bytes for file in files),
        "module": next(file for file in files if file.kind == Kind.MODULE),
        "chunks": counts[Kind.CHUNK],
        "validation": next((file for file in files if file.kind == Kind.VALIDATION), None),
        "kept_until": package.touched + settings.PACKAGE_DAYS,
        "stale": made["request"] != json.loads(package.request_text),
    }


def progress_view(package: Package) -> dict[str, Any]:
    """`marker` is taken before the package was read."""
    return {
        "package": package,
        "title": TITLES[Task(package.task)],
        "counted": package.total > 0,
        "marker": time.time_ns() // 1000,
    }
