"""Each invariant holds in a job that went well, and is seen to be violated when a row or a byte is changed."""

import hashlib
import json

import numpy as np
import pytest
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint
from checkpoints.services.artifacts import artifact_put_bytes
from jobs.models import Attempt, Job, Requeued, Round, Slot
from jobs.services.settling import attempt_end
from tests.chaos.invariants import Receipt, check
from tests.jobs.world import Participant, make_experience_job, make_job, merge_due, start
from tests.load.updates import update_of

pytestmark = [pytest.mark.django_db, pytest.mark.db]

FEDAVGM = {"method": "fedavgm", "serverLearningRate": 0.5, "momentum": 0.5}


class World:
    """Three rounds that are done, an attempt that was discarded, and a round of which one update has come."""

    def __init__(self, job):
        self.job, self.receipts = job, []
        members = [Participant(job) for _ in range(3)]
        start(job)
        last, *others = members
        attempt_end(last.attempt.pk, state=Attempt.State.EXPIRED, reason="It was not heard from.", now=timezone.now())
        for _ in range(3):
            for member in members:
                self._train(member)
            merge_due(job)
        self._train(others[0])

    def _train(self, member):
        if (told := member.assignment) is not None:
            body = update_of(told["weights"]["sha256"], told["chunkId"], told["seed"], told["weights"]["bytes"])
            member.upload(told, weights=body)
            self.receipts.append(Receipt(told["attemptId"], hashlib.sha256(body).hexdigest()))

    def check(self, since=0):
        return check([self.job.pk], {self.job.pk: since}, self.receipts)

    def violated(self, since=0):
        return {name: found for name, found in self.check(since).items() if found}

    def checkpoint(self, number):
        return Checkpoint.objects.get(job=self.job, round=number)

    def round(self, number):
        return Round.objects.filter(job=self.job, number=number)

    def slots(self, number):
        return Slot.objects.filter(round__job=self.job, round__number=number, status=Slot.Status.RECEIVED)

    def received(self, number):
        return Attempt.objects.filter(slot__in=self.slots(number), state=Attempt.State.RECEIVED)

    def ledger(self, number, change):
        found = json.loads(self.checkpoint(number).ledger_text)
        change(found)
        Checkpoint.objects.filter(job=self.job, round=number).update(ledger_text=json.dumps(found))

    def weights(self, number, body):
        put = artifact_put_bytes(body, timezone.now())
        Checkpoint.objects.filter(job=self.job, round=number).update(weights=put)


@pytest.fixture
def world():
    return World(make_job(chunks=5, epochs=9, aggregation=FEDAVGM, capabilities={"recordRanges": True}))


@pytest.fixture
def played():
    return World(make_experience_job(epochs=9))


@pytest.mark.parametrize("kind", ["world", "played"])
@pytest.mark.parametrize("since", [0, 2])
def test_all_hold_in_a_job_that_went_well(request, kind, since):
    found = request.getfixturevalue(kind)
    assert found.job.round_no == 4 and found.receipts
    assert found.violated(since) == {}
    assert sorted(found.check()) == ["I1", "I10", "I2", "I3", "I4", "I5", "I6"]


def lose_a_checkpoint(world):
    world.checkpoint(2).delete()


def forget_that_a_round_is_done(world):
    world.round(2).update(state=Round.State.FAILED)


def flip_a_stored_bit(world):
    artifact = world.checkpoint(3).weights
    body = bytearray(artifact.body)
    body[0] ^= 1
    Artifact.objects.filter(pk=artifact.pk).update(body=bytes(body))


def store_what_is_not_finite(world):
    world.weights(3, np.array([np.nan, 0, 0, 0], "<f4").tobytes())


def store_too_few_bytes(world):
    world.weights(3, bytes(12))


def start_on_another_checkpoint(world):
    world.round(3).update(start_weights=world.checkpoint(1).weights_id)


def count_one_more(world):
    world.round(4).update(received=2)


def accept_a_slot_twice(world):
    one = world.received(3).first()
    Attempt.objects.create(
        slot=one.slot,
        peer=one.peer,
        state=Attempt.State.RECEIVED,
        started_at=one.started_at,
        deadline=one.deadline,
        sha256=one.sha256,
        unique_examples=one.unique_examples,
    )


def leave_an_update_out_of_the_ledger(world):
    world.ledger(3, lambda ledger: ledger["slots"].pop())


def work_on_a_closed_round(world):
    live = Attempt.objects.filter(state=Attempt.State.LIVE, slot__round__number=4).first()
    Attempt.objects.filter(pk=live.pk).update(slot=world.slots(3).first())


