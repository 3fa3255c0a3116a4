"""What peers call (docs/protocol.md, HTTP JSON for peers). Each call: parse, one service, the peer's state."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema, Status
from ninja.security import HttpBearer, SessionAuth
from pydantic import ConfigDict, Field

from jobs.selectors.peer_state import invitation_facts, peer_state
from jobs.services import participants
from jobs.services.updates import attempt_failed
from peers import schemas, throttle
from peers.answers import MAX_INT, PAGE, PAGED, Cursor, Limit, Page, as_made, by_time
from peers.models import Membership, Peer, UserToken
from peers.polling import state_now
from peers.services.invitations import InvitationInvalid
from peers.services.presence import peer_seen
from peers.services.sites import is_own, site_for
from peers.services.tokens import bearer_of, peer_create, peer_for_token, token_hash
from peers.services.user_tokens import (
    is_personal,
    page_admit,
    user_admit,
    user_for_token,
    user_token_of,
    user_tokens_revoke,
)
from weei_core.errors import Forbidden, NotFound, Unauthorized

router = Router(tags=["peers"])
router.add_decorator(as_made)
Before = Annotated[int | None, Query(ge=0, le=MAX_INT, description="Only what lies before this round.")]
FAILED_GUESSES = 10
NEW_PEERS = 60
REASON_CHARACTERS = 500


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class JobBody(Body):
    jobId: UUID = Field(strict=False)


class TokenBody(Body):
    token: str = Field(max_length=200)


class DecideBody(JobBody):
    accepted: bool


class ReadyBody(JobBody):
    moduleSha256: str = Field(max_length=64)
    auxiliary: dict[str, str] = Field({}, max_length=8)
    workers: int = Field(1, ge=1, le=64)


class ReasonBody(Body):
    """What went wrong there, in a module's or a browser's own words: shortened, never refused for its length."""

    reason: str

    @property
    def short(self) -> str:
        return self.reason[:REASON_CHARACTERS]


class LoadFailedBody(ReasonBody):
    jobId: UUID = Field(strict=False)


class PauseBody(JobBody):
    paused: bool


class PeerRequest(HttpRequest):
    auth: Peer


class PeerAuth(HttpBearer):
    """The peer's token as the bearer, or as `Weei-Peer` where the bearer is a user's."""

    def __call__(self, request: HttpRequest) -> Peer | None:
        token = request.headers.get("Weei-Peer")
        return super().__call__(request) if token is None else peer_for_token(token)

    def authenticate(self, request: HttpRequest, token: str) -> Peer:
        return peer_for_token(token)


class UserAuth(HttpBearer):
    """A page of another site, with the token of the user who signed in there, or a program with a personal one. No
    cookie counts, so no CSRF token is needed."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        if user_token_of(token) is None:
            return None
        address = throttle.address_of(request.META)
        request.user = user_admit(token, request.headers.get("Origin"), address, timezone.now())
        return request.user


class PersonAuth(SessionAuth):
    """The session. Without its cookie nobody is signed in, and there is nothing that a CSRF token would protect."""

    def __call__(self, request: HttpRequest) -> User | None:
        found: User | None = super().__call__(request) if settings.SESSION_COOKIE_NAME in request.COOKIES else None
        return found


peer_auth = PeerAuth()
user_auth = UserAuth()
person_auth = [user_auth, PersonAuth()]


def _state(peer: Peer) -> dict[str, Any]:
    return peer_state(peer, timezone.now())


@router.post("/peers", response={201: schemas.NewPeer}, auth=None)
def create_peer(request: HttpRequest, payload: Body) -> Status[dict[str, Any]]:
    """A new guest peer. The token is shown this once."""
    who = throttle.address_of(request.META)
    throttle.check("peers", who, NEW_PEERS)
    throttle.count("peers", who)
    peer, token = peer_create()
    return Status(201, {"peerId": str(peer.pk), "token": token})


@router.get("/site", response=schemas.SiteFacts, tags=["sites"], auth=None)
def site_facts(request: HttpRequest) -> dict[str, Any]:
    """What a page of the asking origin may do, and for whom it acts."""
    origin, now = request.headers.get("Origin"), timezone.now()
    token = user_token_of(bearer_of(request.headers.get("Authorization")))
    if origin is None or is_own(origin):
        user = request.user
        if token is not None and is_personal(token):
            user = user_admit(token, origin, throttle.address_of(request.META), now)
        return {"origin": None, "training": True, "reason": None, "user": user.get_username() or None}
    found = site_for(origin)
    answer: dict[str, Any] = {"origin": found.origin, "training": True, "reason": None, "user": None}
    try:
        answer["user"] = token and user_for_token(token, origin, now).get_username()
    except Unauthorized:
        token = None
    except Forbidden as error:
        return {**answer, "training": False, "reason": error.message}
    try:
        page_admit(origin, token, now)
    except Forbidden as error:
        return {**answer, "training": False, "reason": error.message}
    return answer


@router.post("/site/sign-out", response={204: None}, tags=["sites"], auth=user_auth)
def site_sign_out(request: HttpRequest) -> Status[None]:
    """The page forgets its user: the token of this request ends."""
    token = bearer_of(request.headers.get("Authorization")) or ""
    user_tokens_revoke(UserToken.objects.filter(token_hash=token_hash(token)), timezone.now())
    return Status(204, None)


