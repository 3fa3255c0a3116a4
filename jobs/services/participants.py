"""Who takes part in a job: opening links, accepting, loading, pausing, leaving, and coordinators' devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from checkpoints.services.rows import only_row
from jobs.models import Attempt, Job, Round, Slot
from jobs.services.auxiliary import file_slots
from jobs.services.dealing import attempt_row, deal_open_round
from jobs.services.events import job_event
from jobs.services.settling import attempt_end
from jobs.services.texts import info_of, settings_of
from peers.models import Membership, Peer
from peers.outbox import hint_job, hint_peers, tell_cut_off, tell_replaced
from peers.services.invitations import InvitationInvalid, invitation_for_token, invitation_use
from peers.services.presence import peer_seen, session_take
from weei_core.errors import Conflict, NotFound
from weei_core.results import module_error_text

State = Membership.State
TAKES_PART = (State.APPROVED, State.MODEL_LOADED, State.MODEL_LOAD_FAILED)
OUTSIDE = (State.INVITED, State.DECLINED, State.LEFT, State.REMOVED)


def membership_of(peer: Peer, job_id: UUID) -> Membership:
    """The peer's own part in a job; a job it was never invited to does not exist for it."""
    found = only_row(Membership.objects.select_related("job", "peer", "invitation").filter(peer=peer, job_id=job_id))
    if found is None or found.job.deleted_at is not None:
        raise NotFound("This browser has no part in that job.", field="jobId")
    return found


def invitation_open(peer: Peer, token: str, now: datetime) -> Job:
    """Opening a link puts the job among the peer's invitations and uses nothing up."""
    invitation = invitation_for_token(token, now)
    if invitation.job.status == Job.Status.COMPLETED:
        raise InvitationInvalid
    _invite(peer, invitation.job, invitation_id=invitation.pk)
    return invitation.job


def participant_invite(job: Job, peer_id: UUID) -> None:
    """Put the job among this peer's invitations (a peer that is known to the coordinator)."""
    peer = Peer.objects.filter(pk=peer_id, memberships__job__owner=job.owner_id).distinct().first()
    if peer is None:
        raise NotFound("No such participant has opened one of your invitation links.", field="peerId")
    _invite(peer, job, invitation_id=None)


def _invite(peer: Peer, job: Job, invitation_id: UUID | None) -> None:
    with transaction.atomic():
        membership, created = Membership.objects.get_or_create(
            peer=peer, job=job, defaults={"invitation_id": invitation_id}
        )
        if not created:
            # Removed by the coordinator: only a link that is valid now, or an invitation by name, lets it in again.
            mine = Membership.objects.filter(pk=membership.pk, accepted_link=False)
            mine.filter(state__in=OUTSIDE).update(state=State.INVITED)
            mine.update(invitation_id=invitation_id)
        hint_peers([peer.pk])
        hint_job(job.pk, "participants")


def invitation_decide(peer: Peer, job_id: UUID, accepted: bool, now: datetime) -> Membership:
    """Accept or decline. One outcome: the second request is told what the first one was."""
    membership = membership_of(peer, job_id)
    job = membership.job
    own_device = membership.role == Membership.Role.COORDINATOR and membership.current
    if membership.state in TAKES_PART and not (
        own_device and not membership.accepted_link and membership.invitation_id
    ):
        if accepted:
            return membership
        raise Conflict("The invitation was accepted before; leave the job instead.", field="accepted", code="decided")
    if not accepted:
        _decline(membership)
        return membership
    if job.status == Job.Status.COMPLETED:
        raise Conflict("The job has ended.", field="jobId", code="job_ended")
    if membership.state not in (State.INVITED, *TAKES_PART):
        raise Conflict("The invitation was declined or withdrawn; open the link again.", field="jobId", code="decided")
    _refuse_second_job(peer, job_id)
    _accept(membership, now)
    membership.refresh_from_db()
    if membership.state not in TAKES_PART or not membership.current:
        raise Conflict("The invitation was declined or withdrawn; open the link again.", field="jobId", code="decided")
    return membership


def _decline(membership: Membership) -> None:
    moved = Membership.objects.filter(pk=membership.pk, state=State.INVITED).update(state=State.DECLINED)
    membership.refresh_from_db()
    if not moved and membership.state != State.DECLINED:
        raise Conflict("The invitation was decided before.", field="accepted", code="decided")
    hint_job(membership.job_id, "participants", "invitations")


