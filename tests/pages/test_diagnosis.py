"""The Execution diagnostics card: the texts of its rows, who differs in what, and what its fragment holds. The scripts
of the page are held to the same golden file by tests/pages/diagnostics.test.js."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.conf import settings
from django.urls import reverse

from diagnostics.live import snapshot_put
from jobs.selectors.comparing import compare
from jobs.selectors.diagnosis import diagnosis
from jobs.templatetags.weei import STATE_WORDS
from tests.pages import factories

ROOT = Path(settings.BASE_DIR)
GOLDEN = json.loads((ROOT / "tests/golden/card.json").read_text(encoding="utf-8"))


def person(of):
    facts = {
        "label": of["label"],
        "state": of["state"],
        "connected": of["connected"],
        "load_error": of.get("error", ""),
    }
    return SimpleNamespace(peer_id=UUID(of["peerId"]), snapshot=of["snapshot"], age_ms=of["ageMs"], **facts)


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=[case["about"] for case in cases])


def test_writes_the_texts_of_the_golden_file():
    found = diagnosis([person(of) for of in GOLDEN["people"]], GOLDEN["units"])
    for row, of in zip(found.rows, GOLDEN["people"], strict=True):
        assert (of["about"], dict(row.cells)) == (of["about"], of["cells"])
        assert (of["about"], dict(row.tones)) == (of["about"], of["tones"])


@named(GOLDEN["comparisons"])
def test_compares_as_in_the_golden_file(case):
    found = compare(dict(case["of"]))
    assert (found.sentence, found.tone, found.differing) == (case["sentence"], case["tone"], case["differing"])


def test_those_who_do_not_take_part_have_no_row():
    away = [person({**GOLDEN["people"][0], "state": state}) for state in ("invited", "declined")]
    assert diagnosis(away, "examples").rows == []


def test_who_is_away_is_not_compared():
    """What it worked with an hour ago is no difference now."""
    here, other, away = (
        person({**of, "peerId": UUID(int=n).hex}) for n, of in enumerate(GOLDEN["people"][:2] * 2) if n < 3
    )
    away.connected, away.snapshot = False, other.snapshot
    other.snapshot = here.snapshot
    assert diagnosis([here, other, away], "examples").comparison.tone == "good"


def test_the_page_has_the_same_words_for_states():
    script = 'import("./static/pages/words.js").then((words) => console.log(JSON.stringify(words.STATE_WORDS)))'
    done = subprocess.run(["node", "-e", script], cwd=ROOT, capture_output=True, text=True, check=True)
    words = {state: tuple(word) for state, word in json.loads(done.stdout).items()}
    assert words == {state: STATE_WORDS.get(state) for state in words}


def fragment(client, job):
    return client.get(reverse("job-panel", args=[job.pk, "diagnostics"])).content.decode()


def test_the_template_has_a_place_for_every_text(job, owner_client):
    """And no place that nothing fills: both would go unseen."""
    member = factories.make_participant(job)
    snapshot_put(member.peer_id, factories.make_snapshot(job))
    text = fragment(owner_client, job)
    slots = set(re.findall(r'data-slot="(\w+)"', text[text.index("<tbody") :].split("</table>")[0]))
    assert slots == set(GOLDEN["people"][0]["cells"])


def test_new_rows_are_made_of_the_server_s_template(job, owner_client):
    text = owner_client.get(reverse("job-detail", args=[job.pk])).content.decode()
    template = re.search(r'<template id="diagnostics-row">(.*?)</template>', text, re.S)[1]
    assert re.findall(r'data-slot="(\w+)"[^>]*>([^<]+)<', template) == []
    assert 'data-peer=""' in template and 'data-speed=""' in template and 'data-age=""' in template


def test_rows_carry_the_numbers_to_sort_by(job, owner_client):
    fast, silent = factories.make_participant(job), factories.make_participant(job)
    snapshot_put(fast.peer_id, factories.make_snapshot(job))
    text = fragment(owner_client, job)
    assert re.search(rf'data-peer="{fast.peer_id}" data-speed="5210.4" data-age="\d+"', text)
    assert f'data-peer="{silent.peer_id}" data-speed="" data-age=""' in text
