"""What must hold whatever was killed: I1 to I6 and I10, told from the tables, the stored bytes and the receipts.

Each function gets a job and the first round to look at, and gives one sentence for each violation. They read one
snapshot of the database, so they can run while work goes on. I7, I8 and I9 are seen from outside (outside.py, run.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection, transaction

from checkpoints.models import Artifact, Checkpoint
from checkpoints.store import store
from jobs.domain.progress import chunk_lists, progress_from
from jobs.models import Attempt, Chunk, Job, Requeued, Round, Slot
from jobs.services.dealing import order_of
from jobs.services.texts import info_of, settings_in
from tests.load.updates import update_of
from weei_core import seeds
from weei_core.aggregation import WeightedSource, merge, method_named
from weei_core.weights import BytesSource

MOST_TOLD = 5
"""Of one invariant at one look."""
BATCH = 2000


@dataclass(frozen=True)
class Receipt:
    """The server answered 2xx to this update of this attempt."""

    attempt: str
    sha256: str


Again = Callable[[Checkpoint, dict[str, Any]], bytes]
"""Makes a real participant's update again, from the checkpoint that it made and its slot in the ledger."""


def check(
    job_ids: Iterable[UUID],
    since: dict[UUID, int],
    receipts: Iterable[Receipt],
    *,
    real: frozenset[str] = frozenset(),
    again: Again | None = None,
) -> dict[str, list[str]]:
    """Violations by invariant; every invariant has an entry. Rounds below `since` were checked before. `real` are
    the peers that trained; `again` makes their updates, those of all others are made by `tests.load.updates`."""
    told: dict[str, list[str]] = {}
    # Tests ask within a transaction of their own.
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if connection.vendor == "postgresql" and outermost:
            connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for job in Job.objects.select_related("dataset", "pass_order").filter(pk__in=job_ids):
            first = since.get(job.pk, 0)
            look: dict[str, Iterable[str]] = {
                "I1": one_checkpoint_a_round(job),
                "I2": bytes_are_named_by_their_hash(job, first),
                "I3": updates_count_once(job, first),
                "I4": every_record_once(job, first),
                "I5": seeds_are_derived(job, first),
                "I6": same_updates_same_bits(job, first, real, again),
            }
            for name, found in look.items():
                told.setdefault(name, []).extend(found)
        told["I10"] = [sentence for batch in _batches(receipts) for sentence in receipts_are_kept(batch)]
    return {name: found[:MOST_TOLD] for name, found in told.items()}


def _batches(receipts: Iterable[Receipt]) -> Iterator[list[Receipt]]:
    found = list(receipts)
    for begin in range(0, len(found), BATCH):
        yield found[begin : begin + BATCH]


def one_checkpoint_a_round(job: Job) -> list[str]:
    """I1."""
    made = list(Checkpoint.objects.filter(job=job).order_by("round").values_list("round", flat=True))
    states = dict(Round.objects.filter(job=job).values_list("number", "state"))
    told = []
    wanted = list(range(job.first_round, job.first_round + len(made)))
    if made != wanted:
        told.append(f"checkpoints are not one for each round: {_differences(made, wanted)}")
    done = sorted(number for number, state in states.items() if state == Round.State.DONE)
    if done != made[1:]:
        told.append(f"rounds that are done and checkpoints differ: {_differences(done, made[1:])}")
    if len(at_work := sorted(set(states) - set(done))) > 1:
        told.append(f"rounds {at_work} are at work at once")
    return told


def bytes_are_named_by_their_hash(job: Job, since: int) -> list[str]:
    """I2, by reading what is stored without the product's own checks."""
    told = []
    for made in Checkpoint.objects.filter(job=job, round__gte=since).select_related("weights", "state"):
        for kind, artifact in (("weights", made.weights), ("state", made.state)):
            if artifact is None:
                continue
            try:
                body = stored_bytes(artifact)
            except OSError as error:
                told.append(f"the {kind} of checkpoint {made.round} cannot be read: {error}")
                continue
            found = hashlib.sha256(body).hexdigest()
            if found != artifact.sha256:
                told.append(f"the {kind} of checkpoint {made.round} have the hash {found}, not {artifact.sha256}")
            elif kind == "weights" and len(body) != job.weight_bytes:
                told.append(f"checkpoint {made.round} has {len(body)} bytes of weights, not {job.weight_bytes}")
            elif not np.isfinite(np.frombuffer(body, "<f4")).all():
                told.append(f"the {kind} of checkpoint {made.round} are not finite")
    return told


def stored_bytes(artifact: Artifact) -> bytes:
    if artifact.body is not None:
        return bytes(artifact.body)
    return store().local(artifact.sha256, verify=False).read_bytes()


