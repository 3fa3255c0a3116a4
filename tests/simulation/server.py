"""The simulated server's part in rounds: dealing, settling, attempts and uploads.

The order of statements and the borders of transactions are those of the real services; every decision that is a rule is
made by `jobs.domain`. Nothing here knows of faults.
"""

from __future__ import annotations

from jobs.domain.experience import snapshot_round, split_of, unit_starts
from jobs.domain.queue import Item, PassQueue, deal
from jobs.domain.rounds import (
    After,
    Outcome,
    Position,
    Verdict,
    after_checkpoint,
    after_experience,
    failed_deals_after,
    validation_due,
    verdict,
)
from jobs.domain.states import COMPLETED, PAUSED, RUNNING, check_transition
from tests.simulation import toy
from tests.simulation.store import Attempt, Checkpoint, Member, Requeued, Round, Slot, Store
from weei_core import seeds
from weei_core.model_info import ModelInfo
from weei_core.weights import first_non_finite

LEASE = 30.0
TIMEOUT = 30 * 60.0
MAX_PARTS = 256
ITEM_ERRORS = 3
DEAL_ERRORS = 3
OUTCOMES = {
    "received": Outcome.EMPTY,
    "failed": Outcome.ERROR,
    "expired": Outcome.LOSS,
    "left": Outcome.LOSS,
}


class Refused(Exception):
    """An answer with an error code; what was done before it stays done."""


