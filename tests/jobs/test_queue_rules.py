"""The queue of a pass, rounds and states as plain rules: no database."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.domain.progress import Progress, chunk_lists, progress_from, trained_share
from jobs.domain.queue import Item, PassQueue, cut_items, deal, item_id, reshuffled
from jobs.domain.rounds import (
    After,
    Outcome,
    Position,
    Verdict,
    after_checkpoint,
    failed_deals_after,
    rounds_estimate,
    straggler_limit,
    validation_due,
    verdict,
)
from jobs.domain.states import ParticipantFacts, check_transition, participant_state
from weei_core.errors import Conflict


def queue(count, cursor=0, requeued=(), records=8):
    return PassQueue(range(count), cursor, tuple(requeued), lambda index: records)


def whole(position, records=8):
    return Item(position, position, 0, records)


def test_deals_requeued_items_first_lowest_place_first():
    dealt = deal(queue(6, 4, [whole(3), whole(1)]), 3, cut=False, max_parts=256)
    assert [item.position for item in dealt.items] == [1, 3, 4]
    assert (dealt.rest.cursor, dealt.rest.requeued) == (5, ())


def test_deals_fewer_items_at_the_end_of_the_pass():
    dealt = deal(queue(3, 2), 5, cut=False, max_parts=256)
    assert ([item.position for item in dealt.items], dealt.rest.left) == ([2], 0)


def test_cuts_the_largest_item_first_half_larger_until_there_is_one_each():
    items = cut_items([whole(0, 7)], 3, 256)
    assert [(i.record_start, i.record_count, i.whole) for i in items] == [(0, 2, False), (2, 2, False), (4, 3, False)]
    assert [item_id("c", item) for item in items] == ["c@0+2", "c@2+2", "c@4+3"]


def test_cuts_the_first_of_equals():
    items = cut_items([whole(0, 4), whole(1, 4)], 3, 256)
    assert [(i.position, i.record_start, i.record_count) for i in items] == [(0, 0, 2), (0, 2, 2), (1, 0, 4)]


def test_cuts_nothing_of_one_record_and_nothing_past_the_limit_of_parts():
    assert len(cut_items([whole(0, 1)], 3, 256)) == 1
    assert len(cut_items([whole(0, 100)], 50, 4)) == 4


def test_cut_leaves_what_is_not_wanted_in_the_queue():
    dealt = deal(queue(1, records=8), 3, cut=True, max_parts=256)
    assert [i.record_count for i in dealt.items] == [2, 2, 4]
    assert dealt.rest.cursor == 1


@given(st.integers(1, 6), st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_parts_cover_every_record_once(cursor, records, wanted):
    count = len(records)
    start = PassQueue(range(count), min(cursor, count - 1), (), lambda index: records[index])
    dealt = deal(start, wanted, cut=True, max_parts=256)
    items = [*dealt.items, *dealt.rest.requeued, *dealt.rest.undealt(count)]
    for index in range(start.cursor, count):
        mine = sorted((i.record_start, i.record_count) for i in items if i.chunk_index == index)
        ends = [first + n for first, n in mine]
        assert [first for first, _ in mine] == [0, *ends[:-1]]
        assert ends[-1] == records[index]


@given(st.integers(2, 30), st.data())
def test_shuffling_keeps_what_was_dealt_and_reorders_the_rest(count, data):
    cursor = data.draw(st.integers(0, count))
    new = list(range(count))
    random.Random(cursor).shuffle(new)
    found = reshuffled(range(count), cursor, new)
    assert found[:cursor] == list(range(cursor))
    assert sorted(found) == list(range(count))
    assert found[cursor:] == [index for index in new if index >= cursor]


def test_progress_text_is_read_back_as_it_was():
    progress = Progress(2, 5, (Item(1, 4, 3, 2, False), whole(0)))
    read = progress_from(progress.to_text())
    assert set(read.requeued) == set(progress.requeued)
    assert (read.pass_no, read.cursor) == (2, 5)


def test_a_cut_chunk_is_trained_with_its_last_part():
    ids = {0: "a", 1: "b", 2: "c"}
    progress = Progress(0, 2, (Item(0, 0, 4, 4, False),))
    lists = chunk_lists(progress, [0, 1, 2], ids)
    assert (lists.trained, lists.remaining) == (["b"], ["a@4+4", "c"])
    assert lists.work_items == {
        "a@4+4": {"partitionId": "a@4+4", "sourceChunkId": "a", "recordStart": 4, "recordCount": 4}
    }
    assert trained_share(progress, 3) == 1 / 3
    assert trained_share(Progress(0, 1, tuple(Item(0, 0, i, 1, False) for i in range(4))), 1) == 0


def test_verdict_of_a_round():
    assert verdict(live=1, received=3) == Verdict.WAIT
    assert verdict(live=0, received=1) == Verdict.CLOSE
    assert verdict(live=0, received=0) == Verdict.DEAL_AGAIN


@pytest.mark.parametrize(
    ("factor", "round_seconds", "own", "limit"),
    [
        (5, [10.0, 20.0, 30.0], [], 100),
        (5, [1.0], [], 30),
        (5, [10.0], [40.0, 60.0], 250),
        (0, [10.0], [10.0], None),
        (5, [], [10.0], None),
    ],
)
def test_straggler_limit(factor, round_seconds, own, limit):
    assert straggler_limit(factor=factor, floor=30, round_seconds=round_seconds, peer_seconds=own) == limit


def test_deals_that_failed_in_a_row():
    assert failed_deals_after(1, [Outcome.ERROR, Outcome.EMPTY]) == 2
    assert failed_deals_after(2, [Outcome.ERROR, Outcome.LOSS]) == 2
    assert failed_deals_after(2, [Outcome.RECEIVED, Outcome.ERROR]) == 0
    assert failed_deals_after(1, []) == 1


def test_what_follows_a_checkpoint():
    assert after_checkpoint(Position(0, 1, 3), finishing=False) == After.SAME_PASS
    assert after_checkpoint(Position(1, 0, 3), finishing=False) == After.NEXT_PASS
    assert after_checkpoint(Position(2, 0, 3), finishing=False) == After.COMPLETED
    assert after_checkpoint(Position(0, 5, 3), finishing=True) == After.COMPLETED


def test_estimate_of_rounds_is_none_without_participants():
    assert rounds_estimate(items_left=5, items_per_pass=5, passes_left=1, active=0, rounds_done=0) is None
    assert rounds_estimate(items_left=3, items_per_pass=5, passes_left=1, active=2, rounds_done=1) == 1 + 2 + 3


def due(**changes):
    facts = {
        "enabled": True, "unit": "round", "every": 2, "round_no": 3, "first": False, "last": False,
        "ends_pass": False, "passes": 1,
    }  # fmt: skip
    return validation_due(**{**facts, **changes})


def test_validation_is_due_by_round_by_pass_and_at_both_ends():
    """Round 6."""
    assert not due()
    assert due(round_no=4)
    assert due(first=True) and due(last=True)
    assert not due(enabled=False, first=True, last=True, round_no=4)
    assert due(unit="epoch", ends_pass=True, passes=2)
    assert not due(unit="epoch", ends_pass=True, passes=3)
    assert not due(unit="epoch", ends_pass=False, passes=2, round_no=4)


@pytest.mark.parametrize(("old", "new"), [("completed", "running"), ("ready", "paused"), ("paused", "paused")])
def test_refuses_transitions_that_do_not_exist(old, new):
    with pytest.raises(Conflict, match=f"The job is {old}"):
        check_transition(old, new)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"membership": "invited"}, "invited"),
        ({"membership": "declined"}, "declined"),
        ({"membership": "approved"}, "approved"),
        ({"membership": "modelLoadFailed", "connected": False}, "modelLoadFailed"),
        ({"membership": "modelLoaded"}, "modelLoaded"),
        ({"membership": "modelLoaded", "slot_status": "loading"}, "assigned"),
        ({"membership": "modelLoaded", "slot_status": "loading", "stage": "training"}, "training"),
        ({"membership": "modelLoaded", "slot_status": "training", "stage": "uploading"}, "updateReady"),
        ({"membership": "modelLoaded", "slot_status": "received"}, "resultReceived"),
        ({"membership": "modelLoaded", "slot_status": "stopped"}, "stopped"),
        ({"membership": "modelLoaded", "paused": True}, "stopped"),
        ({"membership": "modelLoaded", "connected": False}, "disconnected"),
        ({"membership": "modelLoaded", "heard_from": False}, "unknown"),
        ({"membership": "left"}, "disconnected"),
    ],
)
def test_participant_states(facts, state):
    defaults = {"connected": True, "heard_from": True, "paused": False}
    assert participant_state(ParticipantFacts(**{**defaults, **facts})) == state
