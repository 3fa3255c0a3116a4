"""The services around the server, for tests that are not about them: all in memory, and no broker."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from django.core.cache import cache

from peers import outbox


@dataclass
class Sent:
    """What went out after commits."""

    hints: list[tuple[str, dict]] = field(default_factory=list)
    tasks: list[tuple[str, tuple]] = field(default_factory=list)


@pytest.fixture(autouse=True)
def sent(settings, monkeypatch, tmp_path):
    settings.STORAGE_URL = f"file://{tmp_path / 'artifacts'}"
    settings.MIN_FREE_FRACTION = 0.0
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    cache.clear()
    sent = Sent()
    monkeypatch.setattr(outbox._loop, "send", lambda group, message: sent.hints.append((group, message)))
    monkeypatch.setattr("jobs.services.events._send", lambda task, args: sent.tasks.append((task, args)))
    return sent
