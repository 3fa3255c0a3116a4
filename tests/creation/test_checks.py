"""`manage.py check` says what a deployment lacks, and docs/operations.md says what everything means."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.checks.registry import registry

from jobs import checks

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "operations.md").read_text()


def found(deploy=False):
    return {message.id: str(message) for message in run_checks(tags=["weei"], include_deployment_checks=deploy)}


@pytest.fixture(autouse=True)
def _whole_jail(monkeypatch, settings):
    """Whatever this machine allows: each test takes away what it is about."""
    monkeypatch.setattr(checks, "capabilities", lambda: {"limits": "active", "seccomp": "active"})
    settings.MIN_FREE_FRACTION = 0.0


def test_a_good_deployment_has_nothing_to_say(settings):
    settings.PUBLIC_URLS = ["https://weei.example.org", "https://weei.example.org:8443"]
    assert found(deploy=True) == {}


def test_names_what_the_jail_lacks(monkeypatch):
    reasons = {"limits": "active", "network": "not permitted", "seccomp": "no such system call"}
    monkeypatch.setattr(checks, "capabilities", lambda: reasons)
    assert "network (not permitted); seccomp (no such system call)" in found()["weei.W001"]


def test_says_that_no_module_can_run(monkeypatch):
    monkeypatch.setattr(checks, "capabilities", lambda: dict.fromkeys(("limits", "user"), "no child starts"))
    assert list(found()) == ["weei.E001"]


def test_asks_a_real_child(monkeypatch):
    """Not only what the tests above put in its place."""
    monkeypatch.undo()
    assert "limits" not in found().get("weei.W001", "")
    assert "weei.E001" not in found()


@pytest.mark.parametrize(
    "url",
    [
        "weei.example.org",
        "ftp://x",
        "https://",
        "https://a/b",
        "https://a?x",
        "https://u@a",
        "http://a:99999",
        "http://a:0",
        "//a",
    ],
)
def test_refuses_public_urls_that_are_no_origins(url, settings):
    settings.PUBLIC_URLS = ["https://weei.example.org", url]
    assert repr(url) in found()["weei.E002"]


@pytest.mark.parametrize("host", ["*", ".example.org", "*.example.org"])
@pytest.mark.parametrize("deploy", [False, True])
def test_refuses_wildcards_among_the_hosts(host, deploy, settings):
    settings.ALLOWED_HOSTS = ["weei.example.org", host]
    assert host in found(deploy)["weei.E003"]


def test_expects_https_of_a_deployment(settings):
    settings.PUBLIC_URLS = ["https://weei.example.org", "http://192.168.0.7:8000"]
    assert "http://192.168.0.7:8000" in found(deploy=True)["weei.W004"]
    assert found() == {}


def test_knows_how_long_a_socket_path_may_be(settings):
    settings.REDIS_URL = "unix:///" + "s" * 106
    assert found() == {}
    settings.REDIS_URL += "s"
    assert "found 108" in found()["weei.E004"]
    settings.REDIS_URL = "redis://" + "h" * 200
    assert found() == {}


def test_tries_to_write_to_the_store(settings, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    settings.STORAGE_URL = f"file://{tmp_path / 'taken' / 'artifacts'}"
    assert "taken" in found()["weei.E005"]
    settings.STORAGE_URL = "http://elsewhere"
    assert "STORAGE_URL must start with" in found()["weei.E005"]


def test_tries_to_write_to_the_folder_of_everything_else(settings, tmp_path):
    settings.VAR_DIR = tmp_path / "gone"
    assert "gone" in found()["weei.E005"]


def test_looks_at_the_room_on_the_disk(settings, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100 << 20, 96 << 20, 4 << 20))
    settings.MIN_FREE_FRACTION = 0.04
    assert found() == {}
    settings.MIN_FREE_FRACTION = 0.05
    assert "4 MiB free of 100" in found()["weei.W003"]


def test_tries_a_write_ahead_log_beside_the_database(tmp_path, monkeypatch):
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "weei.sqlite3")}
    monkeypatch.setattr(checks, "_database", lambda: database)
    assert found() == {}
    assert not list(tmp_path.glob("*probe*"))
    monkeypatch.setattr(checks, "_journal_mode", lambda path: "delete")
    assert f"in {tmp_path}: delete" in found()["weei.W002"]
    database["NAME"] = str(tmp_path / "gone" / "weei.sqlite3")
    assert "gone" in found()["weei.W002"]
    database["ENGINE"] = "django.db.backends.postgresql"
    assert found() == {}


# --- docs/operations.md ---


def variables(path):
    """The environment variables that a file reads."""
    return set(re.findall(r'\b(?:env|env_list|environ\.get)\("([A-Z_0-9]+)"', path.read_text()))


def rows():
    """First cells of all tables."""
    return set(re.findall(r"^\| `([^`]+)`", DOCUMENT, re.MULTILINE))


def test_documents_every_environment_variable():
    read = variables(ROOT / "weei_site" / "settings.py")
    assert len(read) > 25
    assert read - rows() == set()
    launched = {name for path in (ROOT / "weei_site" / "launch").glob("*.py") for name in variables(path)}
    told = {name for name in rows() if re.fullmatch("[A-Z_0-9]+", name)}
    assert told - read - launched == set()


def test_documents_the_defaults():
    """Those that are plain values in the settings."""
    source = (ROOT / "weei_site" / "settings.py").read_text()
    plain = dict(re.findall(r'env\("([A-Z_]+)", "([^"{}]+)"\)', source))
    assert len(plain) > 15
    for name, default in plain.items():
        assert re.search(rf"^\| `{name}` \| `{re.escape(default)}`", DOCUMENT, re.MULTILINE), name


def test_documents_every_check():
    source = (ROOT / "jobs" / "checks.py").read_text()
    ids = set(re.findall(r'id="(weei\.[EW]\d+)"', source))
    assert len(ids) == source.count("id=")
    assert ids == {name for name in rows() if name.startswith("weei.")}
    ours = [check for check in registry.get_checks(include_deployment_checks=True) if check.__module__ == "jobs.checks"]
    assert len(ours) == source.count("@register(")
