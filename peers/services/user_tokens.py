"""Tokens that act for a user, shown once, stored by hash: those of pages of other sites, bound to their origin, and
personal ones for programs, which no page of another site may use."""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.crypto import constant_time_compare

from peers import throttle
from peers.models import SiteOrigin, UserToken
from peers.services.sites import check_user, is_own, site_for
from peers.services.tokens import token_hash
from weei_core.errors import Conflict, Forbidden, Invalid, TooManyRequests, Unauthorized

logger = logging.getLogger("weei.tokens")
PREFIX = "weei_user_"
PERSONAL_PREFIX = "weei_pat_"
"""These two tell a user's token from a peer's wherever one of the two may come. Programs that look for secrets find
personal ones by `weei_pat_[A-Za-z0-9_-]{43}`."""
NAME_CHARACTERS = 80
DEFAULT_DAYS = 90
MAX_DAYS = 365
WRONG_TOKENS = 30
"""So many from one address in a minute are answered one by one."""
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


def personal_token_create(user: User, name: str, days: int, now: datetime) -> tuple[UserToken, str]:
    """A new token for this user's programs, shown this once. Raises `Invalid` for a name or time that does not fit."""
    name = name.strip()
    if not name or len(name) > NAME_CHARACTERS or not name.isprintable():
        raise Invalid(
            f"The name must have 1 to {NAME_CHARACTERS} characters in one line; found {name[:NAME_CHARACTERS]!r}.",
            field="name",
        )
    if not 1 <= days <= MAX_DAYS:
        raise Invalid(f"A token may live 1 to {MAX_DAYS} days; found {days}.", field="days")
    token = PERSONAL_PREFIX + secrets.token_urlsafe(32)
    made = UserToken.objects.create(
        user=user,
        name=name,
        token_hash=token_hash(token),
        session_hash=user.get_session_auth_hash(),
        expires_at=now + timedelta(days=days),
    )
    logger.info("user=%s personal token=%s made for %d days", user.pk, made.pk, days)
    return made, token


def user_admit(token: str, origin: str | None, address: str, now: datetime) -> User:
    """`user_for_token` for a call from `address`. One that goes on with wrong tokens is told to wait; a right token is
    never refused for the mistakes of a neighbour."""
    try:
        return user_for_token(token, origin, now)
    except Unauthorized:
        seen = throttle.counted("wrong-user-tokens", address)
        if seen is not None and seen >= WRONG_TOKENS:
            raise TooManyRequests(
                f"Too many wrong tokens ({WRONG_TOKENS} a minute allowed). Wait a minute.",
                field="Authorization",
                retry_after=throttle.WINDOW_SECONDS,
            ) from None
        throttle.count("wrong-user-tokens", address)
        raise


def user_for_token(token: str, origin: str | None, now: datetime) -> User:
    """The user for whom a page of `origin`, or a program that sends none, may act; at most two queries. Raises
    `Unauthorized` or `Forbidden`."""
    found = (
        UserToken.objects.select_related("user", "site")
        .filter(token_hash=token_hash(token[: LONGEST + 1]), revoked_at=None, expires_at__gt=now)
        .first()
    )
    if found is None or not _is_alive(found):
        raise Unauthorized(_signed_out(token), field="Authorization", code="signed_out")
    _check_origin(found, origin)
    if found.site is not None:
        check_user(found.site, found.user)
    if found.used_at is None or now - found.used_at > NOTE_USE_AFTER:
        UserToken.objects.filter(pk=found.pk).update(used_at=now)
    return found.user


def _signed_out(token: str) -> str:
    if is_personal(token):
        return (
            "This access token is unknown, revoked or expired, or the account or its password changed. Make a new one."
        )
    return "This site is not signed in (any more). Sign in again."


def _check_origin(token: UserToken, origin: str | None) -> None:
    """A site's token works on that site alone; a personal one where no other site's page can be asking."""
    if token.site is None:
        if origin is None or is_own(origin):
            return
        sentence = "A personal access token is for programs; it does not work from pages of other sites, such as"
    elif token.site.origin == origin and token.site.enabled:
        return
    else:
        sentence = "This token was given to another origin; it does not work from"
    raise Forbidden(f"{sentence} {(origin or 'none')[:LONGEST]}.", field="Origin", code="other_origin")


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
    return bearer if bearer is not None and bearer.startswith((PREFIX, PERSONAL_PREFIX)) else None


def is_personal(token: str) -> bool:
    return token.startswith(PERSONAL_PREFIX)


def user_tokens_revoke(tokens: QuerySet[UserToken], now: datetime) -> int:
    """Idempotent. Returns how many ended by this."""
    ended = tokens.filter(revoked_at=None).update(revoked_at=now)
    if ended:
        logger.info("%d tokens revoked", ended)
    return ended
