"""What every page weighs and how many requests it takes, and what the design gives all of them: theme, toasts with
undo, questions, keys, and the list of jobs."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import check_accessible
from tests.browser.every_page import coordinator_places, public_places, world
from tests.browser.people import Coordinator, Person, wait_until
from tests.browser.test_pages import WIDTHS, check_no_sideways

pytestmark = pytest.mark.usefixtures("nobody_complains")
MOST_BYTES = 300 * 1024
MOST_REQUESTS = 100
# What a page is about, and not what it is made of: models, data, weights, and what the server knows of the job.
CONTENT = re.compile(r"/(bytes|presets|api)/|/jobs/[0-9a-f-]{36}/(play/\w+|manifest|chart)")


@pytest.fixture(scope="module")
def made(stack):
    with world(stack) as there:
        yield there


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


def load(person, stack, place):
    """(bytes, requests, milliseconds until something was painted) of a page that this profile, new and with an empty
    cache, loads first. Bytes are those of headers and bodies as they were served, compressed where the server does so;
    Workers count too."""
    page, asked, ended = person.page, [], []
    page.on("request", lambda request: asked.append(request))
    page.on("requestfinished", lambda request: ended.append(request))
    page.on("requestfailed", lambda request: ended.append(request))
    page.goto(stack.url + place.path)
    expect(page.locator(place.ready).locator("visible=true").first).to_be_visible()
    wait_until(lambda: set(asked) <= set(ended), f"all that {place.path} asks for", 10, page)
    counted = [request for request in asked if not CONTENT.search(request.url) and request.url.startswith("http")]
    sizes = [request.sizes() for request in counted if not request.failure]
    size = sum(one["responseBodySize"] + one["responseHeadersSize"] for one in sizes)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
    return size, len(counted), round(paint)


def every_width(page):
    """Nothing grave is found at any width, and a phone need not be scrolled sideways."""
    size = page.viewport_size
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        check_accessible(page)
        check_no_sideways(page, page.url)
    page.set_viewport_size(size)


def look_at(chromium, stack, places, found, state=None):
    """`state`: whose session the new profiles have."""
    for place in places:
        with Person(chromium, place.name, storage_state=state) as visitor:
            found[place.name] = load(visitor, stack, place)
            every_width(visitor.page)
            if place.name == "not-found":
                visitor.forgive(404, place.path)
            assert visitor.complaints == [], place


def test_every_page_is_light_and_open_to_everybody(stack, chromium, made, alice):
    """Under 300 KiB without model and data, and nothing grave for axe-core. The first paint is told, not judged, for
    machines differ."""
    found = {}
    look_at(chromium, stack, public_places(made), found)
    session = {"cookies": alice.context.cookies(), "origins": []}
    look_at(chromium, stack, coordinator_places(made), found, session)
    for name, (size, requests, paint) in sorted(found.items(), key=lambda item: -item[1][0]):
        print(f"{name:20} {size / 1024:6.1f} KiB {requests:3} requests, first paint after {paint} ms")
    assert {name: size for name, (size, _, _) in found.items() if not 0 < size < MOST_BYTES} == {}
    assert {name: count for name, (_, count, _) in found.items() if not 0 < count < MOST_REQUESTS} == {}


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_theme_is_chosen_remembered_and_in_the_first_answer(stack, alice):
    page = alice.page
    page.goto(f"{stack.url}/jobs/")
    light = background(page)
    page.get_by_role("button", name="Dark", exact=True).click()
    dark = background(page)
    assert dark != light
    page.reload()
    assert background(page) == dark
    expect(page.get_by_role("button", name="Dark", exact=True)).to_have_attribute("aria-pressed", "true")
    assert 'media="all"' in page.request.get(f"{stack.url}/jobs/").text()
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Light", exact=True).click()
    assert background(page) == light
    page.get_by_role("button", name="Auto", exact=True).click()
    assert background(page) == dark
    page.emulate_media(color_scheme="light")
    assert background(page) == light


def test_a_deleted_job_comes_back_by_the_toast(stack, made, alice):
    page = alice.page
    page.goto(f"{stack.url}/jobs/?q=Night+run+8")
    page.get_by_role("link", name="Night run 8").click()
    job = page.url
    page.goto(f"{job}delete")
    page.locator("#id_confirmation").fill("Night run 8")
    page.get_by_role("button", name="Delete the job").click()
    toast = page.locator("#toasts .toast")
    expect(toast).to_contain_text("“Night run 8” was deleted.")
    check_accessible(page)
    page.goto(f"{stack.url}/help/")
    page.goto(job)
    alice.forgive(404, job.removeprefix(stack.url))
    page.goto(f"{stack.url}/jobs/")
    page.get_by_role("button", name="Undo the deletion of Night run 8").click()
    page.wait_for_url(job)
    expect(page.locator("#toasts .toast")).to_contain_text("“Night run 8” is back.")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#toasts .toast")).to_have_count(0)


def test_what_would_be_lost_is_asked_by_name_and_cancelled(stack, made, alice):
    page = alice.page
    alice.open_job(stack, made.running)
    page.locator("#do-finish").click()
    question = page.get_by_role("dialog")
    expect(question.get_by_role("heading")).to_have_text("Finish “Handwritten digits” now?")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    check_accessible(page)
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(page.locator("#do-finish")).to_be_focused()
    expect(page.locator("#do-pause")).to_be_visible()


def test_keys_lead_through_the_list_and_the_job(stack, made, alice):
    page = alice.page
    page.goto(f"{stack.url}/help/")
    page.keyboard.type("gj")
    page.wait_for_url(f"{stack.url}/jobs/")
    page.keyboard.press("/")
    page.keyboard.type("night")
    expect(page.locator("#job-list h2").first).to_contain_text("Night run")
    expect(page).to_have_url(re.compile(r"\?q=night"))
    # In a field, keys are text.
    assert page.locator("#job-search").input_value() == "night"
    page.keyboard.press("Escape")
    page.keyboard.type("jj")
    expect(page.locator("#job-list h2 a").nth(1)).to_be_focused()
    page.keyboard.type("k")
    expect(page.locator("#job-list h2 a").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/$"))
    alice.open_job(stack, made.running)
    page.keyboard.press("Space")
    expect(page.locator("#do-resume")).to_be_visible()
    expect(page.locator("#toasts")).to_contain_text("The job is paused.")
    page.keyboard.press("Space")
    expect(page.locator("#do-pause")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\d+ % · Handwritten digits"))


def test_keys_are_listed_and_can_be_switched_off(stack, alice):
    page = alice.page
    page.goto(f"{stack.url}/help/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    check_accessible(page)
    page.get_by_role("dialog", name="Keyboard shortcuts").get_by_label("Shortcuts are on").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    page.keyboard.type("gj?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url == f"{stack.url}/help/"
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("Shortcuts are on").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.type("gj")
    page.wait_for_url(f"{stack.url}/jobs/")


def test_a_server_that_does_not_answer_is_said_and_asked_again(stack, made, alice):
    page = alice.page
    alice.open_job(stack, made.running)
    page.route("**/panels/**", lambda route: route.abort())
    expect(page.locator("#connection")).to_be_visible()
    page.unroute("**/panels/**")
    page.locator("#connection-retry").click()
    expect(page.locator("#connection")).to_be_hidden()
    alice.complaints.clear()
