"""Closing rounds become checkpoints: in two steps with time between them, so that runs overlap and die."""

from __future__ import annotations

import io
from dataclasses import dataclass

from jobs.domain.progress import Progress
from jobs.domain.rounds import After, Position, after_checkpoint, validation_due
from tests.simulation import toy
from tests.simulation.server import Server
from tests.simulation.store import Attempt, Checkpoint, Round, Slot
from weei_core.aggregation import MergeResult, NonFiniteStep, WeightedSource, average_metrics, merge, method_named
from weei_core.weights import BytesSource

MERGE_TRIES = 5
MERGE_LEASE = 15.0


class LostUpdate(Exception):
    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self.slot = slot


@dataclass(frozen=True)
class Running:
    """A run of the merge task: the round and what it found received when it began."""

    round: Round
    deal: int
    updates: list[Attempt]


def begin(server: Server, number: int) -> Running | None:
    """Take a try. None: nothing to do, or too many tries, which pauses the job."""
    at = server.store.rounds[number]
    if at.state != "closing" or at.tries >= MERGE_TRIES:
        if at.state == "closing":
            server.pause_with_error(f"round {number} could not be merged in {at.tries} tries")
        return None
    server.store.set(at, tries=at.tries + 1, merging_at=server.now)
    return Running(at, at.deal, received(at))


def received(at: Round) -> list[Attempt]:
    found = [slot.attempts[-1] for slot in at.slots if slot.attempts[-1].state == "received"]
    return sorted(found, key=lambda attempt: attempt.slot.item.place)


def finish(server: Server, run: Running) -> None:
    """Compute, write the files, and commit if nobody else did."""
    try:
        result, weights, state = merged(server, run.round, run.updates)
    except LostUpdate as lost:
        _return_to_open(server, run, lost.slot)
        return
    except NonFiniteStep:
        _fail(server, run)
        return
    store = server.store
    store.statement()
    store.files[result.weights_sha256] = weights
    store.statement()
    if result.state_sha256:
        store.files[result.state_sha256] = state
    with store.transaction():
        if run.round.state != "closing" or run.round.deal != run.deal:
            return
        store.set(run.round, state="done")
        made = _checkpoint(server, run, result)
        store.put(store.checkpoints, made.round, made)
        server.world.log("checkpoint", made.round, made.weights)
        _advance(server, made)


def merged(server: Server, at: Round, updates: list[Attempt]) -> tuple[MergeResult, bytes, bytes]:
    store = server.store
    before = store.checkpoints[at.number - 1]
    chosen = at.settings.aggregation
    keeps = before.state if before.method == chosen.method else None
    sources = [(attempt, _stored(server, attempt)) for attempt in updates]
    weights_out, state_out = io.BytesIO(), io.BytesIO()
    result = merge(
        start=BytesSource(store.files[at.start]),
        updates=[WeightedSource(BytesSource(data), a.weight, a.slot.item.place) for a, data in sources],
        state=BytesSource(store.files[keeps]) if keeps else None,
        step=before.step + 1 if keeps else 1,
        method=chosen,
        weights_out=weights_out,
        state_out=state_out if method_named(chosen.method).state_vectors else None,
    )
    for attempt, data in sources:
        if toy.sha(data) != attempt.sha:
            raise LostUpdate(attempt.slot)
    return result, weights_out.getvalue(), state_out.getvalue()


def _stored(server: Server, attempt: Attempt) -> bytes:
    data = server.store.files.get(attempt.sha)
    if data is None:
        raise LostUpdate(attempt.slot)
    return data


def _return_to_open(server: Server, run: Running, slot: Slot) -> None:
    store, at = server.store, run.round
    with store.transaction():
        if at.state != "closing" or at.deal != run.deal or slot.attempts[-1].state != "received":
            return
        # Another run may still hold the update that is gone now: the new deal fences it.
        store.set(at, state="open", received=at.received - 1, deal=at.deal + 1)
        store.set(slot.attempts[-1], state="expired", reason="the stored update is missing or damaged")
        server.slot_stop(slot, "stored update lost", is_error=False)
        server.settle(at)
        server.world.log("reopened", at.number, slot.item.place)


def _fail(server: Server, run: Running) -> None:
    with server.store.transaction():
        if run.round.state == "closing" and run.round.deal == run.deal:
            server.store.set(run.round, state="failed", error="the step is not finite")
            server.pause_with_error(f"round {run.round.number} was not merged")


def progress_of(server: Server) -> Progress:
    job = server.store.job
    return Progress(job.pass_no, job.cursor, tuple(row.item for row in server.store.requeued))


def _checkpoint(server: Server, run: Running, result: MergeResult) -> Checkpoint:
    job, at = server.store.job, run.round
    reports = [(attempt.weight, attempt.metrics) for attempt in run.updates]
    return Checkpoint(
        round=at.number,
        weights=result.weights_sha256,
        state=result.state_sha256,
        method=at.settings.aggregation.method if result.state_sha256 else "",
        step=result.step,
        progress_text=progress_of(server).to_text(),
        order=job.order,
        next_order=job.next_order,
        settings=at.settings,
        ledger=[(attempt.id, attempt.sha) for attempt in run.updates],
        metrics=average_metrics(["loss"], reports),
        examples=sum(weight for weight, _ in reports),
        pass_no=job.pass_no,
        left=len(job.order) - job.cursor + len(server.store.requeued),
        shuffles=job.shuffles,
        skipped=job.skipped,
    )


def _advance(server: Server, made: Checkpoint) -> None:
    store, job = server.store, server.store.job
    what = after_checkpoint(Position(job.pass_no, made.left, job.settings.epochs), finishing=job.finishing)
    schedule = job.settings.validation_schedule
    if schedule is not None:
        due = validation_due(
            enabled=schedule.enabled,
            unit=schedule.unit,
            every=schedule.every,
            round_no=made.round,
            first=False,
            last=what == After.COMPLETED,
            ends_pass=made.left == 0,
            passes=job.pass_no + 1,
        )
        store.set(made, validation=due)
    if what == After.COMPLETED:
        remains = made.left > 0 or job.pass_no + 1 < job.settings.epochs
        server.complete(incomplete=job.incomplete or remains)
        return
    if what == After.NEXT_PASS:
        server.pass_next()
    server.round_open(made.round + 1)
