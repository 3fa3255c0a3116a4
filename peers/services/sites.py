"""Sites elsewhere: which origins may use the API, and who may use the widget there."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser

from peers.domain.origins import origin_of
from peers.models import SiteOrigin, SiteUser
from weei_core.errors import Forbidden

SHOWN_CHARACTERS = 200


def is_own(origin: str) -> bool:
    """Whether a page of this server says so."""
    return origin in {origin_of(url) for url in settings.PUBLIC_URLS}


def site_for(origin: str) -> SiteOrigin:
    """One query; raises `Forbidden` for what is not registered, or not now."""
    site = SiteOrigin.objects.filter(origin=origin, enabled=True).first()
    if site is None:
        raise Forbidden(
            f"The origin {origin[:SHOWN_CHARACTERS]} is not registered here. An administrator of this server can "
            "register it.",
            field="Origin",
            code="origin_not_registered",
        )
    return site


def check_user(site: SiteOrigin, user: AbstractBaseUser) -> None:
    """Raises `Forbidden` unless this user may use the widget on the site."""
    flag = SiteUser.objects.filter(site=site, user_id=user.pk).values_list("training", flat=True).first()
    allowed = site.audience == SiteOrigin.Audience.EVERYBODY if flag is None else flag
    if not allowed:
        raise Forbidden(
            f"Distributed training is not enabled for {user.get_username()} on {site.origin}. An administrator of this "
            "server can enable it.",
            field="Authorization",
            code="widget_not_enabled",
        )