class Server:
    """`world` gives the time and takes hints, queued tasks and log lines."""

    def __init__(self, world, store: Store, records: list[int], *, info: ModelInfo, job_seed: int) -> None:
        self.world = world
        self.store = store
        self.records = records
        self.info = info
        self.job_seed = job_seed

    @property
    def now(self) -> float:
        return self.world.now

    # ------------------------------------------------------------- dealing

    def active(self) -> list[Member]:
        ready = [
            m
            for m in self.store.members.values()
            if m.current and m.loaded and not m.paused and m.lease_until >= self.now
        ]
        return sorted(ready, key=lambda m: (m.accepted_at, m.id))

    def round_open(self, number: int) -> None:
        store, job = self.store, self.store.job
        if job.round_no != number - 1 or job.status != RUNNING or job.finishing:
            return
        store.set(job, round_no=number, failed_deals=0)
        start = store.checkpoints[number - 1].weights
        store.put(store.rounds, number, Round(number, job.pass_no, job.settings, start))
        self.deal_round(store.rounds[number])

    def deal_round(self, at: Round) -> None:
        store, job = self.store, self.store.job
        if at.state != "open" or job.status != RUNNING or job.finishing:
            return
        nothing_yet = at.live == 0 and at.received == 0
        if nothing_yet and self.info.reads_data and self.left() == 0 and not self._pass_go_on(at):
            return
        in_deal = [slot.peer for slot in at.slots if slot.deal == at.deal]
        busy = [attempt.peer for attempt in self.live_attempts()]
        self.world.saw_active(self.active())
        members = [m for m in self.active() if m.id not in in_deal and m.id not in busy]
        if not members:
            return
        give = self._items_deal if self.info.reads_data else self._units_deal
        slots = give(at, members, begins=not in_deal)
        if not slots:
            return
        self._slots_create(at, slots)
        store.append(at.members_at_deals, (at.deal, len(members)))

    def _units_deal(self, at: Round, members: list[Member], *, begins: bool) -> list[Slot]:
        if not begins:
            return []
        units = at.settings.units_per_assignment
        assert units is not None
        starts = unit_starts(self.store.job.next_unit, len(members), units)
        self.store.set(self.store.job, next_unit=starts.stop)
        slots = [
            Slot(
                at,
                at.deal,
                Item(0, 0, start, units),
                member.id,
                seeds.experience_seed(self.job_seed, start),
                self.now,
                unit_start=start,
                split=split_of(
                    requested=at.settings.workers, device=member.workers, most=self.info.max_workers, units=units
                ),
            )
            for start, member in zip(starts, members, strict=True)
        ]
        self.world.checks.units.deal(at, members, slots)
        return slots

    def _items_deal(self, at: Round, members: list[Member], *, begins: bool) -> list[Slot]:
        store, job = self.store, self.store.job
        waiting = [row for row in store.requeued if not row.held and not row.skipped]
        queue = PassQueue(job.order, job.cursor, tuple(row.item for row in waiting), self.records.__getitem__)
        cut = self.info.capabilities.record_ranges and begins
        dealt = deal(queue, len(members), cut=cut, max_parts=MAX_PARTS)
        if not dealt.items:
            return []
        self._queue_store(waiting, dealt.rest)
        self.world.checks.deal(members, dealt.items, cut=cut)
        slots = []
        for member, item in zip(members, dealt.items, strict=False):
            unit, seed = self._seeded(at, item)
            slots.append(Slot(at, at.deal, item, member.id, seed, self.now, unit_start=unit))
        return slots

    def _seeded(self, at: Round, item: Item) -> tuple[int | None, int]:
        """First unit and seed of an item; records that are units of experience count on over all passes."""
        if not self.info.is_experience:
            return None, seeds.dataset_seed(self.job_seed, at.number, item.chunk_index, item.record_start)
        unit = self.store.job.next_unit + sum(self.records[: item.chunk_index]) + item.record_start
        return unit, seeds.experience_seed(self.job_seed, unit)

    def left(self) -> int:
        """Items of the pass that no round has taken; held ones too, skipped ones not."""
        job = self.store.job
        return len(job.order) - job.cursor + sum(not row.skipped for row in self.store.requeued)

    def _pass_go_on(self, at: Round) -> bool:
        """What was left of the pass was skipped: the round takes the next pass, or the job ends."""
        job = self.store.job
        if self.after_round(at.number - 1, 0) == After.COMPLETED:
            self.complete(incomplete=True)
            return False
        self.pass_next()
        self.store.set(at, pass_no=job.pass_no)
        return True

    def _queue_store(self, waiting: list[Requeued], rest: PassQueue) -> None:
        kept = list(rest.requeued)
        for row in waiting:
            if row.item in kept:
                kept.remove(row.item)
            else:
                self.store.remove(self.store.requeued, row)
        self.store.set(self.store.job, cursor=rest.cursor)
        for item in kept:
            self.store.append(self.store.requeued, Requeued(item))

    def _slots_create(self, at: Round, slots: list[Slot]) -> None:
        for slot in slots:
            self.store.append(at.slots, slot)
            self._attempt_create(slot)
            self.world.hint(slot.peer)
        self.store.set(at, live=at.live + len(slots))
        given = [f"{slot.peer}:{slot.item.place}+{slot.item.record_count}" for slot in slots]
        self.world.log("deal", at.number, at.deal, *given)

    def _attempt_create(self, slot: Slot) -> None:
        attempt = Attempt(self.world.next_id(), slot, slot.peer, slot.started_at + TIMEOUT)
        self.store.put(self.store.attempts, attempt.id, attempt)
        self.store.append(slot.attempts, attempt)

    def after_round(self, round_no: int, left: int) -> After:
        """What follows the checkpoint of `round_no` with `left` items in the pass at work."""
        job = self.store.job
        if self.info.is_experience:
            items = left if self.info.reads_data else None
            return after_experience(round_no=round_no, epochs=job.settings.epochs, left=items, finishing=job.finishing)
        return after_checkpoint(Position(job.pass_no, left, job.settings.epochs), finishing=job.finishing)

    def unit_after_pass(self) -> int:
        records = sum(self.records) if self.info.reads_data and self.info.is_experience else 0
        return self.store.job.next_unit + records

    def auxiliary(self, loaded: int) -> tuple[bytes, ...]:
        """What fills the slots while the checkpoint of round `loaded` is loaded."""
        found = []
        for slot in self.info.auxiliary_weights:
            assert slot.source is not None
            at = snapshot_round(rounds_ago=slot.source.rounds_ago, first=self.store.job.first_round, loaded=loaded)
            found.append(self.store.files[self.store.checkpoints[at].weights])
        return tuple(found)

    def pass_next(self) -> None:
        job = self.store.job
        for row in [row for row in self.store.requeued if row.skipped]:
            self.store.remove(self.store.requeued, row)
        self.store.set(
            job,
            pass_no=job.pass_no + 1,
            cursor=0,
            order=job.next_order or job.order,
            next_order=None,
            next_unit=self.unit_after_pass(),
        )

    def complete(self, *, incomplete: bool) -> None:
        job = self.store.job
        if job.status == COMPLETED:
            return
        check_transition(job.status, COMPLETED)
        self.store.set(job, status=COMPLETED, incomplete=incomplete)
        self.validation(self.store.checkpoints[max(self.store.checkpoints)], last=True)
        self.world.log("completed", incomplete)

    def validation(self, made: Checkpoint, *, last: bool = False, ends_pass: bool = False) -> None:
        """Ask for the validation of a checkpoint if the schedule says so."""
        schedule = self.store.job.settings.validation_schedule
        if schedule is not None and validation_due(
            enabled=schedule.enabled,
            unit=schedule.unit,
            every=schedule.every,
            round_no=made.round,
            first=made.round == self.store.job.first_round,
            last=last,
            ends_pass=ends_pass,
            passes=made.pass_no + (made.left == 0),
        ):
            self.store.set(made, validation=True)

    def pause_with_error(self, error: str) -> None:
        job = self.store.job
        if job.status in (RUNNING, PAUSED):
            self.store.set(job, status=PAUSED, error=error, failed_deals=0)
            self.world.log("paused", error)

    # ------------------------------------------------------------- settling

    def live_attempts(self) -> list[Attempt]:
        at = self.store.rounds.get(self.store.job.round_no)
        slots = at.slots if at else []
        return [slot.attempts[-1] for slot in slots if slot.attempts[-1].state == "live"]

    def attempt_end(self, attempt: Attempt, state: str, reason: str) -> bool:
        store = self.store
        with store.transaction():
            if attempt.state != "live":
                return False
            store.set(attempt, state=state, reason=reason)
            at = attempt.slot.round
            store.set(at, live=at.live - 1)
            self.slot_stop(attempt.slot, reason, is_error=state == "failed")
            self.settle(at)
            self.world.hint(attempt.peer)
            self.world.log("ended", attempt.id, state, reason)
        return True

    def slot_stop(self, slot: Slot, reason: str, *, is_error: bool) -> None:
        store, old = self.store, slot.item
        store.set(slot, status="stopped", finished_at=self.now)
        if not self.info.reads_data:
            return
        errors = old.errors + is_error
        item = Item(old.position, old.chunk_index, old.record_start, old.record_count, old.whole, errors)
        self.world.checks.requeued(slot, item)
        store.append(store.requeued, Requeued(item, held=errors >= ITEM_ERRORS))
        if errors >= ITEM_ERRORS:
            self.world.checks.item_failed(item)
            self.pause_with_error(f"item {item.place} failed {errors} times: {reason}")

    def settle(self, at: Round) -> None:
        store = self.store
        if at.state != "open":
            return
        what = verdict(live=at.live, received=at.received)
        if what == Verdict.CLOSE:
            store.set(at, state="closing", closing_at=self.now, merging_at=self.now)
            store.on_commit(lambda: self.world.enqueue_merge(at.number))
        elif what == Verdict.DEAL_AGAIN:
            ended = at.deal
            store.set(at, deal=ended + 1)
            if self._deals_may_go_on(at, ended):
                self.deal_round(at)

    def _deals_may_go_on(self, at: Round, ended: int) -> bool:
        job = self.store.job
        states = [a.state for s in at.slots if s.deal == ended for a in s.attempts if a.state != "replaced"]
        failed = failed_deals_after(job.failed_deals, [OUTCOMES[state] for state in states])
        self.store.set(job, failed_deals=failed)
        if failed < DEAL_ERRORS:
            return True
        self.world.checks.deals_failed(at, ended)
        self.pause_with_error(f"round {at.number}: {failed} deals in a row ended only in errors")
        return False

    # ------------------------------------------------------------- peers

    def seen(self, member: Member) -> bool:
        """True when its lease had ended."""
        away = member.lease_until < self.now
        self.store.set(member, lease_until=self.now + LEASE, seen=True)
        return away

    def returned(self, member: Member) -> None:
        with self.store.transaction():
            at = self.store.rounds.get(self.store.job.round_no)
            if member.current and at is not None and at.state == "open":
                self.deal_round(at)

    def ready(self, member: Member, workers: int) -> None:
        self.seen(member)
        with self.store.transaction():
            self.store.set(member, loaded=True, workers=workers)
            self.returned(member)

    def hello(self, member: Member, session: int | None, attempt_id: int | None) -> int | None:
        """The session that trains now, or None: another tab took over, this one only watches."""
        away = self.seen(member)
        if session is None:
            self.store.set(member, session=member.session + 1)
        elif session != member.session:
            return None
        for live in self.live_attempts():
            if live.peer == member.id and live.id != attempt_id:
                self._replace(live)
        if away:
            self.returned(member)
        return member.session

    def _replace(self, live: Attempt) -> None:
        with self.store.transaction():
            if live.state == "live":
                self.store.set(live, state="replaced", reason="started again")
                self.store.set(live.slot, status="loading")
                self._attempt_create(live.slot)
                self.world.log("replaced", live.id, live.slot.attempts[-1].id)

    def leave(self, member: Member) -> None:
        with self.store.transaction():
            self.store.set(member, current=False, loaded=False, paused=False)
            self._end_attempts(member, "left the job")

    def pause_member(self, member: Member, paused: bool) -> None:
        with self.store.transaction():
            self.store.set(member, paused=paused)
            if paused:
                self._end_attempts(member, "contribution paused")
            else:
                self.returned(member)

    def _end_attempts(self, member: Member, reason: str) -> None:
        for live in self.live_attempts():
            if live.peer == member.id:
                self.attempt_end(live, "left", reason)

    def assignment(self, member: Member) -> Attempt | None:
        own = [live for live in self.live_attempts() if live.peer == member.id and member.current]
        return own[0] if own else None

    def training(self, attempt: Attempt) -> None:
        if attempt.state == "live":
            self.store.set(attempt.slot, status="training")

    # ------------------------------------------------------------- uploads

    def upload(self, attempt_id: int, body: bytes, declared: str, report: dict) -> str:
        """ "received" or "duplicate"; raises `Refused` with the code of any other answer."""
        attempt = self.store.attempts[attempt_id]
        if attempt.state == "live":
            self._check_body(attempt, body, declared)
        return self._accept(attempt, body, declared, report)

    def _check_body(self, attempt: Attempt, body: bytes, declared: str) -> None:
        if len(body) != toy.WEIGHT_BYTES:
            self._refuse(attempt, "wrong_size")
        if toy.sha(body) != declared:
            raise Refused("wrong_hash")
        if first_non_finite(body) is not None:
            self._refuse(attempt, "non_finite")

    def _refuse(self, attempt: Attempt, code: str) -> None:
        self.attempt_end(attempt, "failed", code)
        raise Refused(code)

    def _accept(self, attempt: Attempt, body: bytes, declared: str, report: dict) -> str:
        store, slot = self.store, attempt.slot
        weight = report["uniqueExamples"]
        if attempt.state == "live" and report["round"] != slot.round.number:
            raise Refused("stale_attempt")
        least = 0 if self.info.is_experience else 1
        if attempt.state == "live" and not least <= weight <= slot.item.record_count:
            self._refuse(attempt, "invalid_report")
        with store.transaction():
            if attempt.state == "received":
                if attempt.sha != declared:
                    raise Refused("already_received")
                return "duplicate"
            if attempt.state != "live" or slot.round.state != "open":
                raise Refused("stale_attempt")
            store.set(attempt, state="received", sha=declared, weight=weight, metrics=report["metrics"])
            store.set(slot.round, live=slot.round.live - 1, received=slot.round.received + (weight > 0))
            if weight == 0 and self.info.reads_data:
                self.slot_stop(slot, "no unit of it was finished", is_error=True)
            else:
                store.set(slot, status="received", finished_at=self.now)
            store.files[declared] = body
            self.settle(slot.round)
            self.world.hint(attempt.peer)
            self.world.log("received", attempt.id, declared[:12])
        return "received"
