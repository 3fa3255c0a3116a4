"""What must hold after every step, told from the tables and from what peers were answered, never from the rules."""

from __future__ import annotations

import hashlib
import io
import math
import struct
from dataclasses import replace

from jobs.domain.progress import chunk_lists, progress_from
from jobs.domain.queue import Item
from jobs.domain.states import ParticipantFacts, participant_state
from tests.simulation import merging, toy
from tests.simulation.export import chunk_ids, write_checkpoint
from tests.simulation.store import Attempt, Checkpoint, Member, Round, Slot
from tests.simulation.units import UnitChecks, deal_states, outcome
from weei_core.aggregation import WeightedSource, merge, method_named
from weei_core.weights import BytesSource

Pieces = dict[int, list[tuple[int, int]]]


def covered(pieces: list[tuple[int, int]], count: int) -> bool:
    """The pieces are [0, count), each record once."""
    at = 0
    for start, length in sorted(pieces):
        if start != at or length < 1:
            return False
        at += length
    return at == count


class Checks:
    def __init__(self, world, before: Pieces) -> None:
        """`before`: what a resumed job's file says was trained in its first pass."""
        self.world = world
        self.store = world.store
        self.units = UnitChecks(world, world.store.job.next_unit)
        self.trained: dict[int, Pieces] = {0: before}
        self.last_round = self.store.job.first_round
        self.pass_no = 0
        self.receipts: dict[int, str] = {}
        self.merged: set[int] = set()
        self.version = -1
        self.progressed_at = 0.0
        self._mark: tuple = ()

    def receipt(self, attempt: int, sha: str) -> None:
        """A peer was told that this update is accepted."""
        assert self.receipts.setdefault(attempt, sha) == sha, f"attempt {attempt} has two receipts"

    def refused(self, code: str) -> None:
        """An update that is right, of no unit too, comes at most too late."""
        assert code in ("stale_attempt", "already_received"), f"a right update is refused: {code}"

    def step(self) -> None:
        if self.store.version == self.version:
            return
        self.version = self.store.version
        while self.last_round + 1 in self.store.checkpoints:
            self.last_round += 1
            self.checkpoint(self.store.checkpoints[self.last_round], self.store.rounds[self.last_round])
        assert max(self.store.checkpoints) == self.last_round, "I1: a checkpoint is missing"
        self._passes()
        at = self.store.rounds.get(self.store.job.round_no)
        if at is not None:
            self._round(at)
        self.units.step(at)
        if self.world.server.info.reads_data:
            self._conserved(at)
        self._progress()

    # ------------------------------------------------------------- every step

    def _round(self, at: Round) -> None:
        """The counters say what the rows say, and closing happened only when it may."""
        live = [slot.attempts[-1] for slot in at.slots if slot.attempts[-1].state == "live"]
        received = [slot.attempts[-1] for slot in at.slots if slot.attempts[-1].state == "received"]
        for attempt in received:
            goes_back = attempt.weight == 0 and self.world.server.info.reads_data
            assert attempt.slot.status == ("stopped" if goes_back else "received")
        counts = (len(live), len([a for a in received if a.weight > 0]))
        assert (at.live, at.received) == counts, f"round {at.number}: counters {at.live, at.received}, rows {counts}"
        assert len({a.peer for a in live}) == len(live), "one peer holds two live attempts"
        if at.state != "open":
            assert not live and at.received, f"round {at.number} is {at.state} with {len(live)} live"
        items = [(s.item.place, s.item.record_count) for s in at.slots if s.status != "stopped"]
        assert len(dict(items)) == len(items), "an item twice in a round"
        assert at.state == "done" or at.pass_no == self.store.job.pass_no, "a round of another pass"

    def task(self, slot: Slot) -> toy.Task:
        """What its peer works on, whoever it is and at whatever try."""
        reads = self.world.server.info.reads_data
        return toy.Task(
            base=self.store.files[slot.round.start],
            chunk=slot.item.chunk_index if reads else None,
            start=slot.item.record_start,
            count=slot.item.record_count,
            seed=self._seed(slot),
            unit_start=self.units.start_of(slot),
            split=1 if reads else self.units.splits[slot],
            slots=self.units.slots_of(slot.round),
            hot=self.world.hot(slot.item),
        )

    def _seed(self, slot: Slot) -> int:
        """The formulas are written out here once more."""
        if self.world.server.info.is_experience:
            return self.units.seed_of(slot)
        numbers = (slot.round.number, slot.item.chunk_index, slot.item.record_start)
        text = struct.pack("<4Q", self.world.server.job_seed, *numbers)
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")

    def told(self, live: Attempt, task: toy.Task) -> None:
        """I5: a peer was given its assignment."""
        assert task == self.task(live.slot), f"I5: attempt {live.id} is told {task}, not {self.task(live.slot)}"

    def _pieces(self, pass_no: int) -> Pieces:
        """Trained in a pass, by position."""
        return {position: list(pieces) for position, pieces in self.trained.get(pass_no, {}).items()}

    def _conserved(self, at: Round | None) -> None:
        """I4: every record of the pass is trained, at work, requeued (or skipped) or undealt, in one of them once."""
        job = self.store.job
        pieces = self._pieces(job.pass_no)
        items = [row.item for row in self.store.requeued]
        if at is not None and at.state != "done":
            items += [slot.item for slot in at.slots if slot.status != "stopped"]
        for item in items:
            assert job.order[item.position] == item.chunk_index, "an item at another chunk's position"
            pieces.setdefault(item.position, []).append((item.record_start, item.record_count))
        for position, chunk in enumerate(job.order):
            found = pieces.get(position, [])
            if position >= job.cursor:
                assert not found, f"undealt position {position} was dealt"
            else:
                assert covered(found, self.world.server.records[chunk]), f"position {position}: {sorted(found)}"

    def _passes(self) -> None:
        job = self.store.job
        while self.pass_no < job.pass_no:
            self._whole_pass(self.pass_no)
            self.pass_no += 1
        assert sorted(job.order) == list(range(len(self.world.server.records))), "the order is no permutation"

    def _whole_pass(self, pass_no: int) -> None:
        pieces = self._pieces(pass_no)
        for skipped_in, item in self.store.skips:
            if skipped_in == pass_no:
                pieces.setdefault(item.position, []).append((item.record_start, item.record_count))
        found = sorted(sum(length for _, length in pieces.get(p, [])) for p in range(len(self.world.server.records)))
        assert found == sorted(self.world.server.records), f"pass {pass_no} ended with records untrained"

    def _progress(self) -> None:
        job = self.store.job
        received = (
            sum(s.status == "received" for s in self.store.rounds[job.round_no].slots)
            if job.round_no in (self.store.rounds)
            else 0
        )
        mark = (job.status, job.round_no, received, job.pass_no)
        if mark != self._mark:
            self._mark = mark
            self.progressed_at = self.world.now

    # ------------------------------------------------------------- deals and expiry

    def deal(self, members: list, items: tuple, *, cut: bool) -> None:
        """At most one each, in queue order, to those who accepted first; fewer only if there is no more."""
        store, places = self.store, [item.place for item in items]
        assert places == sorted(places) and len(items) <= len(members)
        assert [(m.accepted_at, m.id) for m in members] == sorted((m.accepted_at, m.id) for m in members)
        left = [row.item.place for row in store.requeued if not row.held and not row.skipped]
        assert not left or min(left) > max(places), "an item was passed over"
        if len(items) < len(members):
            assert not left and store.job.cursor == len(store.job.order), "a member got nothing, an item is left"
            assert not cut or all(item.record_count == 1 for item in items), "an item was not cut for a member"

    def swept(self) -> None:
        """After a sweep that may expire: nobody is at work whose time is up."""
        for live in self.world.server.live_attempts():
            member, at = self.store.members[live.peer], live.slot.round
            assert member.lease_until >= self.world.now, "an expired lease keeps its attempt"
            finished = sorted(s.finished_at - s.started_at for s in at.slots if s.status == "received")
            factor, took = at.settings.straggler_factor, self.world.now - live.slot.started_at
            if finished and factor and not self.world.arriving(live.id) and self.world.first_timer(live.peer):
                middle = (finished[(len(finished) - 1) // 2] + finished[len(finished) // 2]) / 2
                assert took <= max(30, factor * middle), "a straggler blocks its round"

    def unheard(self, member: Member) -> None:
        """Nobody loses work because the server was away: after a restart there is a whole lease to be heard again."""
        up = self.world.now - self.world.web_down_until
        before = self.world.leases_at_death.get(member.id, math.inf)
        assert not self.world.leases_at_death or up >= 30 or before < self.world.died_at, "an outage ended a lease"

    def requeued(self, slot: Slot, item: Item) -> None:
        """An item goes back as it was, with one error more if it failed or no unit of it was finished."""
        errors = slot.item.errors + (outcome(slot.attempts[-1]) in ("error", "empty"))
        assert item == replace(slot.item, errors=errors), f"{slot.item} went back as {item}"

    def item_failed(self, item: Item) -> None:
        """An item is held for errors of its records only, at least three of them."""
        slots = [slot for at in self.store.rounds.values() if at.pass_no == self.store.job.pass_no for slot in at.slots]
        failed = [
            slot
            for slot in slots
            if slot.item.position == item.position
            and slot.item.record_start <= item.record_start < slot.item.record_start + slot.item.record_count
            and outcome(slot.attempts[-1]) in ("error", "empty")
        ]
        assert len(failed) >= 3, f"{item} is held after {len(failed)} errors"

    def deals_failed(self, at: Round, ended: int) -> None:
        """The job pauses for deals that ended only in errors, or no unit; a deal with a loss does not count."""
        assert self.units.failed_deals(at) == 3, f"paused after {[deal_states(at, deal) for deal in range(ended + 1)]}"

    def participant(self, member) -> None:
        live = self.world.server.assignment(member)
        state = participant_state(
            ParticipantFacts(
                membership="modelLoaded" if member.loaded else "approved" if member.current else "left",
                connected=member.lease_until >= self.world.now,
                heard_from=member.seen,
                paused=member.paused,
                slot_status=live.slot.status if live else None,
                stage="training" if live and live.slot.status == "training" else None,
            )
        )
        if live:
            assert state in ("assigned", "training"), f"a live attempt shows as {state}"
        else:
            assert state in ("disconnected", "stopped", "approved", "modelLoaded"), state

    # ------------------------------------------------------------- checkpoints

    def checkpoint(self, made: Checkpoint, at: Round) -> None:
        store = self.store
        assert at.state == "done" and at.start == store.checkpoints[made.round - 1].weights, "I1: another parent"
        for name in filter(None, (made.weights, made.state)):
            assert toy.sha(store.files[name]) == name, "I2: bytes and hash differ"
            assert all(map(math.isfinite, struct.unpack(f"<{len(store.files[name]) // 4}f", store.files[name])))
        updates = self._ledger(made, at)
        self.units.checkpoint(made)
        for attempt in updates:
            item = attempt.slot.item
            self.trained.setdefault(at.pass_no, {}).setdefault(item.position, []).append(
                (item.record_start, item.record_count)
            )
        assert store.job.status == "completed" or not store.job.finishing, "finish waits after its merge"
        self._bytes(made, at, updates)
        if self.world.server.info.reads_data:
            self._lists(made)
        if made.round % 4 == 0:
            write_checkpoint(self.world, made)
        self._validation(made)

    def _ledger(self, made: Checkpoint, at: Round) -> list[Attempt]:
        """I3 and I10: exactly what was accepted in this round, each once, trained on the round's start. Returns what
        counts."""
        accepted = [a for slot in at.slots for a in slot.attempts if a.state == "received"]
        assert sorted(made.ledger) == sorted((a.id, a.sha) for a in accepted), "I10: the ledger misses an update"
        assert not self.merged & {a.id for a in accepted}, "I3: an update counted twice"
        self.merged |= {a.id for a in accepted}
        assert self.world.server.info.is_experience or all(a.weight for a in accepted)
        counted = [a for a in accepted if a.weight > 0]
        for a in counted:
            body, weight = toy.trained(self.task(a.slot))
            assert (toy.sha(body), weight) == (a.sha, a.weight), "I3: an update on another base, item or seed"
        return counted

    def _bytes(self, made: Checkpoint, at: Round, updates: list[Attempt]) -> None:
        """I6: in any order of arrival the same bytes; for fedavg also by hand, in Python's own doubles."""
        store, before, chosen = self.store, self.store.checkpoints[made.round - 1], at.settings.aggregation
        keeps = before.state if before.method == chosen.method else None
        out = io.BytesIO()
        merge(
            start=BytesSource(store.files[at.start]),
            updates=[
                WeightedSource(BytesSource(store.files[a.sha]), a.weight, a.slot.item.place) for a in updates[::-1]
            ],
            state=BytesSource(store.files[keeps]) if keeps else None,
            step=before.step + 1 if keeps else 1,
            method=chosen,
            weights_out=out,
            state_out=io.BytesIO() if method_named(chosen.method).state_vectors else None,
        )
        assert out.getvalue() == store.files[made.weights], "I6: the order of arrival changed the weights"
        assert made.step == (0 if not made.state else before.step + 1 if keeps else 1)
        ordered = sorted(updates, key=lambda a: a.slot.item.place)
        parts = [(store.files[a.sha], a.weight) for a in ordered]
        if chosen.method == "fedavg":
            assert toy.mean(parts) == store.files[made.weights], "fedavg is not the weighted mean"
        assert made.examples == sum(a.weight for a in ordered) > 0

    def _lists(self, made: Checkpoint) -> None:
        """What the file says is left is what was not trained."""
        progress = progress_from(made.progress_text)
        assert progress.to_text() == made.progress_text
        ids, records = chunk_ids(made.order), self.world.server.records
        lists = chunk_lists(progress, made.order, ids)
        parts = lists.work_items
        sources = [str(parts[name]["sourceChunkId"]) if name in parts else name for name in lists.remaining]
        assert not set(lists.trained) & set(sources), "I4: a chunk both trained and left"
        assert set(lists.trained) | set(sources) == set(ids.values()), "I4: a chunk in no list"
        assert len(set(lists.trained)) == len(lists.trained) and len(set(lists.remaining)) == len(lists.remaining)
        pieces = self._pieces(made.pass_no)
        for position, chunk in enumerate(made.order):
            name, done = ids[chunk], list(pieces.get(position, []))
            left = [
                (_number(p["recordStart"]), _number(p["recordCount"]))
                for p in parts.values()
                if p["sourceChunkId"] == name
            ]
            left += [(0, records[chunk])] if name in lists.remaining else []
            assert (name in lists.trained) == (not left) and covered(done + left, records[chunk]), (
                f"{name} in the lists"
            )

    def _validation(self, made: Checkpoint) -> None:
        chosen = self.world.store.job.settings.validation_schedule
        last = self.store.job.status == "completed"
        by = (
            made.round % chosen.every == 0
            if chosen.unit == "round"
            else (made.left == 0 and (made.pass_no + 1) % chosen.every == 0)
        )
        assert made.validation == (chosen.enabled and (last or by)), f"validation of checkpoint {made.round}"

    # ------------------------------------------------------------- the end

    def end(self) -> None:
        job, schedule = self.store.job, self.store.job.settings.validation_schedule
        latest = self.store.checkpoints[max(self.store.checkpoints)]
        assert latest.validation or not (schedule and schedule.enabled), "the last checkpoint is not validated"
        assert job.status == "completed", f"the job is {job.status}: {job.error}"
        if self.world.server.info.is_experience:
            self.units.end()
        else:
            self._all_passes()
        for attempt_id, sha in self.receipts.items():
            attempt = self.store.attempts[attempt_id]
            at = attempt.slot.round
            counted = attempt_id in self.merged and attempt.sha == sha
            empty = attempt.weight == 0 and at.state != "done"
            assert counted or empty or attempt.reason or at.error, f"I10: the accepted update {attempt_id} is nowhere"
        assert not self.world.server.live_attempts(), "somebody is still at work"
        assert self.merged == {n for _, c in sorted(self.store.checkpoints.items()) for n, _ in c.ledger}
        assert merging.progress_of(self.world.server).pass_no == job.pass_no

    def _all_passes(self) -> None:
        job = self.store.job
        total = sum(self.world.server.records) * job.settings.epochs
        done = sum(length for passed in self.trained.values() for pieces in passed.values() for _, length in pieces)
        assert job.incomplete == (done < total), f"incomplete is {job.incomplete} with {done} of {total} records"
        if not job.finishing:
            assert job.pass_no == job.settings.epochs - 1
            self._whole_pass(job.pass_no)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
