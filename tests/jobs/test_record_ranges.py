"""Record ranges: chunks are cut when there are fewer items than participants."""

import json

import pytest
from django.utils.timezone import now

from checkpoints.models import Checkpoint
from jobs.models import Job, Requeued, Slot
from jobs.services.dealing import deal_open_round
from tests.jobs.world import (
    Participant,
    assert_invariants,
    checkpoint_lists,
    make_job,
    merge_due,
    run_to_end,
    start,
)
from weei_core import seeds

pytestmark = [pytest.mark.django_db, pytest.mark.db]
RANGES = {"recordRanges": True}


def test_cuts_the_largest_item_until_everybody_has_one():
    job = make_job(chunks=2, records=[6, 9], capabilities=RANGES)
    members = [Participant(job) for _ in range(4)]
    start(job)
    # 9 is cut into 5 and 4, then 6 into 3 and 3.
    assert [m.item for m in members] == ["c1@0+3", "c1@3+3", "c2@0+5", "c2@5+4"]
    data = members[1].assignment["data"]
    assert (data["recordStart"], data["recordCount"]) == (3, 3)
    assert members[1].assignment["exampleCount"] == 3
    assert_invariants(job)


def test_cuts_nothing_without_the_capability():
    job = make_job(chunks=1)
    members = [Participant(job), Participant(job)]
    start(job)
    assert [m.item for m in members] == ["c1", None]
    assert "recordStart" not in members[0].assignment["data"]


def test_cuts_nothing_of_one_record():
    job = make_job(chunks=1, records=2, capabilities=RANGES)
    members = [Participant(job) for _ in range(3)]
    start(job)
    assert [m.item for m in members] == ["c1@0+1", "c1@1+1", None]


def test_cuts_nothing_while_256_parts_are_open(settings):
    settings.MAX_PARTS = 2
    job = make_job(chunks=1, records=100, capabilities=RANGES)
    members = [Participant(job) for _ in range(4)]
    start(job)
    assert [m.item for m in members] == ["c1@0+50", "c1@50+50", None, None]


def test_a_late_joiner_gets_an_item_as_it_is():
    """Items are cut at the start of a deal only."""
    job = make_job(chunks=2, records=8, capabilities=RANGES)
    first, late, later = (Participant(job) for _ in range(3))
    late.lost()
    later.lost()
    start(job)
    late.seen(now())
    later.seen(now())
    deal_open_round(job.pk, now())
    assert [first.item, late.item, later.item] == ["c1", "c2", None]


def test_a_part_has_a_seed_of_its_own_and_a_whole_chunk_that_of_record_zero():
    job = make_job(chunks=1, records=8, capabilities=RANGES, seed="9")
    first, second = Participant(job), Participant(job)
    start(job)
    assert first.assignment["seed"] == str(seeds.dataset_seed(9, 1, 0, 0))
    assert second.assignment["seed"] == str(seeds.dataset_seed(9, 1, 0, 4))


def test_a_cut_chunk_remains_until_its_last_part_is_trained():
    job = make_job(chunks=2, records=8, capabilities=RANGES)
    members = [Participant(job) for _ in range(3)]
    start(job)
    assert [m.item for m in members] == ["c1@0+4", "c1@4+4", "c2"]
    members[0].train()
    members[1].leave()
    members[2].train()
    merge_due(job)
    lists = checkpoint_lists(Checkpoint.objects.select_related("job__dataset").get(job=job, round=1))
    assert (lists.trained, lists.remaining) == (["c2"], ["c1@4+4"])
    assert list(lists.work_items) == ["c1@4+4"]
    assert Checkpoint.objects.get(job=job, round=1).dataset_progress == 0.5
    assert_invariants(job)
    run_to_end(job, [members[0], members[2]])
    last = Checkpoint.objects.select_related("job__dataset").filter(job=job).last()
    assert sorted(checkpoint_lists(last).trained) == ["c1", "c2"]
    assert last.dataset_progress == 1


def test_parts_are_never_joined_and_cut_again_where_there_are_more_participants():
    job = make_job(chunks=1, records=8, capabilities=RANGES)
    a, b = Participant(job), Participant(job)
    start(job)
    a.train()
    b.leave()
    merge_due(job)
    assert a.item == "c1@4+4"
    a.leave()
    assert Requeued.objects.get(job=job).record_start == 4
    c = Participant(job)
    assert c.item == "c1@4+4"
    d = Participant(job)
    assert d.item is None
    assert_invariants(job)
    c.leave()
    Participant(job)
    assert d.item == "c1@4+4"


def test_progress_is_never_negative_while_a_chunk_is_cut():
    job = make_job(chunks=1, records=64, capabilities=RANGES, epochs=2)
    members = [Participant(job) for _ in range(8)]
    start(job)
    members[0].train()
    for member in members[1:]:
        member.leave()
    merge_due(job)
    made = Checkpoint.objects.get(job=job, round=1)
    assert (made.dataset_epoch, made.dataset_progress, made.remaining_items) == (0, 0.0, 7)


def test_the_merge_takes_parts_in_the_order_of_their_records():
    job = make_job(chunks=1, records=8, capabilities=RANGES)
    members = [Participant(job) for _ in range(4)]
    start(job)
    for member in reversed(members):
        member.train()
    merge_due(job)
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert [slot["item"] for slot in ledger["slots"]] == ["c1@0+2", "c1@2+2", "c1@4+2", "c1@6+2"]
    assert [slot["recordStart"] for slot in ledger["slots"]] == [0, 2, 4, 6]
    assert job.status == Job.Status.COMPLETED


def test_the_next_pass_begins_with_whole_chunks():
    job = make_job(chunks=1, records=8, capabilities=RANGES, epochs=2)
    a, b = Participant(job), Participant(job)
    start(job)
    a.train()
    b.train()
    b.leave()
    merge_due(job)
    assert a.item == "c1"
    assert Slot.objects.filter(round__number=2, whole=True).count() == 1
    a.train()
    merge_due(job)
    assert_invariants(job)
