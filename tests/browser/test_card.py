"""The Execution diagnostics card and what stands around it: rows that are patched, sorted and filtered, live metrics,
and the settings of this device."""

import copy
import re

import pytest
from playwright.sync_api import expect

from tests.browser import card_state
from tests.browser.people import Coordinator, Participant
from tests.browser.test_pages import LONG, check_page
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
ROWS = "#panel-diagnostics tbody[data-peer]"
SHOWN = f"{ROWS}:visible"
# When the server was last asked stands in the panel, too, and is no figure.
WATCH = """() => {
  window.patches = 0;
  const figure = ({ target }) => !(target instanceof Element && target.matches("[data-marker]"));
  const everything = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver((changes) => { window.patches += changes.some(figure); })
    .observe(document.getElementById("panel-diagnostics"), everything);
}"""
REMEMBER = "(peer) => { document.querySelector(`tbody[data-peer='${peer}']`).remembered = true; }"
REMEMBERED = """(peer) => {
  const body = document.querySelector(`tbody[data-peer='${peer}']`);
  return [Boolean(body.remembered), body.querySelector("details").open, body.contains(document.activeElement)];
}"""


@pytest.fixture(scope="module")
def job(stack):
    return DigitsJob(stack)


@pytest.fixture
def ada(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


def show(ada, stack, job, people, points=0):
    """The job's page with a clock that stands still, and these participants. Returns the state it hears."""
    state = card_state.state_of(job.id, people, points)
    ada.page.clock.install(time="2026-01-01T00:00:00")
    card_state.fake(ada.page, state)
    ada.open_job(stack, job.id)
    expect(ada.page.locator("#device-state")).not_to_have_text("Looking…")
    ada.page.clock.pause_at("2026-01-01T01:00:00")
    card_state.change(ada.page, state)
    tick(ada.page)
    return state


def tick(page):
    page.clock.run_for(1000)


def row(page, peer):
    return page.locator(f"tbody[data-peer='{peer}']")


def test_nobody_is_said_in_words(stack, ada, job):
    show(ada, stack, job, {})
    expect(ada.page.locator("[data-slot=empty]")).to_have_text("Nobody takes part yet.")
    expect(ada.page.locator("table.diagnostics")).to_be_hidden()
    expect(ada.page.locator("[data-slot=verdict]")).to_be_hidden()
    check_page(ada.page, "card-0")


def test_three_rows_say_what_each_does_and_who_differs(stack, ada, job):
    people = card_state.participants(3)
    first, second, third = people
    people[second]["entry"]["assignment"]["batchSize"] = 64
    people[second]["entry"]["execution"] |= {"requested": "gpu", "fallbackReason": "The job has no GPU shaders."}
    people[third]["entry"] |= {"connected": False, "stale": True, "ageMs": 75_000}
    show(ada, stack, job, people, points=30)
    page = ada.page
    expect(page.locator("[data-slot=verdict]")).to_have_text("1 of 2 participants differs from the others.")
    expect(page.locator("[data-slot=lines] li")).to_have_text(
        [re.compile(r"Firefox 153 on Linux \(\w+\): batch size 64")]
    )
    expect(row(page, first).locator("[data-slot=state]")).to_have_text("Training")
    expect(row(page, second).locator("[data-slot=why]")).to_have_text("GPU was asked for: The job has no GPU shaders.")
    expect(row(page, third).locator("[data-slot=fresh]")).to_have_text("Disconnected, 1 min 16 s old")
    expect(page.locator("#diagnostics-filters")).to_be_hidden()
    expect(page.locator("#live-legend li")).to_have_count(3)
    row(page, second).locator("summary").click()
    expect(row(page, second).locator("[data-slot=attempt]")).to_have_text("at-1")
    check_page(page, "card-3")


def test_rows_are_patched_once_a_second_and_keep_focus_and_what_is_open(stack, ada, job):
    people = card_state.participants(5)
    peer = list(people)[2]
    state = show(ada, stack, job, people)
    page = ada.page
    row(page, peer).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(row(page, peer).locator("[data-slot=steps]")).to_have_text("—")
    page.evaluate(REMEMBER, peer)
    page.evaluate(WATCH)
    later = copy.deepcopy(state)
    for entry in later["diagnostics"].values():
        entry["performance"]["processedExamples"] += 50
        entry["performance"]["optimizerSteps"] = 77
    card_state.change(page, state, times=50)
    card_state.change(page, later, times=50)
    assert page.evaluate("window.patches") == 0
    tick(page)
    assert page.evaluate("window.patches") == 1
    expect(row(page, peer).locator("[data-slot=done]")).to_contain_text("52 of 625 examples")
    expect(row(page, peer).locator("[data-slot=steps]")).to_have_text("77")
    assert page.evaluate(REMEMBERED, peer) == [True, True, True]


def test_what_has_not_changed_is_not_written(stack, ada, job):
    people = card_state.participants(10)
    state = show(ada, stack, job, people)
    ada.page.evaluate(WATCH)
    card_state.change(ada.page, state)
    tick(ada.page)
    assert ada.page.evaluate("window.patches") == 0
    next(iter(state["diagnostics"].values()))["performance"]["processedExamples"] = 600
    card_state.change(ada.page, state)
    tick(ada.page)
    assert ada.page.evaluate("window.patches") == 1


def test_figures_grow_stale_without_any_news(stack, ada, job):
    """C70: by this browser's clock; when nobody is fresh, what the server says counts."""
    people = card_state.participants(2)
    peer = next(iter(people))
    show(ada, stack, job, people)
    expect(row(ada.page, peer).locator("[data-slot=fresh]")).to_have_text("Live")
    for entry in (of["entry"] for of in people.values()):
        entry["ageMs"] = 8_000
    next(reversed(people.values()))["entry"]["ageMs"] = 0
    card_state.change(ada.page, card_state.state_of(job.id, people))
    ada.page.clock.run_for(4000)
    expect(row(ada.page, peer).locator("[data-slot=fresh]")).to_have_text("Stale, 12 s old")


def test_who_leaves_goes_and_who_comes_is_added(stack, ada, job):
    people = card_state.participants(4)
    show(ada, stack, job, dict(list(people.items())[:3]))
    expect(ada.page.locator(ROWS)).to_have_count(3)
    card_state.change(ada.page, card_state.state_of(job.id, dict(list(people.items())[1:])))
    tick(ada.page)
    seen = ada.page.locator(ROWS).evaluate_all("(bodies) => bodies.map((body) => body.dataset.peer)")
    assert seen == list(people)[1:]


def test_two_hundred_are_sorted_and_filtered(stack, ada, job):
    people = card_state.participants(200)
    state = show(ada, stack, job, people, points=5)
    page = ada.page
    expect(page.locator(SHOWN)).to_have_count(200)
    check_page(page, "card-200")
    speeds = "(bodies) => bodies.map((body) => parseFloat(body.querySelector('[data-slot=speed]').textContent))"
    page.get_by_role("button", name="Speed").click()
    expect(page.get_by_role("columnheader", name="Speed")).to_have_attribute("aria-sort", "descending")
    found = page.locator(ROWS).evaluate_all(speeds)
    assert found == sorted(found, reverse=True) and found[0] > found[-1]
    page.get_by_label("Only those that differ").check()
    expect(page.locator(SHOWN)).to_have_count(5)
    expect(page.locator("#diagnostics-said")).to_have_text("5 of 200 participants are shown.")
    page.get_by_label("Only those that differ").uncheck()
    page.get_by_label("Find a participant").fill("firefox")
    expect(page.locator(SHOWN)).to_have_count(50)
    page.get_by_label("State", exact=True).select_option("Training")
    expect(page.locator("#diagnostics-said")).to_have_text(re.compile(r"^\d+ of 200 participants are shown\.$"))
    # A filter stays while figures change, and the live region says nothing of them.
    shown = page.locator(SHOWN).count()
    said = page.locator("#diagnostics-said").inner_text()
    for entry in state["diagnostics"].values():
        entry["performance"]["processedExamples"] += 1
    card_state.change(page, state)
    tick(page)
    assert (page.locator(SHOWN).count(), page.locator("#diagnostics-said").inner_text()) == (shown, said)
    assert 0 < shown < 50
    expect(page.locator("#live-legend li")).to_have_count(12)
    expect(page.locator("#live-note")).to_have_text("The first 12 of 200 participants are drawn.")


def test_a_row_with_the_focus_stays_where_it_is(stack, ada, job):
    """Sorted by speed, rows change places, but not while a person is in one of them."""
    people = card_state.participants(6)
    state = show(ada, stack, job, people)
    page = ada.page
    page.get_by_role("button", name="Speed").click()
    order = "(bodies) => bodies.map((body) => body.dataset.peer)"
    before = page.locator(ROWS).evaluate_all(order)
    row(page, before[0]).locator("summary").focus()
    slower = copy.deepcopy(state)
    slower["diagnostics"][before[0]]["performance"]["currentExamplesPerSecond"] = 1
    card_state.change(page, slower)
    tick(page)
    assert page.locator(ROWS).evaluate_all(order) == before
    page.locator("#diagnostics-find").focus()
    page.mouse.move(0, 0)
    tick(page)
    assert page.locator(ROWS).evaluate_all(order) == [*before[1:], before[0]]


def test_a_phone_sorts_by_a_list(stack, ada, job):
    show(ada, stack, job, card_state.participants(6))
    page = ada.page
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("button", name="Speed")).to_be_hidden()
    page.get_by_label("Order").select_option("speed")
    first = page.locator(ROWS).first
    expect(first.locator("[data-slot=speed]")).to_have_text("135/s")


