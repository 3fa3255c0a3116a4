"""What peers call (docs/protocol.md, HTTP JSON for peers). Each call: parse, one service, the peer's state."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema, Status
from ninja.security import HttpBearer, SessionAuth
from pydantic import ConfigDict, Field

from jobs.selectors.peer_state import invitation_facts, peer_state
from jobs.services import participants
from jobs.services.updates import attempt_failed
from peers import throttle
from peers.models import Membership, Peer, UserToken
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


@router.post("/peers", response={201: dict[str, Any]}, auth=None)
def create_peer(request: HttpRequest, payload: Body) -> Status[dict[str, Any]]:
    """A new guest peer. The token is shown this once."""
    who = throttle.address_of(request.META)
    throttle.check("peers", who, NEW_PEERS)
    throttle.count("peers", who)
    peer, token = peer_create()
    return Status(201, {"peerId": str(peer.pk), "token": token})


@router.get("/site", response=dict[str, Any], auth=None)
def site(request: HttpRequest) -> dict[str, Any]:
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


@router.post("/site/sign-out", response={204: None}, auth=user_auth)
def site_sign_out(request: HttpRequest) -> Status[None]:
    """The page forgets its user: the token of this request ends."""
    token = bearer_of(request.headers.get("Authorization")) or ""
    user_tokens_revoke(UserToken.objects.filter(token_hash=token_hash(token)), timezone.now())
    return Status(204, None)


@router.get("/peer/state", response=dict[str, Any], auth=peer_auth)
def get_state(request: PeerRequest) -> dict[str, Any]:
    """PeerState; counts as a heartbeat."""
    now = timezone.now()
    if peer_seen(request.auth, now):
        participants.peer_returned(request.auth, now)
    return peer_state(request.auth, now)


@router.post("/invitations/open", response=dict[str, Any], auth=peer_auth)
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


@router.get("/invitations/{uuid:job_id}", response=dict[str, Any], auth=peer_auth)
def get_invitation(request: PeerRequest, job_id: UUID) -> dict[str, Any]:
    """The facts of a job that this peer was invited to, or takes part in."""
    membership = participants.membership_of(request.auth, job_id)
    if membership.state in (Membership.State.LEFT, Membership.State.REMOVED):
        raise NotFound("This browser has no part in that job any more.", field="jobId")
    return invitation_facts(membership)


@router.post("/invitations/decide", response=dict[str, Any], auth=peer_auth)
def decide(request: PeerRequest, payload: DecideBody) -> dict[str, Any]:
    now = timezone.now()
    peer_seen(request.auth, now)
    participants.invitation_decide(request.auth, payload.jobId, payload.accepted, now)
    return _state(request.auth)


@router.post("/peer/ready", response=dict[str, Any], auth=peer_auth)
def ready(request: PeerRequest, payload: ReadyBody) -> dict[str, Any]:
    participants.participant_ready(
        request.auth, payload.jobId, payload.moduleSha256, payload.auxiliary, workers=payload.workers
    )
    return _state(request.auth)


@router.post("/peer/load-failed", response=dict[str, Any], auth=peer_auth)
def load_failed(request: PeerRequest, payload: LoadFailedBody) -> dict[str, Any]:
    participants.participant_load_failed(request.auth, payload.jobId, payload.short)
    return _state(request.auth)


@router.post("/peer/attempts/{attempt_id}/failed", response=dict[str, Any], auth=peer_auth)
def failed(request: PeerRequest, attempt_id: UUID, payload: ReasonBody) -> dict[str, Any]:
    attempt_failed(peer=request.auth, attempt_id=attempt_id, reason=payload.short)
    return _state(request.auth)


@router.post("/peer/pause", response=dict[str, Any], auth=peer_auth)
def pause(request: PeerRequest, payload: PauseBody) -> dict[str, Any]:
    participants.participant_pause_self(request.auth, payload.jobId, payload.paused)
    return _state(request.auth)


@router.post("/peer/leave", response=dict[str, Any], auth=peer_auth)
def leave(request: PeerRequest, payload: JobBody) -> dict[str, Any]:
    participants.participant_leave(request.auth, payload.jobId)
    return _state(request.auth)
