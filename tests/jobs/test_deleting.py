"""A deleted job is gone for everybody at once, comes back whole while it may, and is purged after that."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint
from checkpoints.selectors.storage import storage_inventory, storage_used
from checkpoints.services.collector import collect
from jobs.models import Attempt, Dataset, Job, JobEvent
from jobs.selectors.access import job_for_owner
from jobs.selectors.downloads import artifact_for_owner, artifact_for_peer, checkpoint_for_owner
from jobs.selectors.peer_state import peer_state
from jobs.services import lifecycle, participants
from jobs.services.deleting import job_discard, job_restore, jobs_purge
from peers.models import Membership
from peers.services.invitations import InvitationInvalid, invitation_create, invitation_for_token
from tests.jobs.world import Participant, make_job, merge_due, open_link, owner, run_to_end, start
from weei_core.errors import Conflict, NotFound

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def paused():
    """A job that was paused in its second round, while both participants trained."""
    job = make_job()
    members = [Participant(job), Participant(job)]
    start(job)
    for member in members:
        member.train()
    merge_due(job)
    lifecycle.job_pause(job)
    return job, members


def facts(job):
    """What of the job must be the same after an undo."""
    job.refresh_from_db()
    return {
        **{name: getattr(job, name) for name in ("name", "owner_id", "status", "round_no", "pass_no", "settings_text")},
        "checkpoints": list(Checkpoint.objects.filter(job=job).order_by("round").values_list("round", "weights")),
        "members": sorted(Membership.objects.filter(job=job).values_list("peer", "role", "current", "trains")),
        "storage": storage_inventory(job.owner_id),
    }


def later():
    return timezone.now() + settings.UNDO_DELETE + timedelta(seconds=1)


def test_a_deleted_job_is_gone_for_all_who_could_read_it():
    job, (a, b) = paused()
    user = job.owner
    _, link = invitation_create(job, uses=5)
    job_discard(job)
    readers = [
        lambda: job_for_owner(user, job.pk),
        lambda: artifact_for_owner(user_id=user.pk, job_id=job.pk, sha256=job.module_id),
        lambda: checkpoint_for_owner(user_id=user.pk, job_id=job.pk, round_number=0),
        lambda: artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=job.module_id),
        lambda: participants.membership_of(a.peer, job.pk),
        lambda: participants.job_open(job, b.peer),
    ]
    for read in readers:
        with pytest.raises(NotFound):
            read()
    with pytest.raises(InvitationInvalid):
        invitation_for_token(link.rstrip("/").rsplit("/", 1)[-1], timezone.now())
    state = peer_state(a.peer, timezone.now())
    assert (state["job"], state["assignment"], state["invitations"]) == (None, None, [])
    assert storage_used(user.pk) == 0
    assert storage_inventory(user.pk).jobs == []


def test_work_under_way_ends_with_the_job():
    job, (a, b) = paused()
    lifecycle.job_resume(job)
    assert a.assignment and b.assignment
    lifecycle.job_pause(job)
    job_discard(job)
    assert not Attempt.objects.filter(slot__round__job=job, state=Attempt.State.LIVE).exists()


def test_an_undo_brings_everything_back_and_the_job_goes_on():
    job, members = paused()
    before = facts(job)
    job_discard(job)
    job_restore(before["owner_id"], job.pk)
    assert facts(job) == before
    said = list(JobEvent.objects.filter(job=job, event__startswith="job.").values_list("event", flat=True))
    assert said[-2:] == ["job.deleted", "job.restored"]
    lifecycle.job_resume(job)
    for member in members:
        member.ready()
    run_to_end(job, members)
    assert (job.status, job.incomplete) == (Job.Status.COMPLETED, False)


def test_whoever_went_on_to_another_job_stays_there():
    job, (a, b) = paused()
    job_discard(job)
    other = make_job(user=owner("bob"))
    open_link(a.peer, other)
    participants.invitation_decide(a.peer, other.pk, True, timezone.now())
    job_restore(owner().pk, job.pk)
    assert Membership.objects.get(peer=a.peer, current=True).job_id == other.pk
    assert Membership.objects.get(peer=a.peer, job=job).state == Membership.State.LEFT
    assert Membership.objects.get(peer=b.peer, job=job).current


def test_an_undo_is_for_the_one_who_deleted_and_only_for_what_is_deleted():
    job, _ = paused()
    with pytest.raises(NotFound):
        job_restore(owner().pk, job.pk)
    job_discard(job)
    for user, job_id in ((owner("mallory"), job.pk), (owner(), uuid4())):
        with pytest.raises(NotFound):
            job_restore(user.pk, job_id)


def test_a_job_is_deleted_once_and_never_while_it_runs():
    job, _ = paused()
    lifecycle.job_resume(job)
    with pytest.raises(Conflict, match="Pause or finish"):
        job_discard(job)
    lifecycle.job_pause(job)
    job_discard(job)
    with pytest.raises(NotFound):
        job_discard(job)


def test_commands_of_a_page_that_was_open_before_do_nothing():
    job, _ = paused()
    job_discard(Job.objects.get(pk=job.pk))
    with pytest.raises(Conflict):
        lifecycle.job_resume(job)
    lifecycle.job_finish(job)
    assert Job.objects.get(pk=job.pk).status == Job.Status.PAUSED


def test_the_purge_waits_for_the_undo_and_then_frees_the_files():
    job, _ = paused()
    job_discard(job)
    jobs_purge(timezone.now())
    assert Job.objects.filter(pk=job.pk).exists()
    jobs_purge(later())
    assert not Job.objects.exists() and not Dataset.objects.exists()
    with pytest.raises(NotFound):
        job_restore(owner().pk, job.pk)
    collect(timezone.now() + timedelta(days=2))
    assert not Artifact.objects.filter(state=Artifact.State.PRESENT).exists()


def test_the_collector_keeps_the_files_of_a_deleted_job():
    job, _ = paused()
    job_discard(job)
    collect(timezone.now() + timedelta(days=2))
    job_restore(owner().pk, job.pk)
    assert artifact_for_owner(user_id=owner().pk, job_id=job.pk, sha256=job.module_id).artifact.bytes > 0
