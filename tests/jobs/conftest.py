"""Shared fixtures of the engine's tests."""

import pytest


@pytest.fixture
def no_messages(monkeypatch):
    """Messages are hints: a race must come out right without them."""
    monkeypatch.setattr("jobs.services.events._send", lambda task, args: None)
    monkeypatch.setattr("peers.outbox._loop.send", lambda group, message: None)
