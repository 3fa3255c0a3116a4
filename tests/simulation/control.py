"""What the coordinator does, and the sweeper, which mends what killed processes left behind."""

from __future__ import annotations

from dataclasses import replace

from jobs.domain.queue import reshuffled
from jobs.domain.rounds import straggler_limit
from jobs.domain.states import COMPLETED, PAUSED, READY, RUNNING, check_transition
from tests.simulation.merging import MERGE_LEASE, MERGE_TRIES
from tests.simulation.server import LEASE, Refused, Server
from tests.simulation.store import Attempt, Requeued, Round
from weei_core import seeds
from weei_core.training_settings import changed

SWEEP_GAP = 10.0
STRAGGLER_FLOOR = 30.0
PEER_SAMPLES = 9


def start(server: Server) -> None:
    if not any(member.current for member in server.store.members.values()):
        raise Refused("nobody_trains")
    with server.store.transaction():
        _move(server, RUNNING)
        server.round_open(server.store.job.round_no + 1)


def _move(server: Server, new: str) -> None:
    job = server.store.job
    check_transition(job.status, new)
    server.store.set(job, status=new, error="", failed_deals=0)
    server.world.log("job", new)


def pause(server: Server) -> None:
    with server.store.transaction():
        _move(server, PAUSED)


def resume(server: Server) -> None:
    store = server.store
    with store.transaction():
        _move(server, RUNNING)
        for row in store.requeued:
            if row.held:
                _unhold(server, row)
    at = store.rounds.get(store.job.round_no)
    if at is not None and at.state == "closing":
        _merge_again(server, at)
    go_on(server)


def _merge_again(server: Server, at: Round, **fields) -> None:
    """A round whose merge failed or was tried too often gets all its tries back."""
    store = server.store
    with store.transaction():
        store.set(at, state="closing", tries=0, merging_at=server.now, **fields)
        store.on_commit(lambda: server.world.enqueue_merge(at.number))


def _merge_failed_again(server: Server, at: Round) -> None:
    """With the method of this moment. What its slots are trained with stays as it was."""
    chosen = replace(at.settings, aggregation=server.store.job.settings.aggregation)
    _merge_again(server, at, settings=chosen, closing_at=server.now)


def _unhold(server: Server, row: Requeued) -> None:
    item = row.item
    fresh = type(item)(item.position, item.chunk_index, item.record_start, item.record_count, item.whole)
    server.store.set(row, held=False, item=fresh)


def go_on(server: Server) -> None:
    """Do what the tables say is next. Safe at any time, by anybody, twice."""
    store, job = server.store, server.store.job
    if job.status != RUNNING:
        return
    if job.finishing:
        _finish(server)
        return
    at = store.rounds.get(job.round_no)
    if at is not None and at.state == "failed":
        _merge_failed_again(server, at)
        return
    with store.transaction():
        if at is None or at.state == "done":
            server.round_open(job.round_no + 1)
        elif at.state == "open":
            server.deal_round(at)


def finish(server: Server) -> None:
    store, job = server.store, server.store.job
    if job.status == COMPLETED:
        return
    if job.status == READY:
        raise Refused("wrong_status")
    with store.transaction():
        store.set(job, finishing=True, status=RUNNING, error="")
        server.world.log("finishing")
    at = store.rounds.get(job.round_no)
    if at is not None and at.state == "closing":
        store.set(at, tries=0)
    _finish(server)


def _finish(server: Server) -> None:
    """What was received closes the round, and its merge completes the job; else it ends here."""
    for attempt in server.live_attempts():
        server.attempt_end(attempt, "left", "the coordinator finished the job")
    at = server.store.rounds.get(server.store.job.round_no)
    if at is not None and at.state == "failed":
        _merge_failed_again(server, at)
    elif at is None or at.state == "done" or at.state == "open" and at.live == 0:
        with server.store.transaction():
            server.complete(incomplete=True)


def change_settings(server: Server, patch: dict) -> None:
    job, experience = server.store.job, server.info.is_experience
    settings = changed(job.settings, patch, for_experience=experience, info=server.info)
    at = server.store.rounds.get(job.round_no)
    least = job.round_no + (at is None or at.state == "done") if experience else job.pass_no + 1
    if job.status == COMPLETED or settings.epochs < least:
        raise Refused("settings.epochs")
    server.store.set(job, settings=settings)
    server.world.log("settings", settings.text)