@router.get(
    "/connected-sites",
    response=list[schemas.ConnectedSite],
    tags=["sites"],
    auth=person_auth,
    openapi_extra=PAGED,
)
def list_connected_sites(request: HttpRequest, limit: Limit = PAGE, cursor: Cursor = None) -> Page:
    """The sites that may act for this person now, newest first. Pages of other sites do not read it."""
    rows, further = by_time(_site_tokens(request).filter(revoked_at=None, expires_at__gt=timezone.now()), limit, cursor)
    return Page([_connected_site(row) for row in rows], further)


@router.post("/connected-sites/{token_id}/revoke", response={204: None}, tags=["sites"], auth=person_auth)
def revoke_connected_site(request: HttpRequest, token_id: UUID) -> Status[None]:
    """The site may not act for this person any more. Idempotent."""
    found = _site_tokens(request).filter(pk=token_id)
    if not found.exists():
        raise NotFound("There is no such sign-in of yours.", field="tokenId")
    user_tokens_revoke(found, timezone.now())
    return Status(204, None)


def _site_tokens(request: HttpRequest) -> QuerySet[UserToken]:
    """For the person alone: a site learns nothing of the others."""
    origin = request.headers.get("Origin")
    if origin is not None and not is_own(origin):
        raise Forbidden("Sites that may act for a person are told on this server's own pages only.", field="Origin")
    assert request.user.pk is not None
    return UserToken.objects.filter(user_id=request.user.pk, site__isnull=False).select_related("site")


def _connected_site(token: UserToken) -> dict[str, Any]:
    assert token.site is not None
    return {
        "tokenId": str(token.pk),
        "origin": token.site.origin,
        "name": token.site.name,
        "createdAt": round(token.created.timestamp() * 1000),
        "expiresAt": round(token.expires_at.timestamp() * 1000),
        "usedAt": token.used_at and round(token.used_at.timestamp() * 1000),
    }


@router.get("/peer/state", response=schemas.PeerState, auth=peer_auth)
def peer_state_now(request: PeerRequest) -> dict[str, Any]:
    """PeerState; counts as a heartbeat. (As long as nothing is refused, peers/polling.py answers it.)"""
    return state_now(request.auth)


@router.post("/invitations/open", response=schemas.InvitationFacts, auth=peer_auth)
def open_invitation(request: PeerRequest, payload: TokenBody) -> dict[str, Any]:
    """The facts of a link; puts the job among this peer's invitations."""
    who = throttle.address_of(request.META)
    throttle.check("invitations", who, FAILED_GUESSES)
    now = timezone.now()
    peer_seen(request.auth, now)
    try:
        job = participants.invitation_open(request.auth, payload.token, now)
    except InvitationInvalid:
        throttle.count("invitations", who)
        raise
    return invitation_facts(participants.membership_of(request.auth, job.pk))


@router.get("/invitations/{uuid:job_id}", response=schemas.InvitationFacts, auth=peer_auth)
def get_invitation(request: PeerRequest, job_id: UUID) -> dict[str, Any]:
    """The facts of a job that this peer was invited to, or takes part in."""
    membership = participants.membership_of(request.auth, job_id)
    if membership.state in (Membership.State.LEFT, Membership.State.REMOVED):
        raise NotFound("This browser has no part in that job any more.", field="jobId")
    return invitation_facts(membership)


@router.post("/invitations/decide", response=schemas.PeerState, auth=peer_auth)
def decide_invitation(request: PeerRequest, payload: DecideBody) -> dict[str, Any]:
    """Accept or decline. Said twice it answers as before; the other word then is refused with `decided`."""
    now = timezone.now()
    peer_seen(request.auth, now)
    participants.invitation_decide(request.auth, payload.jobId, payload.accepted, now)
    return _state(request.auth)


@router.post("/peer/ready", response=schemas.PeerState, auth=peer_auth)
def tell_ready(request: PeerRequest, payload: ReadyBody) -> dict[str, Any]:
    """Module and auxiliary files are fetched, verified and compiled: the peer can be given work."""
    participants.participant_ready(
        request.auth, payload.jobId, payload.moduleSha256, payload.auxiliary, workers=payload.workers
    )
    return _state(request.auth)


@router.post("/peer/load-failed", response=schemas.PeerState, auth=peer_auth)
def tell_load_failed(request: PeerRequest, payload: LoadFailedBody) -> dict[str, Any]:
    """The model does not load here."""
    participants.participant_load_failed(request.auth, payload.jobId, payload.short)
    return _state(request.auth)


@router.post("/peer/attempts/{attempt_id}/failed", response=schemas.PeerState, auth=peer_auth)
def tell_attempt_failed(request: PeerRequest, attempt_id: UUID, payload: ReasonBody) -> dict[str, Any]:
    """This attempt ended in an error (a trap, a stall, bad data)."""
    attempt_failed(peer=request.auth, attempt_id=attempt_id, reason=payload.short)
    return _state(request.auth)


@router.post("/peer/pause", response=schemas.PeerState, auth=peer_auth)
def pause_contribution(request: PeerRequest, payload: PauseBody) -> dict[str, Any]:
    """Pausing ends the running attempt at once."""
    participants.participant_pause_self(request.auth, payload.jobId, payload.paused)
    return _state(request.auth)


@router.post("/peer/leave", response=schemas.PeerState, auth=peer_auth)
def leave_job(request: PeerRequest, payload: JobBody) -> dict[str, Any]:
    """Leave the job. What it was working on is given to others."""
    participants.participant_leave(request.auth, payload.jobId)
    return _state(request.auth)
