"""Tokens with which pages of other sites act for a user: bound to user and origin, shown once, stored by hash."""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.crypto import constant_time_compare

from peers.models import SiteOrigin, UserToken
from peers.services.sites import check_user, site_for
from peers.services.tokens import token_hash
from weei_core.errors import Conflict, Forbidden, Unauthorized

logger = logging.getLogger("weei.tokens")
PREFIX = "weei_user_"
"""Tells a user's token from a peer's wherever one of the two may come."""
LONGEST = 200
NOTE_USE_AFTER = timedelta(minutes=5)


def user_token_create(user: User, site: SiteOrigin, state: str, now: datetime) -> tuple[UserToken, str]:
    """A new token, shown this once. A state counts once: a page that is sent again gives no second token."""
    token = PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            made = UserToken.objects.create(
                user=user,
                site=site,
                token_hash=token_hash(token),
                state_hash=token_hash(f"{site.origin} {state}"),
                session_hash=user.get_session_auth_hash(),
                expires_at=now + settings.USER_TOKEN_DAYS,
            )
    except IntegrityError:
        raise Conflict("This request was answered before. Begin to sign in again.", field="state") from None
    logger.info("user=%s token=%s given to %s", user.pk, made.pk, site.origin)
    return made, token


def user_for_token(token: str, origin: str | None, now: datetime) -> User:
    """The user for whom a page of `origin` may act; two queries. Raises `Unauthorized` or `Forbidden`."""
    found = (
        UserToken.objects.select_related("user", "site")
        .filter(token_hash=token_hash(token[: LONGEST + 1]), revoked_at=None, expires_at__gt=now)
        .first()
    )
    if found is None or not _is_alive(found):
        raise Unauthorized(
            "This site is not signed in (any more). Sign in again.", field="Authorization", code="signed_out"
        )
    if found.site.origin != origin or not found.site.enabled:
        raise Forbidden(
            f"This token was given to another origin; it does not work from {(origin or 'none')[:LONGEST]}.",
            field="Origin",
            code="other_origin",
        )
    check_user(found.site, found.user)
    if found.used_at is None or now - found.used_at > NOTE_USE_AFTER:
        UserToken.objects.filter(pk=found.pk).update(used_at=now)
    return found.user


def _is_alive(token: UserToken) -> bool:
    """A disabled account and a new password end tokens like sessions."""
    user = token.user
    return user.is_active and constant_time_compare(token.session_hash, user.get_session_auth_hash())


def page_admit(origin: str, token: str | None, now: datetime) -> SiteOrigin:
    """What every request of a page elsewhere needs before anything is done for it; the calls themselves ask for more.
    `token` is a user's, if the page sent one."""
    site = site_for(origin)
    if site.audience == SiteOrigin.Audience.CHOSEN:
        if token is None:
            raise Forbidden(
                f"Distributed training is for chosen users on {site.origin}. Sign in first.",
                field="Authorization",
                code="sign_in_needed",
            )
        user_for_token(token, origin, now)
    return site


def user_token_of(bearer: str | None) -> str | None:
    """The bearer's token if it is a user's and not a peer's."""
    return bearer if bearer is not None and bearer.startswith(PREFIX) else None


def user_tokens_revoke(tokens: QuerySet[UserToken], now: datetime) -> int:
    """Idempotent. Returns how many ended by this."""
    ended = tokens.filter(revoked_at=None).update(revoked_at=now)
    if ended:
        logger.info("%d tokens revoked", ended)
    return ended