def updates_count_once(job: Job, since: int) -> list[str]:
    """I3: accepted on the round's own start, once a slot, and the counters say what the rows say."""
    told = []
    made = {c.round: c for c in Checkpoint.objects.filter(job=job, round__gte=since - 1)}
    attempts = defaultdict(list)
    for attempt in Attempt.objects.filter(slot__round__job=job, slot__round__number__gte=since).select_related("slot"):
        attempts[attempt.slot.round_id].append(attempt)
    for at in Round.objects.filter(job=job, number__gte=since):
        before, mine = made.get(at.number - 1), attempts[at.pk]
        if before is None or at.start_weights != before.weights_id:
            told.append(f"round {at.number} starts on {at.start_weights[:12]}, not on the checkpoint before it")
        kept = [a for a in mine if a.state == Attempt.State.RECEIVED]
        live = [a for a in mine if a.state == Attempt.State.LIVE]
        if len({a.slot_id for a in kept}) < len(kept):
            told.append(f"a slot of round {at.number} has two accepted updates")
        counters = (at.live, at.received)
        rows = (len(live), sum(a.unique_examples > 0 for a in kept))
        if counters != rows:
            told.append(f"round {at.number} counts (live, received) {counters}, its rows are {rows}")
        if live and at.state != Round.State.OPEN:
            told.append(f"round {at.number} is {at.state} and has {len(live)} live attempts")
        if at.state == Round.State.DONE and at.number in made:
            counted = sorted((slot["attempt"], slot["sha256"]) for slot in _ledger(made[at.number])["slots"])
            if counted != sorted((str(a.pk), a.sha256) for a in kept):
                told.append(f"the ledger of checkpoint {at.number} does not hold the {len(kept)} accepted updates")
    busy = Attempt.objects.filter(state=Attempt.State.LIVE, slot__round__job=job).values_list("peer", flat=True)
    told += [f"peer {peer} has {count} live attempts" for peer, count in Counter(busy).items() if count > 1]
    return told


def every_record_once(job: Job, since: int) -> list[str]:
    """I4: each record of a pass is trained, at work, waiting or skipped, exactly one of them, from `since`'s pass on;
    each checkpoint's lists are disjoint and complete."""
    if job.dataset is None:
        return []
    chunks = {chunk.index: chunk for chunk in Chunk.objects.filter(dataset=job.dataset)}
    first = Round.objects.filter(job=job, number=max(since, job.first_round + 1)).values_list("pass_no", flat=True)
    begin = first.first() or 0
    parts: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    slots = Slot.objects.filter(round__job=job, round__pass_no__gte=begin).exclude(status=Slot.Status.STOPPED)
    for slot in slots.select_related("round", "chunk"):
        parts[slot.round.pass_no, slot.chunk.index].append((slot.record_start, slot.record_count))
    for row in Requeued.objects.filter(job=job):
        parts[job.pass_no, row.chunk_index].append((row.record_start, row.record_count))
    for index in list(order_of(job.pass_order, job.dataset.count))[job.cursor :]:
        parts[job.pass_no, index].append((0, chunks[index].example_count))
    told = []
    for pass_no in range(begin, job.pass_no + 1):
        for index, chunk in chunks.items():
            if not _covered(found := sorted(parts[pass_no, index]), chunk.example_count):
                told.append(f"pass {pass_no}: of {chunk.chunk_id}'s {chunk.example_count} records there are {found}")
    return told + _lists(job, since, {chunk.index: chunk.chunk_id for chunk in chunks.values()})


def _covered(pieces: Sequence[tuple[int, int]], count: int) -> bool:
    at = 0
    for start, length in pieces:
        if start != at or length < 1:
            return False
        at += length
    return at == count


def _lists(job: Job, since: int, chunk_ids: dict[int, str]) -> list[str]:
    told = []
    for made in Checkpoint.objects.filter(job=job, round__gte=since).select_related("pass_order"):
        lists = chunk_lists(progress_from(made.progress_text), order_of(made.pass_order, len(chunk_ids)), chunk_ids)
        whole = [item for item in lists.remaining if item not in lists.work_items]
        cut = {str(part["sourceChunkId"]) for part in lists.work_items.values()}
        if sorted([*lists.trained, *whole, *cut]) != sorted(chunk_ids.values()):
            told.append(
                f"checkpoint {made.round}: {len(lists.trained)} chunks trained, {whole} and parts of {cut} remain"
            )
    return told


def seeds_are_derived(job: Job, since: int) -> list[str]:
    """I5: whoever has an item, and at whatever try, its seed follows from the job's; units are dealt once."""
    told = []
    experience = info_of(job).is_experience
    end = 0 if since == 0 else None
    slots = Slot.objects.filter(round__job=job, round__number__gte=since).select_related("round", "chunk")
    for slot in slots.order_by("unit_start" if experience else "id"):
        wanted = _seed(job, slot, experience)
        if slot.seed != wanted:
            told.append(f"{_item(slot)} of round {slot.round.number} has the seed {slot.seed}, not {wanted}")
        if experience and job.dataset is None:
            if end is not None and slot.unit_start != end:
                told.append(f"units {slot.unit_start} follow on {end} in round {slot.round.number}")
            end = (slot.unit_start or 0) + slot.record_count
    if experience and job.dataset is None and end is not None and end != job.next_unit:
        told.append(f"the next unit is {job.next_unit}, dealt were those up to {end}")
    return told


