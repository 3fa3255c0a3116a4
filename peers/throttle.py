"""Counting what one address may do in a minute, in the cache. With the cache away nothing is refused."""

from __future__ import annotations

import logging

from django.core.cache import cache

from weei_core.errors import TooManyRequests

logger = logging.getLogger(__name__)
WINDOW_SECONDS = 60


def address_of(meta: dict[str, object]) -> str:
    """The address that the server itself sees; proxies are believed only through uvicorn's own setting."""
    return str(meta.get("REMOTE_ADDR", ""))


def check(name: str, who: str, limit: int) -> None:
    """Refuse if `count` was called `limit` times in this window."""
    try:
        seen = int(cache.get(f"throttle:{name}:{who}") or 0)
    except Exception as error:
        logger.warning("throttle not read: %s", error)
        return
    if seen >= limit:
        raise TooManyRequests(
            f"Too many attempts ({limit} a minute allowed). Wait a minute.", retry_after=WINDOW_SECONDS
        )


def count(name: str, who: str) -> None:
    key = f"throttle:{name}:{who}"
    try:
        if not cache.add(key, 1, WINDOW_SECONDS):
            cache.incr(key)
    except ValueError:
        cache.set(key, 1, WINDOW_SECONDS)
    except Exception as error:
        logger.warning("throttle not counted: %s", error)
