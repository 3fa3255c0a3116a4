"""What the log lines of a piece of work are about: its job, round, peer, attempt, request. A leaf: it imports nothing.

`about` opens a context at an edge (a request, a socket, a task); whoever learns more deeper down says it with `note`.
The fields are one shared dictionary, so what a thread or a child task of the work notes is known to all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_fields: ContextVar[dict[str, str] | None] = ContextVar("weei_log_fields", default=None)


@contextmanager
def about(**fields: object) -> Iterator[dict[str, str]]:
    """Until the end of the block the lines are about this too. Empty values are left out."""
    found = {**(_fields.get() or {}), **_texts(fields)}
    token = _fields.set(found)
    try:
        yield found
    finally:
        _fields.reset(token)


def note(**fields: object) -> None:
    """Outside of any context it says nothing."""
    found = _fields.get()
    if found is not None:
        found.update(_texts(fields))


def current() -> Mapping[str, str]:
    return _fields.get() or {}


def _texts(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items() if value not in (None, "")}
