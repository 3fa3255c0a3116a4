"""Links: guessed, used up, forwarded, raced. Nothing of a job before its invitation is accepted. H4, H5, C84."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.models import Artifact
from peers.models import Invitation, Membership
from peers.services.tokens import token_hash
from tests.api.world import assert_problem, browser, link_of
from tests.jobs.world import make_job, owner
from weei_core import strict_json

pytestmark = [pytest.mark.django_db, pytest.mark.db]


@pytest.fixture
def job():
    return make_job(user=owner("alice"))


def open_link(peer, token):
    return peer.post("/api/v1/invitations/open", {"token": token})


def decide(peer, job, accepted=True):
    return peer.post("/api/v1/invitations/decide", {"jobId": str(job.pk), "accepted": accepted})


def dead_links(job):
    used, revoked, expired = (link_of(job) for _ in range(3))
    Invitation.objects.filter(token_hash=token_hash(used)).update(uses=1)
    Invitation.objects.filter(token_hash=token_hash(revoked)).update(revoked_at=timezone.now())
    Invitation.objects.filter(token_hash=token_hash(expired)).update(expires_at=timezone.now() - timedelta(seconds=1))
    ended = make_job(user=owner("alice"))
    of_ended = link_of(ended)
    type(ended).objects.filter(pk=ended.pk).update(status="completed")
    return {
        "used": used,
        "revoked": revoked,
        "expired": expired,
        "of a completed job": of_ended,
        "unknown": "x" * 43,
        "empty": "",
        "cut": used[:-1],
    }


def test_all_dead_links_answer_alike_to_the_byte(job):
    answers = {name: open_link(browser(), token) for name, token in dead_links(job).items()}
    for response in answers.values():
        assert_problem(response, 404, "invitation_invalid")
    assert len({response.content for response in answers.values()}) == 1
    assert len({tuple(sorted(response.headers.items())) for response in answers.values()}) == 1


def test_the_eleventh_wrong_guess_in_a_minute_waits_also_when_it_is_right(job):
    peer, token = browser(), link_of(job)
    for number in range(10):
        assert_problem(open_link(peer, f"guess-{number}"), 404, "invitation_invalid")
    refused = open_link(peer, "guess-11")
    assert_problem(refused, 429, "rate_limited")
    assert refused["Retry-After"] == "60"
    assert_problem(open_link(browser(), token), 429)


def test_uses_do_not_count_as_guesses(job):
    """A class behind one address opens the same link."""
    token = link_of(job, uses=30)
    assert {open_link(browser(), token).status_code for _ in range(30)} == {200}


def test_opening_uses_nothing_up_and_accepting_uses_one(job):
    token = link_of(job)
    first, second = browser(), browser()
    for peer in (first, first, second):
        assert open_link(peer, token).status_code == 200
    row = Invitation.objects.get(token_hash=token_hash(token))
    assert row.uses == 0
    assert decide(first, job).status_code == 200
    assert decide(first, job).status_code == 200
    row.refresh_from_db()
    assert row.uses == 1
    assert_problem(decide(second, job), 404, "invitation_invalid")
    assert Membership.objects.get(peer=second.peer).state == "invited"


def test_a_link_that_was_revoked_after_opening_is_not_accepted(job):
    peer, token = browser(), link_of(job)
    open_link(peer, token)
    Invitation.objects.update(revoked_at=timezone.now())
    assert_problem(decide(peer, job), 404, "invitation_invalid")


def test_nobody_accepts_without_having_opened_the_link(job):
    link_of(job)
    assert_problem(decide(browser(), job), 404, "not_found")


def test_only_the_hash_of_a_link_is_stored(job):
    token = link_of(job)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM peers_invitation")
        assert token not in str(cursor.fetchall())


def test_the_facts_of_an_invitation_are_the_listed_ones_and_hold_no_bytes_of_the_job(job):
    """H5: C82's pending invitee gets names, sizes and hashes only."""
    response = open_link(browser(), link_of(job))
    facts = strict_json.loads(response.content)
    assert set(facts) == {
        *("jobId", "jobName", "coordinator", "owner", "modelInfo", "module", "settings", "auxiliary", "data"),
        *("weightBytes", "requirements", "state"),
    }
    assert set(facts["module"]) == {"fileName", "bytes", "sha256"}
    assert facts["data"] == {
        "chunks": 4,
        "bytes": 32,
        "examples": 32,
        "largestChunkBytes": facts["data"]["largestChunkBytes"],
    }
    for artifact in Artifact.objects.all():
        assert bytes(artifact.body) not in response.content
        assert artifact.sha256 == job.module_id or artifact.sha256.encode() not in response.content


def test_an_invitee_is_told_no_assignment_and_no_job(job):
    peer = browser()
    open_link(peer, link_of(job))
    state = peer.get("/api/v1/peer/state").json()
    assert (state["job"], state["assignment"], state["invitations"]) == (None, None, [str(job.pk)])


@pytest.mark.django_db(transaction=True)
def test_twenty_that_race_for_a_one_use_link_are_one_participant(sent):
    """H4, C84: one conditional UPDATE decides, and all others are told politely."""
    job = make_job(user=owner("alice"))
    token = link_of(job)
    peers = [browser() for _ in range(20)]
    for peer in peers:
        assert open_link(peer, token).status_code == 200
    answers = []
    barrier = threading.Barrier(len(peers))

    def accept(peer):
        barrier.wait()
        try:
            answers.append(decide(peer, job).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=accept, args=[peer]) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers) == [200] + [404] * 19
    assert Membership.objects.filter(job=job, state="approved").count() == 1
    assert Invitation.objects.get().uses == 1


@pytest.mark.django_db(transaction=True)
def test_two_tabs_of_one_browser_that_accept_at_once_are_one_participant(sent):
    """C84: the database's constraints back it."""
    job = make_job(user=owner("alice"))
    peer = browser()
    open_link(peer, link_of(job, uses=5))
    answers = []
    barrier = threading.Barrier(8)

    def accept():
        barrier.wait()
        try:
            answers.append(decide(peer, job).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=accept) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(answers) == {200}
    assert Membership.objects.filter(job=job).count() == 1
    assert Invitation.objects.get().uses == 1
