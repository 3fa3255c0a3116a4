"""One explained error code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """`code` is the anchor on the help page and the `code` of the problem details."""

    code: str
    title: str
    meaning: str
    action: str


@dataclass(frozen=True)
class Group:
    title: str
    entries: tuple[Entry, ...]
