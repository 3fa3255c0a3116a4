"""The shipped models that a new job can be filled from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings


@dataclass(frozen=True)
class Preset:
    """`url` is where the page's script reads the preset; its files lie beside it."""

    id: str
    name: str
    description: str
    url: str


def presets() -> list[Preset]:
    """By name."""
    found = [_preset(path) for path in Path(settings.REFERENCE_MODELS_DIR).glob("*/preset.json")]
    return sorted(found, key=lambda preset: preset.name)


def _preset(path: Path) -> Preset:
    value = json.loads(path.read_text(encoding="utf-8"))
    return Preset(value["id"], value["name"], value["description"], f"/presets/{path.parent.name}/preset.json")
