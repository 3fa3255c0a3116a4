import pytest
from django.test import Client

from tests.pages import factories


@pytest.fixture(autouse=True)
def local_cache(settings):
    """Page tests need no Redis: the cache and the hints stay in this process."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    from django.core.cache import cache

    cache.clear()


@pytest.fixture
def owner(db):
    return factories.make_user("ada")


@pytest.fixture
def job(owner):
    job = factories.make_job(owner)
    factories.make_checkpoint(job, 0)
    return job


@pytest.fixture
def owner_client(owner):
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture
def stranger_client(db):
    client = Client()
    client.force_login(factories.make_user("mallory"))
    return client
