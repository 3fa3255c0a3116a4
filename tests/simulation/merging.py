"""Closing rounds become checkpoints: in two steps with time between them, so that runs overlap and die."""

from __future__ import annotations

import io
from dataclasses import dataclass

from jobs.domain.progress import Progress
from jobs.domain.rounds import After
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
    closing_at: float
    updates: list[Attempt]


def begin(server: Server, number: int) -> Running | None:
    """Take a try. None: nothing to do, or too many tries, which pauses the job."""
    at = server.store.rounds[number]
    if at.state != "closing" or at.tries >= MERGE_TRIES:
        if at.state == "closing":
            server.pause_with_error(f"round {number} could not be merged in {at.tries} tries")
        return None
    server.store.set(at, tries=at.tries + 1, merging_at=server.now)
    return Running(at, at.closing_at, received(at))


def _still_closing(run: Running) -> bool:
    """Over the updates that this run has read: a round that opened again meanwhile closes at another time."""
    return run.round.state == "closing" and run.round.closing_at == run.closing_at


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
        if not _still_closing(run):
            return
        store.set(run.round, state="done")
        made = _checkpoint(server, run, result)
        store.put(store.checkpoints, made.round, made)
        server.world.log("checkpoint", made.round, made.weights)
        _advance(server, made)


def merged(server: Server, at: Round, updates: list[Attempt]) -> tuple[MergeResult, bytes, bytes]:
    """Updates without a finished unit are not even read."""
    store = server.store
    before = store.checkpoints[at.number - 1]
    chosen = at.settings.aggregation
    keeps = before.state if before.method == chosen.method else None
    sources = [(attempt, _stored(server, attempt)) for attempt in updates if attempt.weight > 0]
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
    return result, weights_out.getvalue(), state_out.getvalue()


def _stored(server: Server, attempt: Attempt) -> bytes:
    """Verified before it is read: a damaged update must not look like a step that is not finite."""
    data = server.store.files.get(attempt.sha)
    if data is None or toy.sha(data) != attempt.sha:
        raise LostUpdate(attempt.slot)
    return data


def _return_to_open(server: Server, run: Running, slot: Slot) -> None:
    store, at = server.store, run.round
    with store.transaction():
        if not _still_closing(run):
            return
        store.set(at, state="open", received=at.received - 1, tries=0)
        store.set(slot.attempts[-1], state="expired", reason="the stored update is missing or damaged")
        server.slot_stop(slot, "stored update lost", is_error=False)
        server.settle(at)
        server.world.log("reopened", at.number, slot.item.place)


def _fail(server: Server, run: Running) -> None:
    with server.store.transaction():
        if not _still_closing(run):
            return
        server.store.set(run.round, state="failed", error="the step is not finite")
        if server.store.job.finishing:
            server.complete(incomplete=True)
        else:
            server.pause_with_error(f"round {run.round.number} was not merged")


def progress_of(server: Server) -> Progress:
    job = server.store.job
    return Progress(job.pass_no, job.cursor, tuple(row.item for row in server.store.requeued))


def _checkpoint(server: Server, run: Running, result: MergeResult) -> Checkpoint:
    job, at = server.store.job, run.round
    reports = [(attempt.weight, attempt.metrics) for attempt in run.updates if attempt.weight > 0]
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
        left=server.left(),
        shuffles=job.shuffles,
        skipped=job.skipped,
        next_unit=_next_unit(server),
    )


def _next_unit(server: Server) -> int | None:
    """Units that were dealt count as used. Where records are units, it is the first one of the pass that goes on."""
    if not server.info.is_experience:
        return None
    ends_pass = server.info.reads_data and server.left() == 0
    return server.unit_after_pass() if ends_pass else server.store.job.next_unit


def _advance(server: Server, made: Checkpoint) -> None:
    job = server.store.job
    what = server.after_round(made.round, made.left)
    server.validation(made, ends_pass=made.left == 0)
    if what == After.COMPLETED:
        planned = made.left == 0 and job.pass_no + 1 >= job.settings.epochs
        if server.info.is_experience:
            planned = made.round >= job.settings.epochs
        server.complete(incomplete=job.incomplete or not planned)
        return
    if what == After.NEXT_PASS:
        server.pass_next()
    server.round_open(made.round + 1)
