"""Round 3: which updates count, and what the others are told."""

import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Checkpoint, JobArtifact
from checkpoints.services.artifacts import NewArtifact
from jobs.models import Attempt, Job, Round
from jobs.services import participants
from jobs.services.updates import attempt_failed, update_accept, update_precheck, update_refused
from tests.jobs.world import Participant, assert_invariants, hello, make_job, merge_due, start, trained, weights_of
from weei_core.errors import Conflict, Invalid, NotFound

pytestmark = [pytest.mark.django_db, pytest.mark.db]


@pytest.fixture
def two():
    """Two participants at work on c1 and c2 of a job of three chunks."""
    job = make_job(chunks=3)
    members = Participant(job), Participant(job)
    start(job)
    return job, *members


def counters(job):
    at = Round.objects.filter(job=job).latest("number")
    return at.live, at.received, at.state


def test_an_accepted_update_counts_once(two):
    job, a, b = two
    assert a.train() is False
    assert counters(job) == (1, 1, "open")
    assert JobArtifact.objects.filter(job=job, kind="update").count() == 1
    assert_invariants(job)


def test_the_same_bytes_again_answer_as_before(two):
    """C24, U1: a lost acknowledgement."""
    job, a, b = two
    assignment = a.assignment
    a.upload(assignment)
    assert a.upload(assignment) is True
    attempt_id = uuid.UUID(assignment["attemptId"])
    sha256 = Attempt.objects.get(pk=attempt_id).sha256
    assert update_precheck(peer=a.peer, attempt_id=attempt_id, length=16, sha256=sha256) is None
    assert counters(job) == (1, 1, "open")
    b.train()
    merge_due(job)
    assert a.upload(assignment) is True  # Also after the round was merged.
    assert_invariants(job)


def test_other_bytes_of_an_accepted_attempt_are_refused_and_the_first_kept(two):
    """C24, U2."""
    job, a, b = two
    assignment = a.assignment
    a.upload(assignment)
    with pytest.raises(Conflict) as refused:
        a.upload(assignment, weights=b"\0" * 16)
    assert refused.value.code == "already_received"
    with pytest.raises(Conflict):
        update_precheck(peer=a.peer, attempt_id=uuid.UUID(assignment["attemptId"]), length=16, sha256="0" * 64)
    b.train()
    merge_due(job)
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert len(ledger["slots"]) == 2
    assert_invariants(job)


@pytest.mark.parametrize(
    "names",
    [{"round": 2}, {"round": 4}, {"round": None}, {"round": "3"}, {"checkpoint": "0" * 64}],
    ids=["older", "newer", "none", "text", "another checkpoint"],
)
def test_an_update_for_another_round_or_checkpoint_changes_nothing(names):
    """C22, U3."""
    job = make_job(chunks=3)
    a = Participant(job)
    start(job)
    for _ in range(2):
        a.train()
        merge_due(job)
    with pytest.raises(Conflict) as refused:
        a.upload(a.assignment, **names)
    assert refused.value.code == "stale_attempt"
    assert refused.value.extra == {"round": 3, "checkpoint": a.assignment["weights"]["sha256"]}
    assert counters(job) == (1, 0, "open")
    assert not a.train()
    assert_invariants(job)


def test_what_became_of_an_attempt_while_its_bytes_came_decides(two):
    """They may come for minutes after the attempt was looked at; the refusal speaks of now."""
    job, a, b = two
    looked_at = update_precheck(peer=b.peer, attempt_id=b.attempt.pk, length=16, sha256="0" * 64)
    report = json.dumps({"round": 1, "examplesProcessed": 1, "uniqueExamples": 1, "metrics": {}})
    b.leave()
    a.train()
    merge_due(job)
    for status, next_round in (("running", 2), ("completed", None)):
        Job.objects.filter(pk=job.pk).update(status=status)
        with pytest.raises(Conflict) as refused:
            update_accept(
                peer=b.peer,
                attempt_id=looked_at.pk,
                artifact=NewArtifact("0" * 64, b"\0" * 16),
                report_text=report,
                prechecked=looked_at,
            )
        assert (refused.value.code, refused.value.extra["round"]) == ("stale_attempt", next_round)
        assert Attempt.objects.get(pk=looked_at.pk).state != Attempt.State.RECEIVED


def test_an_update_may_name_its_own_checkpoint(two):
    job, a, b = two
    assert a.upload(a.assignment, checkpoint=a.assignment["weights"]["sha256"]) is False


