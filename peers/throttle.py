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
    seen = counted(name, who)
    if seen is not None and seen >= limit:
        raise TooManyRequests(
            f"Too many attempts ({limit} a minute allowed). Wait a minute.", retry_after=WINDOW_SECONDS
        )


def counted(name: str, who: str) -> int | None:
    """How often `count` was called in this window; None when the cache cannot say."""
    try:
        return int(cache.get(_key(name, who)) or 0)
    except Exception as error:
        logger.warning("throttle not read, attempts are not counted: %s", error)
        return None


def count(name: str, who: str, seconds: int = WINDOW_SECONDS) -> None:
    """The first call opens a window of `seconds`. `who` may hold what a cache key may."""
    key = _key(name, who)
    try:
        if not cache.add(key, 1, seconds):
            cache.incr(key)
    except ValueError:
        cache.set(key, 1, seconds)
    except Exception as error:
        logger.warning("throttle not counted: %s", error)


def _key(name: str, who: str) -> str:
    return f"throttle:{name}:{who}"
