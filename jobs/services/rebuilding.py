"""Are a job's checkpoints what their ledgers say? Each is made again in the jail and compared, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from jobs.services.modules import open_jail
from jobs.services.texts import info_of
from weei_core.errors import NotFound, WeeiError
from weei_core.jail.parent import Jail
from weei_core.model_info import ModelInfo
from weei_core.rebuild import Comparison, Ledger, parse_ledger, rebuild_initial, rebuild_round


@dataclass(frozen=True)
class Verdict:
    """`made`: "initial" from the seed, "trained" again, "file" (nothing to make), or "" when it did not come to it."""

    round: int
    made: str = ""
    updates: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences


def checkpoints_rebuild(job: Job, *, round_no: int | None = None, every: bool = False) -> Iterator[Verdict]:
    """The verdict on one checkpoint (the latest by default), or on every one in order. Changes nothing."""
    found = Checkpoint.objects.filter(job=job).select_related("job").order_by("round")
    if round_no is not None:
        found = found.filter(round=round_no)
        if not found.exists():
            raise NotFound(f"The job has no checkpoint of round {round_no}.", field="round")
    elif not every:
        found = found.reverse()[:1]
    with _Jails() as jails:
        for checkpoint in found:
            yield _verdict(checkpoint, jails)


def _verdict(checkpoint: Checkpoint, jails: _Jails) -> Verdict:
    made, comparison = "", Comparison()
    try:
        ledger = parse_ledger(checkpoint.ledger_text)
        jail = partial(jails.of, ledger.module, info_of(checkpoint.job))
        comparison.differences += _row_differences(checkpoint, ledger)
        artifact_path(checkpoint.weights_id)  # the stored bytes are whole
        if ledger.initial_seed is not None:
            made, rebuilt = "initial", rebuild_initial(ledger, jail())
        elif ledger.continued_from is not None:
            made, rebuilt = "file", Comparison()
            rebuilt.expect("The weights", ledger.result.weights, ledger.continued_from.get("weights"))
        else:
            made, rebuilt = "trained", rebuild_round(ledger, jail(), artifact_path)
        comparison = Comparison(rebuilt.updates, comparison.differences + rebuilt.differences)
    except WeeiError as error:
        comparison.differences.append(error.message)
    return Verdict(checkpoint.round, made, comparison.updates, comparison.differences)


def _row_differences(checkpoint: Checkpoint, ledger: Ledger) -> list[str]:
    """The ledger speaks of this checkpoint, of its parent, and of code that makes the same numbers."""
    rows = Comparison()
    rows.expect("The job", ledger.job_id, str(checkpoint.job_id))
    rows.expect("The round", ledger.round, checkpoint.round)
    rows.expect("The checkpoint's weights", ledger.result.weights, checkpoint.weights_id)
    if ledger.continued_from is None:
        rows.expect("The checkpoint's state", ledger.result.state, checkpoint.state_id)
    elif checkpoint.state_id is not None:  # kept from the file, unless the method is another
        rows.expect("The checkpoint's state", ledger.continued_from.get("state"), checkpoint.state_id)
    rows.expect("The version of the code", ledger.code_version, settings.CODE_VERSION)
    if ledger.start is not None:
        parent = Checkpoint.objects.filter(job=checkpoint.job_id, round=checkpoint.round - 1).first()
        rows.expect("The weights before", ledger.start.weights, parent and parent.weights_id)
        rows.expect("The state before", ledger.start.state, parent and parent.state_id)
    return rows.differences


class _Jails:
    """One child for all checkpoints of a module, as long as it lives."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._held: dict[str, Jail] = {}

    def __enter__(self) -> _Jails:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def of(self, module_sha256: str, info: ModelInfo) -> Jail:
        jail = self._held.get(module_sha256)
        if jail is None or not jail.alive:
            jail = self._held[module_sha256] = self._stack.enter_context(
                open_jail(module_sha256, info.auxiliary_weights)
            )
        return jail