def test_the_attempt_of_an_earlier_round_is_refused_with_what_to_work_for(two):
    """C22: computed on old weights."""
    job, a, b = two
    old = b.assignment
    b.leave()
    a.train()
    merge_due(job)
    with pytest.raises(Conflict) as refused:
        b.upload(old)
    assert refused.value.code == "stale_attempt"
    latest = Checkpoint.objects.get(job=job, round=1)
    assert refused.value.extra == {"round": 2, "checkpoint": latest.weights_id}
    assert_invariants(job)


def test_attempts_of_others_do_not_exist_for_a_peer(two):
    """U4."""
    job, a, b = two
    with pytest.raises(NotFound):
        a.upload(b.assignment)
    with pytest.raises(NotFound):
        attempt_failed(peer=a.peer, attempt_id=uuid.UUID(b.assignment["attemptId"]), reason="x")
    assert counters(job) == (2, 0, "open")


@pytest.mark.parametrize("length", [12, 20, 17, 0])
def test_a_wrong_size_fails_the_attempt_with_both_sizes(two, length):
    """C18: the good update alone decides the round."""
    job, a, b = two
    good = trained(b.assignment)
    bad = a.attempt
    with pytest.raises(Invalid, match=f"has {length} bytes, the weights have 16") as refused:
        update_precheck(peer=a.peer, attempt_id=bad.pk, length=length, sha256="0" * 64)
    assert refused.value.code == "wrong_size"
    b.train()
    merge_due(job)
    assert weights_of(job, 1).tobytes() == good
    bad.refresh_from_db()
    bad.slot.refresh_from_db()
    assert (bad.state, bad.slot.status) == ("failed", "stopped")
    assert "has" in bad.slot.error
    assert a.item == "c1"  # The item is back, and first.
    assert_invariants(job)


def test_a_non_finite_update_fails_the_attempt_and_requeues_its_item(two):
    """C07: the bytes gate finds it (tests/checkpoints); here is what it means for the round."""
    job, a, b = two
    reason = Invalid("The update must hold finite float32 values only.", field="weights", code="non_finite")
    good = trained(b.assignment)
    slot = a.attempt.slot
    update_refused(peer=a.peer, attempt_id=a.attempt.pk, error=reason)
    b.train()
    merge_due(job)
    assert weights_of(job, 1).tobytes() == good
    slot.refresh_from_db()
    assert slot.error == reason.message
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert [(s["item"], s["reason"]) for s in ledger["discarded"]] == [("c1", reason.message)]
    assert_invariants(job)


@pytest.mark.parametrize("count", [10_000_000, 9, 0, -1, 4.5, True, "8", None])
def test_a_count_that_was_not_assigned_fails_the_attempt(two, count):
    """C21c, U8."""
    job, a, b = two
    attempt = a.attempt
    with pytest.raises(Invalid) as refused:
        a.train(uniqueExamples=count)
    assert (refused.value.code, refused.value.field) == ("invalid_report", "report.uniqueExamples")
    attempt.refresh_from_db()
    assert attempt.state == "failed"
    assert counters(job) == (1, 0, "open")
    assert_invariants(job)


def test_fewer_examples_than_assigned_weigh_what_they_are(two):
    """C21: 120 of 128; progress counts local epochs, the weight does not."""
    job, a, b = two
    a.train(uniqueExamples=6, examplesProcessed=24)
    b.train(uniqueExamples=2, examplesProcessed=8)
    merge_due(job)
    made = Checkpoint.objects.get(job=job, round=1)
    assert [s["uniqueExamples"] for s in json.loads(made.ledger_text)["slots"]] == [6, 2]
    assert made.examples_processed == 32


def test_undeclared_and_unusable_metrics_are_dropped_not_the_update(two):
    """C07, C17, U10."""
    job, a, b = two
    a.train(metrics={"loss": None, "secret": 1.0})
    b.train(metrics={"loss": 0.25})
    merge_due(job)
    made = Checkpoint.objects.get(job=job, round=1)
    assert json.loads(made.metrics_text) == {"loss": 0.25}
    assert "secret" not in made.ledger_text


@pytest.mark.parametrize(
    "metrics", [{f"m{i}": 1 for i in range(65)}, {"loss": "low"}, [], None], ids=["65", "text", "list", "null"]
)
def test_metrics_of_the_wrong_shape_fail_the_attempt(two, metrics):
    """U10."""
    job, a, b = two
    with pytest.raises(Invalid) as refused:
        a.train(metrics=metrics)
    assert refused.value.code == "invalid_report"
    assert counters(job)[0] == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"round":1,"round":1}', '{"round":NaN}', "\x00"])
