"""The shipped models that a new job can be filled from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings


@dataclass(frozen=True)
class Preset:
    """`url` is where the page's script reads the preset; its files lie beside it."""

    id: str
    name: str
    description: str
    url: str
    data: str
    """Where its training data comes from, in a few words."""


def presets() -> list[Preset]:
    """By name."""
    found = [_preset(path) for path in Path(settings.REFERENCE_MODELS_DIR).glob("*/preset.json")]
    return sorted(found, key=lambda preset: preset.name)


def _preset(path: Path) -> Preset:
    value = _json(path)
    url = f"/presets/{path.parent.name}/preset.json"
    manifest = _json(path.parent / value["manifest"])
    return Preset(value["id"], value["name"], value["description"], url, _data(manifest))


def _data(manifest: Any) -> str:
    """`manifest` is a package or a plain list of chunks."""
    source = manifest.get("workSource") if isinstance(manifest, dict) else None
    if source and source["inputs"] == "none":
        return f"Makes its own data: {source['unit']['label'].lower()}"
    chunks = manifest["inlineJson"]["dataset-manifest.json"] if isinstance(manifest, dict) else manifest
    examples = sum(chunk["exampleCount"] for chunk in chunks)
    return f"{examples:,} examples in {len(chunks)} files"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
