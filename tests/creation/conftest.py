"""A store for each test; compiled modules are kept for the whole run, so that each is compiled once."""

import pytest
from django.contrib.auth.models import User

from tests.creation.training import Trainer


@pytest.fixture(scope="session")
def _var_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("var")


@pytest.fixture(autouse=True)
def _store(settings, tmp_path, _var_dir, monkeypatch):
    settings.STORAGE_URL = f"file://{tmp_path / 'artifacts'}"
    settings.VAR_DIR = _var_dir
    settings.MODULE_WALL_SECONDS = 30
    # A test's transaction would keep the thread's own connection waiting.
    monkeypatch.setattr("jobs.services.lease.SAY_SECONDS", 1000)


@pytest.fixture
def user(db):
    return User.objects.create(username="alice")


@pytest.fixture(scope="session")
def trainer(tmp_path_factory):
    made = Trainer(tmp_path_factory.mktemp("trainer"))
    yield made
    made.close()
