"""The tables of the simulated server, in memory, with transactions and a kill point before every statement.

Rows mirror the columns that decide something. A transaction keeps an undo log, so that a process killed inside of it
leaves nothing, and one killed between two of them leaves exactly what was committed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from jobs.domain.queue import Item
from weei_core.training_settings import TrainingSettings


class Killed(Exception):
    """The process that ran this statement is gone."""


@dataclass(eq=False)
class Job:
    settings: TrainingSettings
    order: list[int]
    status: str = "ready"
    finishing: bool = False
    error: str = ""
    first_round: int = 0
    round_no: int = 0
    pass_no: int = 0
    cursor: int = 0
    next_unit: int = 0
    next_order: list[int] | None = None
    shuffles: int = 0
    skipped: int = 0
    incomplete: bool = False
    failed_deals: int = 0


@dataclass(eq=False)
class Round:
    number: int
    pass_no: int
    settings: TrainingSettings
    start: str
    state: str = "open"
    live: int = 0
    received: int = 0
    deal: int = 0
    tries: int = 0
    merging_at: float = 0.0
    closing_at: float = 0.0
    error: str = ""
    slots: list[Slot] = field(default_factory=list)
    members_at_deals: list[tuple[int, int]] = field(default_factory=list)


@dataclass(eq=False)
class Slot:
    round: Round
    deal: int
    item: Item
    peer: int
    seed: int
    started_at: float
    unit_start: int | None = None
    split: int = 1
    status: str = "loading"
    finished_at: float | None = None
    attempts: list[Attempt] = field(default_factory=list)


@dataclass(eq=False)
class Attempt:
    id: int
    slot: Slot
    peer: int
    deadline: float
    state: str = "live"
    sha: str = ""
    weight: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(eq=False)
class Requeued:
    item: Item
    held: bool = False
    skipped: bool = False


@dataclass(eq=False)
class Checkpoint:
    round: int
    weights: str
    state: str | None
    method: str
    step: int
    progress_text: str
    order: list[int]
    next_order: list[int] | None
    settings: TrainingSettings
    ledger: list[tuple[int, str]]
    metrics: dict[str, float]
    examples: int
    pass_no: int
    left: int
    shuffles: int
    skipped: int
    next_unit: int | None = None
    validation: bool = False


@dataclass(eq=False)
class Member:
    id: int
    accepted_at: float
    current: bool = True
    loaded: bool = False
    paused: bool = False
    lease_until: float = -1.0
    workers: int = 1
    seen: bool = False
    session: int = 0


class Store:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.rounds: dict[int, Round] = {}
        self.attempts: dict[int, Attempt] = {}
        self.requeued: list[Requeued] = []
        self.skips: list[tuple[int, Item]] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self.members: dict[int, Member] = {}
        self.files: dict[str, bytes] = {}
        self.swept_at: float | None = None
        self.version = 0
        self.kill_in: int | None = None
        self._depth = 0
        self._undo: list = []
        self._hooks: list = []

    def statement(self) -> None:
        """The process may die before any statement."""
        if self.kill_in is not None:
            if self.kill_in <= 0:
                self.kill_in = None
                raise Killed
            self.kill_in -= 1

    def set(self, row, **values) -> None:
        self.statement()
        fields = row.__dict__
        if self._depth:
            self._undo.append((row, {name: fields[name] for name in values}))
        fields.update(values)
        self.version += 1

    def put(self, table: dict, key, row) -> None:
        """Insert under a unique key."""
        self.statement()
        assert key not in table, f"two rows {key!r}: {row}"
        table[key] = row
        if self._depth:
            self._undo.append((table, key))
        self.version += 1

    def append(self, rows: list, row) -> None:
        self.statement()
        self._save(rows)
        rows.append(row)

    def remove(self, rows: list, row) -> None:
        self.statement()
        self._save(rows)
        rows.remove(row)

    def _save(self, rows: list) -> None:
        if self._depth:
            self._undo.append((rows, rows[:]))
        self.version += 1

    def on_commit(self, hook) -> None:
        """Run after the outermost commit; lost when the process dies between the commit and this."""
        self._hooks.append(hook)
        if not self._depth:
            self._run_hooks()

    def _run_hooks(self) -> None:
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            self.statement()
            hook()

    @contextlib.contextmanager
    def transaction(self):
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self.statement()  # COMMIT itself
        except BaseException:
            self._depth -= 1
            if self._depth == 0:
                self._rollback()
            raise
        self._depth -= 1
        if self._depth == 0:
            self._undo.clear()
            self._run_hooks()

    def _rollback(self) -> None:
        for target, saved in reversed(self._undo):
            if isinstance(target, list):
                target[:] = saved
            elif isinstance(target, dict):
                del target[saved]
            else:
                target.__dict__.update(saved)
        self._undo.clear()
        self._hooks.clear()
        self.version += 1
