"""What every test of the server relies on: a database that several threads can use, and no broker."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import connections


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix):
    """SQLite's in-memory test database locks whole tables between threads; a file behaves as in production."""
    database = connections["default"]
    if database.vendor == "sqlite":
        database.settings_dict["TEST"]["NAME"] = str(settings.VAR_DIR / "test.sqlite3")
