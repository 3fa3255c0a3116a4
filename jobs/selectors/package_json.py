"""Model packages as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from django.conf import settings
from django.db.models import Count, QuerySet, Sum

from jobs.models import Package


def packages_of(user: Any) -> QuerySet[Package]:
    """With what `package_row_json` reads, and no more."""
    return Package.objects.filter(owner_id=user.pk).defer("found_text", "preview_text")


def package_row_json(package: Package) -> dict[str, Any]:
    return {
        "packageId": str(package.pk),
        "sourceName": package.source_name,
        "format": package.source_format,
        "task": package.task,
        "state": package.state,
        "step": package.step,
        "done": package.done,
        "total": package.total,
        "error": package.error or None,
        "code": package.error_code or None,
        "field": package.error_field or None,
        "hasFiles": bool(package.made_text),
        "createdAt": round(package.created.timestamp() * 1000),
        "keptUntil": round((package.touched + settings.PACKAGE_DAYS).timestamp() * 1000),
    }


def package_json(package: Package) -> dict[str, Any]:
    request = _read(package.request_text)
    preview = _read(package.preview_text)
    return {
        **package_row_json(package),
        "found": _camel(_read(package.found_text)),
        "request": request,
        "preview": preview and {**_camel(preview["preview"]), "stale": preview["request"] != request},
        "made": _made(package, request),
    }


def package_files_json(package: Package) -> list[dict[str, Any]]:
    """In the order of its archive."""
    return [
        {"kind": file.kind, "fileName": file.file_name, "bytes": file.artifact.bytes, "sha256": file.artifact_id}
        for file in package.files.select_related("artifact")
    ]


def _made(package: Package, request: Any) -> dict[str, Any] | None:
    made = _read(package.made_text)
    if made is None:
        return None
    totals = package.files.aggregate(files=Count("id"), bytes=Sum("artifact__bytes"))
    return {
        **{name: made[name] for name in ("settings", "warnings", "records")},
        "files": totals["files"],
        "bytes": totals["bytes"] or 0,
        "stale": made["request"] != request,
    }


def _read(text: str) -> Any:
    return json.loads(text) if text else None


def _camel(value: Any) -> Any:
    """Fields of dataclasses as they are spelled on the wire."""
    if isinstance(value, dict):
        return {re.sub(r"_(\w)", lambda found: found[1].upper(), key): _camel(item) for key, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value
