"""Every error code that a person can meet is explained."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse

from weei_site.help_errors import GROUPS

APPS = ("weei_core", "weei_site", "jobs", "peers", "checkpoints", "diagnostics")
ENTRIES = [entry for group in GROUPS for entry in group.entries]
CODE = re.compile(r'(?:\bcode=|default_code(?:: str)? = )"([a-z_]+)"')


def codes_in_the_code():
    root = Path(settings.BASE_DIR)
    files = [path for app in APPS for path in (root / app).rglob("*.py") if "migrations" not in path.parts]
    return {code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))}


def codes_in_the_protocol():
    text = (Path(settings.BASE_DIR) / "docs/protocol.md").read_text(encoding="utf-8")
    table = text.split("| code | status | meaning |")[1].split("\n\n")[0]
    return {code for line in table.splitlines()[2:] for code in re.findall(r"`([a-z_]+)`", line.split("|")[1])}


def test_finds_codes_at_all():
    assert {"unauthorized", "invalid", "wrong_status"} <= codes_in_the_code()
    assert {"stale_attempt", "storage_full"} <= codes_in_the_protocol()


def test_every_code_has_an_entry():
    assert sorted((codes_in_the_code() | codes_in_the_protocol()) - {entry.code for entry in ENTRIES}) == []


def test_no_entry_is_written_twice():
    codes = [entry.code for entry in ENTRIES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_entry_says_what_it_is_and_what_to_do(entry):
    assert all(text.endswith(".") for text in (entry.meaning, entry.action))


def test_the_page_has_an_anchor_for_each(client, db):
    text = client.get("/help/errors").content.decode()
    assert reverse("help-errors") == "/help/errors"
    assert [entry.code for entry in ENTRIES if f'id="{entry.code}"' not in text] == []


def test_error_pages_are_pages(client, db, settings):
    settings.DEBUG = False
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


def test_the_page_for_a_broken_server_needs_nothing_that_could_be_broken():
    from django.template.loader import render_to_string

    text = render_to_string("500.html")
    assert "Something broke" in text and "{%" not in text
