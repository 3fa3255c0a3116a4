"""One-time sign-in links, and the limit on wrong passwords."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from peers import throttle
from weei_core.errors import NotFound

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
        who = self._who()
        if (throttle.counted("wrong-password", who) or 0) >= WRONG_PASSWORDS:
            raise ValidationError("Too many wrong passwords. Wait ten minutes, then try again.", code="locked")
        try:
            return super().clean()
        except ValidationError:
            throttle.count("wrong-password", who, WRONG_PASSWORDS_SECONDS)
            raise

    def _who(self) -> str:
        """Name and address, hashed: names may hold what a cache key may not."""
        address = throttle.address_of(self.request.META) if self.request else ""
        name = self.cleaned_data.get("username", "")[:150].casefold()
        return hashlib.sha256(f"{address}:{name}".encode()).hexdigest()