def _accept(membership: Membership, now: datetime) -> None:
    """One outcome under races: whoever comes second finds the first one's. A use of the link is counted once."""
    invited = membership.state == State.INVITED
    pending = Membership.objects.filter(pk=membership.pk, accepted_link=False)
    pending = pending.filter(state__in=[State.INVITED] if invited else TAKES_PART)
    with _one_current_job(), transaction.atomic():
        moved = pending.update(
            **({"state": State.APPROVED} if invited else {}),
            current=True,
            trains=True,
            accepted_link=True,
            accepted_at=membership.accepted_at or now,
            paused_by_peer=False,
            paused_by_coordinator=False,
        )
        if not moved:
            return
        if membership.invitation_id is not None:
            invitation_use(membership.invitation_id, now)
        job_event(membership.job_id, "participant.accepted", peer=str(membership.peer_id))
        hint_peers([membership.peer_id])
        hint_job(membership.job_id, "participants", "invitations", "status")


@contextlib.contextmanager
def _one_current_job() -> Iterator[None]:
    """The database's constraint decides when two tabs of a browser take part in two jobs at once."""
    try:
        yield
    except IntegrityError as error:
        raise _leave_first() from error


def _leave_first() -> Conflict:
    return Conflict("Leave the current job first.", field="jobId", code="leave_first")


def _refuse_second_job(peer: Peer, job_id: UUID) -> None:
    if Membership.objects.filter(peer=peer, current=True).exclude(job_id=job_id).exists():
        raise _leave_first()


def job_open(job: Job, peer: Peer) -> Membership:
    """This browser becomes the coordinator's device; with coordinatorParticipates it also trains."""
    _refuse_second_job(peer, job.pk)
    now = timezone.now()
    trains = settings_of(job).coordinator_participates and job.status != Job.Status.COMPLETED
    with _one_current_job(), transaction.atomic():
        Membership.objects.get_or_create(peer=peer, job=job, defaults={"state": State.APPROVED})
        # All devices of the coordinator in one order, so that two that open the job at once wait for each other.
        devices = Membership.objects.filter(Q(peer=peer) | Q(role=Membership.Role.COORDINATOR), job=job)
        held = list(devices.select_for_update(no_key=True, of=("self",)).select_related("job", "peer").order_by("pk"))
        membership = next(device for device in held if device.peer_id == peer.pk)
        keeps_link = membership.accepted_link and membership.current
        membership.role = Membership.Role.COORDINATOR
        membership.state = membership.state if membership.state in TAKES_PART else State.APPROVED
        membership.current = True
        membership.trains = trains or keeps_link
        membership.accepted_link = keeps_link
        membership.accepted_at = membership.accepted_at or now
        membership.save(update_fields=["role", "state", "current", "trains", "accepted_link", "accepted_at"])
        others = [device for device in held if device is not membership and not device.accepted_link]
        Membership.objects.filter(pk__in=[device.pk for device in others]).update(trains=False)
        if not Job.objects.filter(pk=job.pk, deleted_at=None).update(coordinator_peer=peer):
            raise NotFound("There is no such job of yours.", field="jobId")
        hint_peers([peer.pk, *(device.peer_id for device in others)])
        hint_job(job.pk, "participants", "status")
    return membership


def participant_ready(
    peer: Peer, job_id: UUID, module_sha256: str, auxiliary: dict[str, str], *, workers: int = 1
) -> None:
    """Module and auxiliary files are fetched, verified and compiled there: it can be given work.

    `workers` is how many training Workers the device runs at most; what was dealt before keeps its division.
    """
    membership = membership_of(peer, job_id)
    _takes_part(membership)
    job = membership.job
    if module_sha256 != job.module_id or auxiliary != file_slots(info_of(job)):
        raise Conflict(
            "These are not the files of this job; fetch them again.", field="moduleSha256", code="wrong_files"
        )
    now = timezone.now()
    peer_seen(peer, now)
    with transaction.atomic():
        member = Membership.objects.filter(pk=membership.pk, state__in=TAKES_PART, current=True)
        member.update(state=State.MODEL_LOADED, ready_for=job.ready_key, load_error="", workers=workers)
        deal_open_round(job.pk, now)
        hint_job(job.pk, "participants", "status")


def participant_load_failed(peer: Peer, job_id: UUID, reason: str) -> None:
    membership = membership_of(peer, job_id)
    _takes_part(membership)
    said = module_error_text(reason, operation="loadModel", model_id=membership.job.model_id)
    Membership.objects.filter(pk=membership.pk, state__in=TAKES_PART, current=True).update(
        state=State.MODEL_LOAD_FAILED, ready_for="", load_error=said
    )
    _end_attempts(peer, job_id, f"The model does not load there: {said}")
    job_event(job_id, "participant.loadFailed", peer=str(peer.pk), reason=said)
    hint_job(job_id, "participants", "status")


def _takes_part(membership: Membership) -> None:
    if membership.state not in TAKES_PART or not membership.current:
        raise Conflict("This browser does not take part in that job (any more).", field="jobId", code="not_a_member")


