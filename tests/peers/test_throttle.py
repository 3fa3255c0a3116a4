"""What one address may do in a minute."""

import pytest
from django.core.cache import cache

from peers import throttle
from weei_core.errors import TooManyRequests


def test_the_limit_is_reached_by_counting_and_belongs_to_one_name_and_address():
    for _ in range(3):
        throttle.check("guess", "10.0.0.1", 3)
        throttle.count("guess", "10.0.0.1")
    with pytest.raises(TooManyRequests) as refused:
        throttle.check("guess", "10.0.0.1", 3)
    assert refused.value.extra["retry_after"] == throttle.WINDOW_SECONDS
    throttle.check("guess", "10.0.0.2", 3)
    throttle.check("other", "10.0.0.1", 3)


def test_the_window_ends_also_while_somebody_goes_on_guessing(monkeypatch):
    """It runs from the first guess; further ones do not move its end."""
    now = [1_000.0]
    monkeypatch.setattr("django.core.cache.backends.locmem.time.time", lambda: now[0])
    monkeypatch.setattr("django.core.cache.backends.base.time.time", lambda: now[0])
    for _ in range(6):
        throttle.count("guess", "a")
        now[0] += 11
    throttle.check("guess", "a", 1)


def test_a_counter_that_expires_between_two_steps_begins_anew(monkeypatch):
    monkeypatch.setattr("django.core.cache.backends.locmem.LocMemCache.add", lambda *_, **__: False)
    throttle.count("guess", "a")
    assert cache.get("throttle:guess:a") == 1


def test_without_the_cache_nothing_is_refused_and_the_log_says_so(settings, caplog):
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }
    throttle.count("guess", "a")
    throttle.check("guess", "a", 0)
    assert "throttle not counted" in caplog.text and "throttle not read" in caplog.text


def test_the_address_is_the_connections_own_not_what_a_header_says():
    """H12: a proxy is believed by uvicorn's own setting only."""
    meta = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "1.2.3.4", "HTTP_FORWARDED": "for=1.2.3.4"}
    assert throttle.address_of(meta) == "10.0.0.1"
    assert throttle.address_of({}) == ""