def shuffle(server: Server) -> None:
    store, job = server.store, server.store.job
    if job.status == COMPLETED or not server.info.reads_data:
        raise Refused("wrong_status" if server.info.reads_data else "wrong_kind")
    n = job.shuffles + 1
    full = seeds.shuffle_order(server.job_seed, n, range(len(job.order)))
    with store.transaction():
        store.set(job, shuffles=n, order=reshuffled(job.order, job.cursor, full), next_order=full)
        server.world.log("shuffled", n)


def retry(server: Server, row: Requeued) -> None:
    _unhold(server, row)
    _resume_when_nothing_is_held(server)


def skip(server: Server, row: Requeued) -> None:
    store, job = server.store, server.store.job
    with store.transaction():
        store.set(row, held=False, skipped=True)
        store.set(job, incomplete=True, skipped=job.skipped + 1)
        store.append(store.skips, (job.pass_no, row.item))
        server.world.log("skipped", row.item.place)
    _resume_when_nothing_is_held(server)


def _resume_when_nothing_is_held(server: Server) -> None:
    if server.store.job.status == PAUSED and not any(row.held for row in server.store.requeued):
        resume(server)


class Sweeper:
    """One per web process; a new process starts with a new one, which has looked at nothing yet."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.looked_at: float | None = None
        self.heard: list[int] = []

    def sweep(self, monotonic: float) -> bool:
        """True: it was allowed to expire."""
        server, store = self.server, self.server.store
        mine = self.looked_at is not None and monotonic - self.looked_at <= SWEEP_GAP
        self.looked_at = monotonic
        heard, self.heard = self.heard, []
        for peer in heard:
            server.seen(store.members[peer])
        last = server.now if store.swept_at is None else store.swept_at
        store.statement()
        store.swept_at = server.now
        may_expire = mine and server.now - last <= SWEEP_GAP
        if may_expire:
            self._expire()
        else:
            self._renew(last)
        self._queue_due()
        return may_expire

    def _renew(self, alive_at: float) -> None:
        server, gap = self.server, self.server.now - alive_at
        for member in server.store.members.values():
            if member.lease_until >= alive_at:
                server.store.set(member, lease_until=server.now + LEASE)
        for attempt in server.live_attempts():
            server.store.set(attempt, deadline=attempt.deadline + gap)
            server.store.set(attempt.slot, started_at=attempt.slot.started_at + gap)

    def _expire(self) -> None:
        server = self.server
        for attempt in server.live_attempts():
            member = server.store.members[attempt.peer]
            if member.lease_until < server.now:
                server.world.checks.unheard(member)
                server.attempt_end(attempt, "expired", "not heard from")
        for attempt in server.live_attempts():
            if attempt.deadline < server.now:
                server.attempt_end(attempt, "expired", "timeout")
        for attempt in [a for a in server.live_attempts() if is_straggler(server, a)]:
            server.attempt_end(attempt, "expired", "straggler")

    def _queue_due(self) -> None:
        server, job = self.server, self.server.store.job
        at = server.store.rounds.get(job.round_no)
        if at is not None and at.state == "closing":
            due = job.status == RUNNING or job.status == PAUSED and at.tries < MERGE_TRIES
            if due and at.merging_at < server.now - MERGE_LEASE:
                server.world.enqueue_merge(at.number)
        go_on(server)


def is_straggler(server: Server, attempt: Attempt) -> bool:
    at = attempt.slot.round
    limit = straggler_limit(
        factor=at.settings.straggler_factor,
        floor=STRAGGLER_FLOOR,
        round_seconds=[_seconds(slot) for slot in at.slots if slot.status == "received"],
        peer_seconds=_own_seconds(server, attempt.peer),
    )
    took = server.now - attempt.slot.started_at
    return limit is not None and took > limit and not server.world.arriving(attempt.id)


def _seconds(slot) -> float:
    return max(0.0, slot.finished_at - slot.started_at)


def _own_seconds(server: Server, peer: int) -> list[float]:
    """Of the peer's latest finished slots."""
    found: list[float] = []
    for number in sorted(server.store.rounds, reverse=True):
        slots = server.store.rounds[number].slots
        found += [_seconds(slot) for slot in slots if slot.peer == peer and slot.status == "received"]
        if len(found) >= PEER_SAMPLES:
            break
    return found[:PEER_SAMPLES]