def participant_pause_self(peer: Peer, job_id: UUID, paused: bool) -> None:
    """pauseContribution: the running assignment ends at once."""
    membership = membership_of(peer, job_id)
    _takes_part(membership)
    Membership.objects.filter(pk=membership.pk).update(paused_by_peer=paused)
    _after_pause(membership, paused, "The participant paused their contribution.")


def participant_pause(job: Job, peer_id: UUID, paused: bool) -> None:
    """The coordinator pauses a participant."""
    membership = _member(job, peer_id)
    Membership.objects.filter(pk=membership.pk).update(paused_by_coordinator=paused)
    _after_pause(membership, paused, "The coordinator paused this participant.")


def _after_pause(membership: Membership, paused: bool, reason: str) -> None:
    if paused:
        _end_attempts(membership.peer, membership.job_id, reason)
    else:
        with transaction.atomic():
            deal_open_round(membership.job_id, timezone.now())
    hint_peers([membership.peer_id])
    hint_job(membership.job_id, "participants", "status")


def participant_remove(job: Job, peer_id: UUID) -> None:
    """Access ends at once; what it was working on goes back to the queue."""
    membership = _member(job, peer_id)
    _end_membership(membership, State.REMOVED, "The coordinator removed this participant.")


def participant_leave(peer: Peer, job_id: UUID) -> None:
    """A participant leaves the job. For a coordinator's device this only detaches the browser; the job goes on."""
    membership = membership_of(peer, job_id)
    if membership.current:
        _end_membership(membership, State.LEFT, "The participant left.")


def _end_membership(membership: Membership, state: Membership.State, reason: str) -> None:
    Membership.objects.filter(pk=membership.pk).update(
        state=state,
        current=False,
        trains=False,
        accepted_link=False,
        accepted_at=None,
        ready_for="",
        paused_by_peer=False,
        paused_by_coordinator=False,
    )
    _end_attempts(membership.peer, membership.job_id, reason)
    job_event(membership.job_id, f"participant.{state.value}", peer=str(membership.peer_id))
    tell_cut_off(membership.peer_id)
    hint_job(membership.job_id, "participants", "status")


def _member(job: Job, peer_id: UUID) -> Membership:
    found = only_row(Membership.objects.select_related("peer").filter(job=job, peer_id=peer_id))
    if found is None:
        raise NotFound("This job has no such participant.", field="peerId")
    return found


def _end_attempts(peer: Peer, job_id: UUID, reason: str) -> None:
    """End what the peer works on. Its membership was changed before, so that nothing new is dealt to it."""
    # A deal that read the members before that change is waited for: it holds the round until it commits.
    Round.objects.filter(job_id=job_id, state=Round.State.OPEN).update(state=Round.State.OPEN)
    live = Attempt.objects.filter(peer=peer, slot__round__job_id=job_id, state=Attempt.State.LIVE)
    for attempt_id in list(live.values_list("pk", flat=True)):
        attempt_end(attempt_id, state=Attempt.State.LEFT, reason=reason, now=timezone.now())


def peer_hello(peer: Peer, *, train: bool, session: int | None, attempt_id: UUID | None, now: datetime) -> bool:
    """A tab or agent says that it trains. False: another one took over, this one may only watch.

    Without the attempt that the server thinks it holds, it gets the same assignment as a new attempt.
    """
    back = peer_seen(peer, now)
    if not train:
        return True
    if session is None:
        tell_replaced(peer.pk, session_take(peer))
    elif session != peer.session:
        return False
    live = only_row(Attempt.objects.select_related("slot").filter(peer=peer, state=Attempt.State.LIVE))
    if live is not None and live.pk != attempt_id:
        attempt_replace(live, now)
    if back:
        peer_returned(peer, now)
    return True


def attempt_replace(live: Attempt, now: datetime) -> None:
    """Give the peer its own assignment again under a new attempt id; the round's counters do not change."""
    with transaction.atomic():
        moved = Attempt.objects.filter(pk=live.pk, state=Attempt.State.LIVE).update(
            state=Attempt.State.REPLACED, reason="The participant started again.", finished_at=now
        )
        if moved:
            Slot.objects.filter(pk=live.slot_id).update(status=Slot.Status.LOADING)
            attempt_row(live.slot, now).save(force_insert=True)


def peer_returned(peer: Peer, now: datetime) -> None:
    """Its lease had ended: if the round at work has an item left, it may have it."""
    membership = only_row(Membership.objects.filter(peer=peer, current=True, trains=True))
    if membership is not None:
        with transaction.atomic():
            deal_open_round(membership.job_id, now)
        hint_job(membership.job_id, "participants", "status")
