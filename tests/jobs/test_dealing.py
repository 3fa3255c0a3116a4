"""Round 1 and 2: who gets which item, when, and what an assignment is."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.models import Attempt, Job, Round, Slot
from jobs.selectors.peer_state import peer_state
from jobs.services import participants, sweeping
from jobs.services.dealing import deal_open_round
from jobs.services.lifecycle import job_update_settings
from peers.models import Membership
from peers.services.tokens import peer_create
from tests.jobs.world import (
    Participant,
    assert_invariants,
    make_job,
    merge_due,
    open_link,
    received_items,
    run_to_end,
    start,
)
from weei_core import seeds

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def test_deals_in_queue_order_to_participants_in_order_of_acceptance_one_item_each():
    job = make_job(chunks=5)
    members = [Participant(job) for _ in range(3)]
    start(job)
    assert [m.item for m in members] == ["c1", "c2", "c3"]
    assert (job.round_no, job.cursor) == (1, 3)
    for member in reversed(members):
        member.train()
    merge_due(job)
    assert [m.item for m in members] == ["c4", "c5", None]
    assert_invariants(job)


def test_gives_nothing_to_whoever_is_not_active():
    """Active: accepted, module loaded, lease valid, not paused. An open socket is not needed."""
    job = make_job(chunks=9)
    unready, paused, away, stopped, active = (Participant(job, ready=i > 0) for i in range(5))
    invited, _ = peer_create()
    open_link(invited, job)
    declined, _ = peer_create()
    open_link(declined, job)
    participants.invitation_decide(declined, job.pk, False, timezone.now())
    participants.participant_pause_self(paused.peer, job.pk, True)
    participants.participant_pause(job, stopped.peer.pk, True)
    away.lost()
    old_files = Participant(job)
    Membership.objects.filter(peer=old_files.peer).update(ready_for="of another module")
    start(job)
    assert list(Slot.objects.values_list("peer", flat=True)) == [active.peer.pk]
    assert unready.item is None


def test_late_joiner_gets_an_item_that_is_left_with_the_checkpoint_of_the_round_at_work():
    """C28."""
    job = make_job(chunks=5, epochs=2)
    first, second = Participant(job), Participant(job)
    start(job)
    first.train()
    second.train()
    merge_due(job)
    late = Participant(job)
    assert late.item == "c5"
    assignment = late.assignment
    at = Round.objects.get(job=job, number=2)
    assert (assignment["round"], assignment["weights"]["sha256"]) == (2, at.start_weights)
    assert assignment["weights"] == first.assignment["weights"]
    assert at.live == 3
    assert_invariants(job)


def test_late_joiner_waits_visibly_when_the_round_has_nothing_left():
    """C28: never older weights."""
    job = make_job(chunks=2, epochs=2)
    members = [Participant(job), Participant(job)]
    start(job)
    late = Participant(job)
    assert late.item is None
    state = peer_state(late.peer, timezone.now())
    assert state["job"]["waitingFor"] == "Waiting for round 2: round 1 has no work left to give."
    for member in members:
        member.train()
    merge_due(job)
    assert late.item is None  # Two chunks, two earlier participants: acceptance decides.
    members[0].leave()
    assert late.assignment["round"] == 2


def test_whoever_had_a_slot_in_the_deal_gets_no_second_one():
    """A lost item waits for a late joiner or the next round, not for a participant that has finished."""
    job = make_job(chunks=3)
    first, second = Participant(job), Participant(job)
    start(job)
    first.train()
    third = Participant(job)
    assert third.item == "c3"
    second.leave()
    deal_open_round(job.pk, timezone.now())
    assert first.item is None
    late = Participant(job)
    assert late.item == "c2"
    late.train()
    third.train()
    merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert_invariants(job)


def test_lost_items_go_to_the_front_in_their_original_order():
    """Round 4."""
    job = make_job(chunks=6)
    a, b, c = (Participant(job) for _ in range(3))
    start(job)
    c.leave()
    b.leave()
    a.train()
    merge_due(job)
    more = Participant(job), Participant(job)
    assert [a.item, more[0].item, more[1].item] == ["c2", "c3", "c4"]
    assert_invariants(job)


def test_a_round_never_mixes_passes():
    job = make_job(chunks=3, epochs=2)
    members = [Participant(job), Participant(job)]
    start(job)
    run_to_end(job, members)
    shapes = [(r.pass_no, r.slots.count()) for r in Round.objects.filter(job=job)]
    assert shapes == [(0, 2), (0, 1), (1, 2), (1, 1)]
    assert received_items(job) == {0: ["c1", "c2", "c3"], 1: ["c1", "c2", "c3"]}


def test_an_assignment_is_a_function_of_what_it_names():
    """Round 2, I5: the same job in another place gives the same assignments, but for the names of its rows."""
    found = []
    for _ in range(2):
        job = make_job(chunks=2, seed="18446744073709551615", learningRate=0.1)
        member = Participant(job)
        start(job)
        assignment = member.assignment
        for name in ("attemptId", "assignmentId", "jobId", "moduleSha256", "data"):
            assignment.pop(name)
        found.append(assignment)
    assert found[0] == found[1]
    assert found[0]["seed"] == str(seeds.dataset_seed(2**64 - 1, 1, 0, 0))
    assert found[0]["settings"] == '{"localEpochs":1,"batchSize":1,"learningRate":0.1}'
    assert (found[0]["split"], found[0]["backend"]) == (1, "cpu-wasm")


def test_another_try_of_an_item_in_the_same_round_has_the_same_seed():
    job = make_job(chunks=1)
    first = Participant(job)
    start(job)
    seed = first.assignment["seed"]
    first.leave()
    second = Participant(job)
    assert (second.item, second.assignment["seed"], second.assignment["round"]) == ("c1", seed, 1)
    assert_invariants(job)


def test_settings_of_a_round_are_those_of_its_start():
    job = make_job(chunks=3, learningRate=0.5)
    member = Participant(job)
    start(job)
    job_update_settings(job, {"learningRate": 0.25, "batchSize": 2})
    assert '"learningRate":0.5' in member.assignment["settings"]
    late = Participant(job)
    assert '"learningRate":0.5' in late.assignment["settings"]
    member.train()
    late.train()
    merge_due(job)
    assert member.assignment["settings"] == '{"localEpochs":1,"batchSize":2,"learningRate":0.25}'


def test_a_returning_participant_is_dealt_to_by_the_next_sweep():
    """A heartbeat alone brings it back; nothing else has to happen."""
    job = make_job(chunks=2)
    member = Participant(job)
    away = Participant(job)
    away.lost()
    start(job)
    assert (member.item, away.item) == ("c1", None)
    away.seen(timezone.now())
    sweeping.queue_due(timezone.now())
    assert away.item == "c2"


def test_dealing_takes_as_many_statements_for_many_as_for_few():
    """No query in a loop."""
    counts = []
    for size in (2, 9):
        job = make_job(chunks=20)
        for _ in range(size):
            Participant(job)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            start(job)
        assert Attempt.objects.filter(slot__round__job=job).count() == size
        counts.append(len(queries))
    assert counts[0] == counts[1] < 30


def test_peer_state_takes_few_statements_whatever_the_number_of_participants():
    job = make_job(chunks=20)
    members = [Participant(job) for _ in range(6)]
    start(job)
    with CaptureQueriesContext(connection) as queries:
        peer_state(members[0].peer, timezone.now())
    assert len(queries) <= 9
