"""What must hold in experience jobs beyond what holds in every job. Each rule is written out here once more."""

from __future__ import annotations

import hashlib
import struct

from tests.simulation.store import Attempt, Checkpoint, Member, Round, Slot


class UnitChecks:
    """`first_unit`: the job's first, or that of the pass that a resumed one goes on with."""

    def __init__(self, world, first_unit: int) -> None:
        self.world = world
        self.store = world.store
        self.first_unit = first_unit
        self.ends = {world.store.job.first_round: first_unit}
        self.splits: dict[Slot, int] = {}
        self.settings: dict[int, tuple[int | None, int]] = {}
        self._running = False
        self._resumed = (0, 0)

    # ------------------------------------------------------------- what is dealt

    def deal(self, at: Round, members: list[Member], slots: list[Slot]) -> None:
        """Each member gets as many new units as the round's settings say, all at once, divided for its own device."""
        job, info = self.store.job, self.world.server.info
        assert all(slot.deal < at.deal for slot in at.slots), "units for somebody who joined a deal late"
        assert [slot.peer for slot in slots] == [m.id for m in sorted(members, key=lambda m: (m.accepted_at, m.id))]
        units = at.settings.units_per_assignment or 0
        for slot, member in zip(slots, members, strict=True):
            assert units == slot.item.record_count
            self.splits[slot] = min(at.settings.workers, member.workers, info.max_workers, units)
        assert job.next_unit == slots[-1].item.record_start + units

    def start_of(self, slot: Slot) -> int | None:
        """The number of its first unit."""
        server, item = self.world.server, slot.item
        if not server.info.is_experience:
            return None
        if not server.info.reads_data:
            return item.record_start
        before = sum(server.records) * slot.round.pass_no + sum(server.records[: item.chunk_index])
        return self.first_unit + before + item.record_start

    def seed_of(self, slot: Slot) -> int:
        """Of an experience job: from the first unit alone, so that a retry, or another round, plays the same."""
        text = struct.pack("<2Q", self.world.server.job_seed, self.start_of(slot))
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")

    def slots_of(self, at: Round) -> tuple[bytes, ...]:
        """The checkpoints that a model of this round plays against."""
        first, store = self.store.job.first_round, self.store
        wanted = [first if ago is None else at.number - 1 - ago for ago in self.world.profile.slots]
        return tuple(store.files[store.checkpoints[max(first, number)].weights] for number in wanted)

    # ------------------------------------------------------------- every step

    def step(self, at: Round | None) -> None:
        self._deals(at)
        if at is None or not self.world.server.info.is_experience:
            return
        chosen = (at.settings.units_per_assignment, at.settings.workers)
        assert self.settings.setdefault(at.number, chosen) == chosen, "a round's units changed"
        if not self.world.server.info.reads_data:
            self.ends[at.number] = self._contiguous(at, self.ends[at.number - 1])
            assert self.store.job.next_unit == self.ends[at.number], "I4: units were used that nobody got"
            assert not self.store.requeued and self.store.job.pass_no == 0, "a job without data has a queue"

    def _contiguous(self, at: Round, unit: int) -> int:
        """I4: every unit is dealt once, one deal after the other, without a gap."""
        for slot in at.slots:
            assert slot.item.record_start == unit, f"I4: unit {unit} is next, {slot.item.record_start} was dealt"
            unit += slot.item.record_count
        return unit

    def _deals(self, at: Round | None) -> None:
        """Three deals in a row without any weight pause the job."""
        job = self.store.job
        running, self._running = self._running, job.status == "running"
        if at is None or not self._running or job.finishing:
            return
        if not running:
            self._resumed = (at.number, at.deal)
        assert at.deal < 3 or self.failed_deals(at) < 3, f"round {at.number} is dealt for ever"

    def failed_deals(self, at: Round) -> int:
        """Deals of the round that ended only in errors or no unit. Those before a resume are forgiven; those with a
        loss do not count."""
        number, deal = self._resumed
        deals = [deal_states(at, deal) for deal in range(deal if number == at.number else 0, at.deal)]
        return sum(bool(states) and set(states) <= {"error", "empty"} for states in deals)

    # ------------------------------------------------------------- checkpoints

    def checkpoint(self, made: Checkpoint) -> None:
        server = self.world.server
        if not server.info.is_experience:
            assert made.next_unit is None
        elif server.info.reads_data:
            passes = made.pass_no + (made.left == 0)
            assert made.next_unit == self.first_unit + sum(server.records) * passes, "nextUnit is no pass's first"
        else:
            end = self._contiguous(self.store.rounds[made.round], self.ends[made.round - 1])
            self.ends[made.round] = end
            assert made.next_unit == end, f"nextUnit of checkpoint {made.round} is {made.next_unit}, not {end}"

    def end(self) -> None:
        """A job ends with its last round, or early and says so."""
        job, last = self.store.job, max(self.store.checkpoints)
        assert last <= job.settings.epochs
        assert job.finishing or last == job.settings.epochs, f"the job ended with round {last}"
        assert job.incomplete == (last < job.settings.epochs or job.skipped > 0), f"incomplete is {job.incomplete}"


def deal_states(at: Round, deal: int) -> list[str]:
    """How the slots of a deal ended: "error", "empty" (no unit was finished), "weight" or "lost"."""
    return [outcome(slot.attempts[-1]) for slot in at.slots if slot.deal == deal]


def outcome(attempt: Attempt) -> str:
    if attempt.state == "received":
        return "weight" if attempt.weight else "empty"
    return "error" if attempt.state == "failed" else "lost"