def lose_records(world):
    slot = world.slots(3).first()
    Slot.objects.filter(pk=slot.pk).update(record_count=slot.record_count - 1)


def queue_a_trained_item_again(world):
    at = world.round(4).get()
    slot = Slot.objects.filter(round__pass_no=at.pass_no, status=Slot.Status.RECEIVED).first()
    Requeued.objects.create(
        job=world.job,
        position=slot.position,
        chunk_index=slot.chunk.index,
        record_start=slot.record_start,
        record_count=slot.record_count,
    )


def list_a_chunk_twice(world):
    item = '{"pass":0,"cursor":0,"requeued":[[0,0,0,8,1]]}'
    Checkpoint.objects.filter(job=world.job, round=3).update(progress_text=item)


def change_a_seed(world):
    Slot.objects.filter(pk=world.slots(3).first().pk).update(seed="12345")


def merge_something_else(world):
    body = bytearray(world.checkpoint(3).weights.body)
    body[0] ^= 1
    world.weights(3, bytes(body))
    world.round(4).update(start_weights=world.checkpoint(3).weights_id)


def train_something_else(world):
    one = world.received(3).first()
    world.received(3).filter(pk=one.pk).update(sha256="0" * 64)
    for receipt in [receipt for receipt in world.receipts if receipt.attempt == str(one.pk)]:
        world.receipts.remove(receipt)

    def change(ledger):
        next(slot for slot in ledger["slots"] if slot["attempt"] == str(one.pk))["sha256"] = "0" * 64

    world.ledger(3, change)


def forget_an_attempt(world):
    Attempt.objects.filter(pk=world.receipts[-1].attempt).delete()


def hold_other_bytes(world):
    Attempt.objects.filter(pk=world.receipts[-1].attempt).update(sha256="0" * 64)


def discard_without_a_reason(world):
    Attempt.objects.filter(pk=world.receipts[-1].attempt).update(state=Attempt.State.EXPIRED)


def leave_a_receipt_out_of_the_ledger(world):
    one = world.received(3).first()
    world.ledger(3, lambda ledger: ledger.update(slots=[s for s in ledger["slots"] if s["attempt"] != str(one.pk)]))


CHANGES = {
    lose_a_checkpoint: ("I1", "missing [2]"),
    forget_that_a_round_is_done: ("I1", "missing [2]"),
    flip_a_stored_bit: ("I2", "have the hash"),
    store_what_is_not_finite: ("I2", "not finite"),
    store_too_few_bytes: ("I2", "12 bytes"),
    start_on_another_checkpoint: ("I3", "not on the checkpoint before it"),
    count_one_more: ("I3", "its rows are"),
    accept_a_slot_twice: ("I3", "two accepted updates"),
    leave_an_update_out_of_the_ledger: ("I3", "does not hold"),
    work_on_a_closed_round: ("I3", "live attempts"),
    lose_records: ("I4", "records there are"),
    queue_a_trained_item_again: ("I4", "records there are"),
    list_a_chunk_twice: ("I4", "remain"),
    change_a_seed: ("I5", "has the seed 12345"),
    merge_something_else: ("I6", "merged again"),
    train_something_else: ("I6", "trains to"),
    forget_an_attempt: ("I10", "there is no such attempt"),
    hold_other_bytes: ("I10", "holds 000000000000"),
    discard_without_a_reason: ("I10", "without a reason"),
    leave_a_receipt_out_of_the_ledger: ("I10", "not in the ledger"),
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_row_or_byte_violates_its_invariant(world, change):
    name, words = CHANGES[change]
    change(world)
    assert any(words in sentence for sentence in world.violated()[name]), world.violated()


def skip_units(world):
    last = Slot.objects.filter(round__job=world.job).order_by("unit_start").last()
    Slot.objects.filter(pk=last.pk).update(unit_start=last.unit_start + 1)


def forget_what_was_dealt(world):
    Job.objects.filter(pk=world.job.pk).update(next_unit=1)


@pytest.mark.parametrize("change, words", [(skip_units, "follow on"), (forget_what_was_dealt, "the next unit is 1")])
def test_units_are_dealt_once_and_without_a_gap(played, change, words):
    """I5."""
    change(played)
    assert any(words in sentence for sentence in played.violated()["I5"])


def test_what_was_checked_before_is_not_looked_at_again(world):
    lose_records(world)
    change_a_seed(world)
    assert {"I4", "I5"} <= set(world.violated(3)) and "I5" not in world.violated(4)
