"""Invitation links: 256 random bits, stored by hash, with a use count and an end."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from peers.models import Invitation
from peers.services.tokens import token_hash
from weei_core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from jobs.models import Job

MAX_USES = 10_000


class InvitationInvalid(NotFound):
    """Unknown, used up, revoked and expired links answer alike, so that a guess learns nothing."""

    default_code = "invitation_invalid"

    def __init__(self) -> None:
        super().__init__(
            "This invitation link is not valid (any more). Ask the coordinator for a new one.", field="token"
        )


def invitation_create(job: Job, uses: int = 1, expires_at: datetime | None = None) -> tuple[Invitation, str]:
    """A new link and its address, which is shown this once."""
    if not 1 <= uses <= MAX_USES:
        raise Invalid(f"uses: {uses} given, 1 to {MAX_USES} allowed.", field="uses")
    now = timezone.now()
    if expires_at is not None and expires_at <= now:
        raise Invalid("expiresAt: must lie in the future.", field="expiresAt")
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        job=job, token_hash=token_hash(token), max_uses=uses, expires_at=expires_at or now + settings.INVITATION_DAYS
    )
    return invitation, invitation_url(token)


def invitation_url(token: str) -> str:
    return f"{settings.PUBLIC_URL}/join/{token}/"


def invitation_revoke(job: Job, invitation_id: UUID) -> None:
    """Idempotent; memberships that came from the link stay."""
    found = Invitation.objects.filter(job=job, pk=invitation_id)
    if not found.filter(revoked_at=None).update(revoked_at=timezone.now()) and not found.exists():
        raise NotFound("This job has no such invitation.", field="invitationId")


def invitation_for_token(token: str, now: datetime) -> Invitation:
    """The link that this secret opens, if it still does."""
    found = (
        Invitation.objects.select_related("job")
        .filter(token_hash=token_hash(token), revoked_at=None, expires_at__gt=now, uses__lt=F("max_uses"))
        .filter(job__deleted_at=None)
        .first()
    )
    if found is None:
        raise InvitationInvalid
    return found


def invitation_use(invitation_id: UUID, now: datetime) -> None:
    """Count one use, atomically; raises InvitationInvalid when the link ended meanwhile."""
    used = Invitation.objects.filter(
        pk=invitation_id, uses__lt=F("max_uses"), revoked_at=None, expires_at__gt=now
    ).update(uses=F("uses") + 1)
    if used != 1:
        raise InvitationInvalid