def test_a_changed_verdict_is_said_once(stack, ada, job):
    people = card_state.participants(3)
    show(ada, stack, job, people)
    said = ada.page.locator("#diagnostics-said")
    expect(said).to_have_text("")
    next(iter(people.values()))["entry"]["assignment"]["batchSize"] = 64
    card_state.change(ada.page, card_state.state_of(job.id, people))
    tick(ada.page)
    expect(said).to_have_text("1 of 3 participants differs from the others.")


def test_settings_of_this_device_are_kept_and_refused_in_sentences(stack, chromium):
    with Participant(chromium, "dora") as dora:
        page = dora.page
        page.goto(f"{stack.url}/train/")
        page.locator("#device-settings summary").click()
        page.get_by_label("GPU memory at most (MiB)").fill("2048")
        page.get_by_label("Compute on").select_option("gpu")
        workers = page.get_by_label("Workers at most")
        workers.fill("0")
        workers.press("Tab")
        expect(page.locator("#workers-problem")).to_contain_text("must be a whole number from 1 to 64; found 0.")
        expect(workers).to_have_attribute("aria-invalid", "true")
        expect(workers).to_have_value("0")
        workers.fill("1")
        workers.press("Tab")
        expect(page.locator("#workers-problem")).to_be_hidden()
        page.reload()
        page.locator("#device-settings summary").click()
        expect(page.get_by_label("GPU memory at most (MiB)")).to_have_value("2048")
        expect(page.get_by_label("Compute on")).to_have_value("gpu")
        expect(workers).to_have_value("1")


def test_a_real_participant_is_seen_live_by_a_coordinator_with_and_without_a_device(stack, chromium):
    """Without a peer of its own the page looks at the server's rows; as a peer it hears of every stage, and draws."""
    job = DigitsJob(stack, **LONG)
    with Participant(chromium, "bob") as bob, Coordinator(chromium, "alice") as alice:
        bob.page.goto(f"{stack.url}/train/")
        bob.join(job.link)
        job.start(wanted=1)
        bob.wait_for_stage("Training")
        page = alice.sign_in(stack).open_job(stack, job.id).page
        expect(page.locator(f"{ROWS} [data-slot=state]")).to_have_text("Training")
        expect(page.locator(f"{ROWS} [data-slot=fresh]")).to_have_text("Live")
        expect(page.locator("#live")).to_be_hidden()
        page.locator("#device-open").click()
        expect(page.locator("#device-leave")).to_be_visible()
        expect(page.locator("#live-legend li")).to_have_count(1, timeout=60_000)
        bob.page.locator("#train-pause").click()
        expect(page.locator(f"{ROWS} [data-slot=state]").first).to_have_text("Waiting")
