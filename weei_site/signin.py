"""One-time sign-in links, and the limit on wrong passwords."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.core import signing
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from weei_core.errors import NotFound

logger = logging.getLogger(__name__)

LINK_HOURS = 24
_SALT = "weei.sign-in-link"
WRONG_PASSWORDS = 10
WRONG_PASSWORDS_SECONDS = 600


class LinkInvalid(NotFound):
    """Used, expired, altered and unknown links answer alike."""

    default_code = "sign_in_link_invalid"

    def __init__(self) -> None:
        super().__init__(
            "This sign-in link was used already or has expired. Sign in with your password or ask for a new link."
        )


def link_create(user: User) -> str:
    """The path of a link that signs `user` in once, within LINK_HOURS.

    The link carries the time of the last sign-in. Signing in, with a link or a password, changes that time, so every
    link made before is spent; nothing has to be stored.
    """
    token = signing.dumps({"user": user.pk, "last": _stamp(user.last_login)}, salt=_SALT)
    return reverse("sign-in-link", args=[token])


def link_user(token: str) -> User:
    """Whom this link would sign in, without using it up."""
    try:
        claim = signing.loads(token, salt=_SALT, max_age=timedelta(hours=LINK_HOURS))
    except signing.BadSignature:
        raise LinkInvalid from None
    user = User.objects.filter(pk=claim["user"], is_active=True).first()
    if user is None or _stamp(user.last_login) != claim["last"]:
        raise LinkInvalid
    return user


def link_redeem(token: str) -> User:
    """Use the link up. Of two that come at once, one wins."""
    user = link_user(token)
    won = User.objects.filter(pk=user.pk, last_login=user.last_login).update(last_login=timezone.now())
    if won != 1:
        raise LinkInvalid
    return user


def _stamp(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


class SignInForm(AuthenticationForm):
    """Ten wrong passwords for one name from one address lock that pair for ten minutes, whether the name exists or not.

    The counter lives in the cache: with the cache away nobody is locked out, and the log says so.
    """

    def clean(self) -> dict[str, Any]:
        key = f"wrong-password:{self._address()}:{self.cleaned_data.get('username', '')[:150].casefold()}"
        if _attempts(key) >= WRONG_PASSWORDS:
            raise ValidationError("Too many wrong passwords. Wait ten minutes, then try again.", code="locked")
        try:
            return super().clean()
        except ValidationError:
            _count_attempt(key)
            raise

    def _address(self) -> str:
        return str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""


def _attempts(key: str) -> int:
    try:
        return int(cache.get(_cache_key(key), 0))
    except Exception as error:
        logger.warning("wrong passwords are not counted: %s", error)
        return 0


def _count_attempt(key: str) -> None:
    try:
        cache.add(_cache_key(key), 0, WRONG_PASSWORDS_SECONDS)
        cache.incr(_cache_key(key))
    except Exception as error:
        logger.warning("wrong passwords are not counted: %s", error)


def _cache_key(key: str) -> str:
    """Names may hold what a cache key may not."""
    return signing.Signer(salt="wrong-password").signature(key)
