"""A real participant's update, trained once more in the jail from what the ledger says."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from jobs.services.modules import open_jail
from jobs.services.texts import info_of
from weei_core.jail.parent import Jail
from weei_core.rebuild import parse_ledger, slot_assignment
from weei_core.training_settings import parse_settings


class Trainer:
    """Holds one child for each module."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "again"
        self._stack = contextlib.ExitStack()
        self._jails: dict[str, Jail] = {}

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def again(self, made: Checkpoint, slot: dict[str, Any]) -> bytes:
        ledger = parse_ledger(made.ledger_text)
        assert ledger.start is not None and ledger.settings is not None
        info = info_of(Job.objects.get(pk=made.job_id))
        mine = next(one for one in ledger.slots if one.item == slot["item"])
        settings = parse_settings(ledger.settings, for_experience=info.is_experience)
        start = artifact_path(ledger.start.weights)
        slot_assignment(ledger, mine, settings, info, start, artifact_path).play(self._jail(ledger.module), self._out)
        return self._out.read_bytes()

    def _jail(self, module: str) -> Jail:
        if module not in self._jails:
            self._jails[module] = self._stack.enter_context(open_jail(module))
        return self._jails[module]