def _seed(job: Job, slot: Slot, experience: bool) -> str:
    """The formulas are written out here once more."""
    numbers = (slot.unit_start,) if experience else (slot.round.number, slot.chunk.index, slot.record_start)
    text = struct.pack(f"<{len(numbers) + 1}Q", seeds.parse_seed(job.job_seed, "job_seed"), *numbers)
    return str(int.from_bytes(hashlib.sha256(text).digest()[:8], "little"))


def same_updates_same_bits(job: Job, since: int, real: frozenset[str], again: Again | None) -> list[str]:
    """I6: every update of a ledger is made again and merged, last ones first; the same bits must come out."""
    told = []
    made = {c.round: c for c in Checkpoint.objects.filter(job=job, round__gte=since - 1)}
    for number, checkpoint in sorted(made.items()):
        before = made.get(number - 1)
        if before is None or number < since:
            continue
        ledger = _ledger(checkpoint)
        updates = []
        for slot in ledger["slots"]:
            if slot["peer"] in real:
                assert again is not None
                body = again(checkpoint, slot)
            else:
                body = update_of(before.weights_id, slot["item"], slot["seed"], job.weight_bytes)
            if (found := hashlib.sha256(body).hexdigest()) != slot["sha256"]:
                told.append(f"round {number}: {slot['item']} of peer {slot['peer'][:8]} trains to {found[:12]} again")
            updates.append(WeightedSource(BytesSource(body), slot["uniqueExamples"], _place(slot)))
        told += _merged_again(job, before, checkpoint, ledger, updates)
    return told


def _place(slot: dict[str, Any]) -> tuple[int, int]:
    return slot["position"], slot.get("recordStart", slot.get("unitStart", 0) if "chunkId" not in slot else 0)


def _merged_again(
    job: Job, before: Checkpoint, made: Checkpoint, ledger: dict[str, Any], updates: list[WeightedSource]
) -> list[str]:
    chosen = settings_in(job, json.dumps(ledger["settings"])).aggregation
    keeps = before.state if before.aggregation_method == chosen.method else None
    vectors = method_named(chosen.method).state_vectors
    weights_out, state_out = io.BytesIO(), io.BytesIO()
    result = merge(
        start=BytesSource(stored_bytes(before.weights)),
        updates=list(reversed(updates)),
        state=BytesSource(stored_bytes(keeps)) if keeps else None,
        step=before.aggregation_step + 1 if keeps else 1,
        method=chosen,
        average_only=info_of(job).average_only_ranges,
        weights_out=weights_out,
        state_out=state_out if vectors else None,
    )
    found, wanted = (result.weights_sha256, result.step), (made.weights_id, made.aggregation_step)
    if found != wanted:
        return [f"checkpoint {made.round} is {found[0][:12]} when its updates are merged again, not {wanted[0][:12]}"]
    return []


def receipts_are_kept(receipts: Iterable[Receipt]) -> list[str]:
    """I10: a 2xx'd update is in the ledger of its round's checkpoint, waits for the merge, or is discarded with a
    reason."""
    told = []
    wanted = {UUID(receipt.attempt): receipt.sha256 for receipt in receipts}
    found = {a.pk: a for a in Attempt.objects.filter(pk__in=wanted).select_related("slot__round")}
    done = [a.slot.round for a in found.values() if a.slot.round.state == Round.State.DONE]
    numbers = {(at.job_id, at.number) for at in done}
    made = Checkpoint.objects.filter(job__in={job for job, _ in numbers}, round__in={number for _, number in numbers})
    counted = {slot["attempt"]: slot["sha256"] for c in made for slot in _ledger(c).get("slots", ())}
    for pk, sha256 in wanted.items():
        attempt = found.get(pk)
        if attempt is None:
            told.append(f"the update of attempt {pk} was accepted, and there is no such attempt")
        elif attempt.state != Attempt.State.RECEIVED:
            if not attempt.reason:
                told.append(f"the accepted update of attempt {pk} is {attempt.state} without a reason")
        elif attempt.sha256 != sha256:
            told.append(f"attempt {pk} was accepted with {sha256[:12]} and holds {attempt.sha256[:12]}")
        elif attempt.slot.round.state == Round.State.DONE and counted.get(str(pk)) != sha256:
            told.append(
                f"the accepted update of attempt {pk} is not in the ledger of round {attempt.slot.round.number}"
            )
    return told


def _ledger(made: Checkpoint) -> dict[str, Any]:
    return json.loads(made.ledger_text)


def _item(slot: Slot) -> str:
    return f"unit {slot.unit_start}" if slot.chunk is None else f"{slot.chunk.chunk_id} from {slot.record_start}"


def _differences(found: Sequence[int], wanted: Sequence[int]) -> str:
    many, few = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    return f"too many {sorted(many.elements())[:10]}, missing {sorted(few.elements())[:10]}"
