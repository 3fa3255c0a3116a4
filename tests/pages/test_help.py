"""Every error code that a person can meet is explained, and every message on a page leads there."""

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse

from weei_site.help_errors import GROUPS
from weei_site.help_topics import TOPICS

ROOT = Path(settings.BASE_DIR)
PROGRAMS = ("weei_core", "weei_agent", "weei_site", "jobs", "peers", "checkpoints", "diagnostics")
ENTRIES = [entry for group in GROUPS for entry in group.entries]
CODE = re.compile(r'(?:\bcode=|default_code(?:: str)? = |WeeiError\()"([a-z_]+)"')
JS_CODE = re.compile(r'(?:new \w*Error\(|this\.code = |\bcode: )"([a-z_]+)"')
HELP = sorted((ROOT / "templates/help").glob("*.html"))
# A field of this name in the list of messages is no code.
NO_CODE = {"text"}


def read(*parts, ending):
    files = [path for part in parts for path in (ROOT / part).rglob(f"*.{ending}") if "migrations" not in path.parts]
    return [path.read_text(encoding="utf-8") for path in files]


def codes_in_the_code():
    found = {code for text in read(*PROGRAMS, ending="py") for code in CODE.findall(text)}
    return found | {code for text in read("static/weei", ending="js") for code in JS_CODE.findall(text)} - NO_CODE


def codes_of_modules():
    return set(json.loads((ROOT / "weei_core/abi/errors.json").read_text(encoding="utf-8")))


def codes_in_the_protocol():
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    table = text.split("| code | status | meaning |")[1].split("\n\n")[0]
    return {code for line in table.splitlines()[2:] for code in re.findall(r"`([a-z_]+)`", line.split("|")[1])}


def test_finds_codes_at_all():
    assert {"unauthorized", "invalid", "wrong_status", "stalled", "hash_mismatch"} <= codes_in_the_code()
    assert {"trap", "memory_limit"} <= codes_of_modules()
    assert {"stale_attempt", "storage_full"} <= codes_in_the_protocol()


def test_every_code_has_an_entry():
    found = codes_in_the_code() | codes_in_the_protocol() | codes_of_modules()
    assert sorted(found - {entry.code for entry in ENTRIES}) == []


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


def test_messages_on_pages_lead_to_their_entry():
    """In page scripts only dom.js and new_job.js, which add the link, take the sentence out of an error. A model's own
    form tells a person what to type, which needs no page."""
    takes = re.compile(r"\.message\b")
    paths = [path for path in (ROOT / "static/pages").rglob("*.js") if takes.search(path.read_text(encoding="utf-8"))]
    assert {path.name for path in paths} == {"dom.js", "new_job.js", "form.js", "inputs.js"}
    assert "helpLink(code)" in (ROOT / "static/pages/creation.js").read_text(encoding="utf-8")
    assert "help-errors' %}#{{ error.code }}" in (ROOT / "templates/_error.html").read_text(encoding="utf-8")


def test_every_topic_is_a_page_that_the_index_names(client, db):
    index = client.get(reverse("help")).content.decode()
    for topic in TOPICS:
        address = reverse("help-topic", args=[topic.slug])
        assert f'href="{address}"' in index
        text = client.get(address).content.decode()
        assert f"<h1>{topic.title.replace('&', '&amp;')}</h1>" in text
    assert {path.stem for path in HELP} == {"_topic", "index", "errors"} | {topic.slug for topic in TOPICS}


def test_a_topic_that_is_none_is_not_there(client, db):
    assert client.get("/help/nothing/").status_code == 404


def test_error_pages_are_pages(client, db, settings):
    settings.DEBUG = False
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


def test_the_page_for_a_broken_server_needs_nothing_that_could_be_broken():
    from django.template.loader import render_to_string

    text = render_to_string("500.html")
    assert "Something broke" in text and "{%" not in text
