"""One run of background work that a row stands for. Its writes count only while the row still names this run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from weei_core.errors import WeeiError

MAX_ERROR_CHARACTERS = 100_000
"""Room for the names of all files of a large dataset that are wrong."""
STEP_SECONDS = 0.3


class LeaseLost(Exception):
    """Another worker took the work over, or its row is gone: this run must change nothing any more."""


def lease_end(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.MERGE_LEASE_SECONDS)


@dataclass
class FencedRun(ABC):
    """Progress, lease and failure of a run. `row` is the row as long as it belongs to this run, else nothing."""

    written: datetime | None = field(default=None, init=False)

    @property
    @abstractmethod
    def row(self) -> QuerySet[Any]: ...

    def renew(self) -> None:
        self.row.update(lease_until=lease_end(timezone.now()))

    def step(self, step: str, done: int = 0, total: int = 0) -> None:
        """Say where the work is; counts in between a few times a second at most."""
        now = timezone.now()
        between = done not in (0, total)
        if between and self.written and (now - self.written).total_seconds() < STEP_SECONDS:
            return
        self.written = now
        self.write(step=step, done=done, total=total, lease_until=lease_end(now))

    def write(self, **fields: Any) -> None:
        """Raises `LeaseLost` when the row is another run's."""
        if self.row.update(**fields) != 1:
            raise LeaseLost

    def end(self, state: str, reason: str, error: WeeiError) -> None:
        """Keep why it failed, if the row is still this run's."""
        self.row.update(
            state=state,
            error=reason,
            error_field=storable(error.field or "")[:255],
            error_code=error.code[:40],
            lease_until=None,
        )


def reason_of(error: WeeiError) -> str:
    """The sentence, and below it every wrong file that the sentence has no room for."""
    files = error.extra.get("files")
    unsaid = [str(file) for file in files if str(file) not in error.message] if isinstance(files, list) else []
    text = storable("\n".join([error.message, *unsaid]))
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    return text[:MAX_ERROR_CHARACTERS].rsplit("\n", 1)[0] + "\n…"


def storable(text: str) -> str:
    """What a module or a file brought into an error may be text that PostgreSQL does not take."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