def test_a_report_that_is_no_json_fails_the_attempt(two, text):
    job, a, b = two
    with pytest.raises(Invalid) as refused:
        update_accept(
            peer=a.peer, attempt_id=a.attempt.pk, artifact=NewArtifact("0" * 64, b"\0" * 16), report_text=text
        )
    assert refused.value.code == "invalid_report"
    assert counters(job) == (1, 0, "open")


def test_a_reload_gets_its_own_assignment_as_a_new_attempt(two):
    """Round 2: the old attempt's upload is refused, the round's counters do not change, the time goes on."""
    job, a, b = two
    before, deadline = a.assignment, a.attempt.deadline
    assert hello(a.peer)
    after = a.assignment
    assert after["attemptId"] != before["attemptId"]
    assert {k: v for k, v in after.items() if k not in ("attemptId", "secondsLeft")} == {
        k: v for k, v in before.items() if k not in ("attemptId", "secondsLeft")
    }
    assert a.attempt.deadline == deadline
    assert counters(job) == (2, 0, "open")
    with pytest.raises(Conflict, match="started again"):
        a.upload(before)
    a.train()
    b.train()
    merge_due(job)
    assert_invariants(job)


def test_a_peer_that_names_its_live_attempt_keeps_it(two):
    """A lost socket changes nothing."""
    job, a, b = two
    before = a.assignment
    assert hello(a.peer, attempt=uuid.UUID(before["attemptId"]), session=a.peer.session)
    assert a.assignment["attemptId"] == before["attemptId"]


def test_an_older_tab_may_not_train_any_more(two):
    """P8: newest tab wins, never two chunks for one peer."""
    job, a, b = two
    older = a.peer.session
    assert hello(a.peer)
    before = a.assignment
    assert not hello(a.peer, session=older, attempt=None)
    assert participants.peer_hello(a.peer, train=False, session=None, attempt_id=None, now=timezone.now())
    assert a.assignment["attemptId"] == before["attemptId"]
    assert Attempt.objects.filter(peer=a.peer, state="live").count() == 1


def test_exactly_one_of_two_owners_of_a_chunk_counts(two):
    """C30, P5: A's time is up, B gets its chunk, A's result comes first."""
    job, a, b = two
    late = a.assignment
    a.leave()
    c = Participant(job)
    assert c.item == "c1"
    with pytest.raises(Conflict):
        a.upload(late)
    c.train()
    b.train()
    merge_due(job)
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert [s["item"] for s in ledger["slots"]] == ["c1", "c2"]
    assert ledger["slots"][0]["peer"] == str(c.peer.pk)
    assert_invariants(job)


def test_leaving_after_the_update_was_accepted_keeps_it(two):
    """C26, O8: it counts once, its chunk is trained, the round does not wait."""
    job, a, b = two
    done = a.assignment
    a.train()
    a.leave()
    assert counters(job) == (1, 1, "open")
    b.train()
    merge_due(job)
    assert a.upload(done) is True
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert [s["item"] for s in ledger["slots"]] == ["c1", "c2"]
    assert b.item == "c3"
    assert_invariants(job)


def test_an_error_report_without_words_becomes_a_sentence(two):
    """C63."""
    job, a, b = two
    attempt = a.attempt
    a.fail("51885088")
    attempt.refresh_from_db()
    assert attempt.reason == 'Model toy failed in train without a reason in words; it gave "51885088".'
    attempt_failed(peer=a.peer, attempt_id=attempt.pk, reason="again")
    assert counters(job) == (1, 0, "open")


def test_odd_text_in_a_reason_is_stored_cleaned(two):
    """C86."""
    job, a, b = two
    attempt = a.attempt
    a.fail("out of\0 memory \ud800" + "x" * 1000)
    attempt.refresh_from_db()
    assert attempt.reason.startswith("out of\ufffd memory \ufffd")
    assert len(attempt.reason) == 500


def test_nothing_is_accepted_once_the_job_is_completed():
    job = make_job(chunks=1)
    a = Participant(job)
    start(job)
    done = a.assignment
    a.train()
    merge_due(job)
    assert job.status == Job.Status.COMPLETED
    assert a.upload(done) is True
    with pytest.raises(Conflict):
        a.upload(done, weights=b"\0" * 16)


def test_accepting_takes_few_statements(two):
    """No query in a loop: what an update costs does not depend on the number of participants."""
    job, a, b = two
    for _ in range(5):
        Participant(job)
    assignment = a.assignment
    with CaptureQueriesContext(connection) as queries:
        a.upload(assignment)
    assert len(queries) <= 16
