"""The built-in window, on a page of somebody's own whose styles are as bad as can be."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.own_page import OwnPage
from tests.browser.people import CHUNKS, DIGITS, RESULTS, Coordinator, Participant
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
LONG = {"epochs": 10_000, "localEpochs": 4000, "batchSize": 16, "learningRate": 0.01}
# A page that hides, colours and enlarges whatever it can reach.
STYLE = """* { color: rgb(255, 0, 0); font: 40px serif !important; letter-spacing: 9px; visibility: visible }
div, section, button:not(#mine), p, ul, weei-window { display: none; opacity: .1; position: static; width: 9px }"""
LOOKS = """() => [...document.querySelectorAll("body, main, h1, #mine")].map((element) => {
  const style = getComputedStyle(element);
  return [...style].map((name) => `${name}:${style.getPropertyValue(name)}`).join(";");
}).concat([String(document.styleSheets.length), String(document.adoptedStyleSheets.length)])"""
OPEN = "async () => (await window.weeiReady).widgetsApi.enable('distributed-training')"


@pytest.fixture(scope="module")
def job(stack):
    return DigitsJob(stack, **LONG, validationSchedule={"enabled": False, "unit": "round", "every": 1})


@pytest.fixture(scope="module")
def bob(stack, chromium):
    with Participant(chromium, "bob") as person:
        person.own = OwnPage(person, stack, style=STYLE)
        yield person


@pytest.fixture(scope="module")
def window(bob):
    return bob.page.get_by_role("dialog")


def offered(bob, job):
    bob.own.call("(token) => training.openInvitation(token)", job.link.rstrip("/").rsplit("/", 1)[-1])


def picture(page, name):
    RESULTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=RESULTS / f"widget-{name}.png")


def test_the_window_leaves_the_page_as_it_is_and_the_page_the_window(bob, window):
    page = bob.page
    before = page.evaluate(LOOKS)
    page.locator("#mine").focus()
    bob.own.call(OPEN)
    expect(window).to_be_visible()
    assert page.evaluate(LOOKS) == before
    close = window.get_by_role("button", name="Close the window; training goes on")
    looks = close.evaluate(
        "(e) => [getComputedStyle(e).fontSize, getComputedStyle(e).color, getComputedStyle(e).opacity]"
    )
    assert looks == ["15px", "rgb(23, 33, 30)", "1"]
    host = page.locator("weei-window").bounding_box()
    size = page.viewport_size
    assert host["width"] == 400 and host["x"] + host["width"] == size["width"] - 16


def test_escape_closes_it_and_the_focus_goes_back(bob, window):
    page = bob.page
    bob.own.call(OPEN)
    page.keyboard.press("Tab")
    expect(window.get_by_role("button", name="Close the window")).to_be_focused()
    page.keyboard.press("Escape")
    expect(window).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == "mine"
    page.keyboard.press("Escape")
    bob.own.call(OPEN)
    bob.own.call(OPEN)
    expect(window).to_have_count(1)


def test_an_invitation_is_decided_in_it_and_the_part_paused_and_resumed(bob, window, job):
    offered(bob, job)
    invitations = window.get_by_role("region", name="Invitations", exact=True)
    expect(invitations).to_contain_text("digits.wasm")
    expect(invitations).to_contain_text("12 chunks")
    assert not bob.fetched("/bytes/")
    picture(bob.page, "invitation")
    invitations.get_by_role("button", name=re.compile("^Accept the invitation")).click()
    expect(invitations).to_be_hidden()
    job.start(wanted=1)
    device = window.get_by_role("region", name="This device", exact=True)
    expect(device.get_by_role("status")).to_have_text("Training.", timeout=60_000)
    expect(window.get_by_role("region", name="Participants", exact=True)).to_contain_text("this browser")
    expect(window.get_by_role("region", name="Job", exact=True)).to_contain_text("of 10000")
    picture(bob.page, "training")
    device.get_by_role("button", name="Pause this device's contribution").click()
    expect(device.get_by_role("status")).to_have_text("Your contribution is paused.")
    device.get_by_role("button", name="Resume this device's contribution").click()
    expect(device.get_by_role("status")).to_have_text("Training.")


def test_training_goes_on_hidden_and_closed_and_after_a_reload(bob, window, job):
    own = bob.own
    handle = "(() => { window.kept = training; })()"
    own.call(handle)
    own.call("async () => (await window.weeiReady).setVisibility(false)")
    expect(window).to_be_hidden()
    seen = own.call("training.getState().job.round")
    own.wait("s.job.round > argument && s.participation.stage === 'training'", 120, seen)
    own.call("async () => (await window.weeiReady).setVisibility(true)")
    expect(window).to_be_visible()
    window.get_by_role("button", name="Close the window").click()
    expect(window).to_have_count(0)
    seen = own.call("kept.getState().job.round")
    own.wait("kept.getState().job.round > argument", 120, seen)
    own.open()
    own.wait("s.job?.id === argument && s.participation.stage === 'training'", 60, job.id)
    expect(window).to_have_count(0)


def test_two_tabs_are_one_peer_with_one_set_of_settings(bob, job, stack):
    """The newest one trains, and the older may take it back."""
    first, second = bob.own, OwnPage(bob, stack, page=bob.context.new_page())
    first.wait("s.participation.replaced")
    second.wait("s.participation.stage === 'training' && s.job?.id === argument", 60, job.id)
    assert first.call("training.getState().myPeerId") == second.call("training.getState().myPeerId")
    second.call("training.setMaxLocalWorkers(5)")
    first.wait("s.maxLocalWorkers === 5")
    first.call("training.trainHere()")
    first.wait("!s.participation.replaced && s.participation.stage === 'training'", 60)
    second.wait("s.participation.replaced")
    second.call("training.pauseContribution()")
    first.wait("s.pausedContribution")
    first.call("training.resumeContribution()")
    second.wait("!s.pausedContribution")
    second.page.close()


def test_it_fits_a_telephone_light_and_dark(bob, window):
    page = bob.page
    size = page.viewport_size
    bob.own.call(OPEN)
    page.set_viewport_size({"width": 390, "height": 700})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture(page, f"phone-{scheme}")
        box = window.bounding_box()
        assert (box["x"], box["width"]) == (0, 390) and box["height"] <= 595
        inside = window.evaluate("(e) => e.lastElementChild.scrollWidth - e.lastElementChild.clientWidth")
        assert inside <= 0
    ink = window.evaluate("(e) => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
    assert ink == ["rgb(232, 238, 235)", "rgb(24, 32, 29)"]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(size)


def test_settings_of_the_device_are_kept_and_a_wrong_one_is_explained(bob, window):
    settings = window.get_by_role("region", name="Settings of this device", exact=True)
    settings.locator("summary").click()
    workers = settings.get_by_label("Workers at most")
    workers.fill("3")
    settings.get_by_role("button", name="Save").click()
    bob.own.wait("s.maxLocalWorkers === 3")
    workers.fill("0")
    settings.get_by_role("button", name="Save").click()
    expect(window.get_by_role("alert").first).to_contain_text("whole number from 1 to 64")
    bob.own.open()
    assert bob.own.call("training.getState().maxLocalWorkers") == 3


def test_leaving_shows_what_else_can_be_done(bob, window):
    bob.own.call(OPEN)
    window.get_by_role("button", name="Leave the job").click()
    expect(window.get_by_role("region", name="A job of your own", exact=True)).to_be_visible()
    assert bob.own.call("training.getState().job") is None


def test_a_coordinator_runs_a_job_in_it(stack, chromium, tmp_path):
    with Coordinator(chromium, "alice") as alice:
        own = OwnPage(alice.sign_in(stack), stack)
        own.call(OPEN)
        window = alice.page.get_by_role("dialog")
        window.get_by_text("Create or continue a job").click()
        window.get_by_label("Model module").set_input_files([DIGITS / "digits.wasm"])
        window.get_by_label("Manifest (.json)").set_input_files([DIGITS / "data/manifest.json"])
        window.get_by_label("Dataset files").set_input_files(CHUNKS)
        window.get_by_label("Passes over the data").fill("1")
        window.get_by_role("button", name="Create", exact=True).click()
        window.get_by_role("button", name="Start", exact=True).click(timeout=90_000)
        window.get_by_role("button", name="New invitation link").click()
        expect(window.get_by_label("Invitation link")).to_have_value(re.compile("/join/"))
        own.wait("s.job.status === 'completed' && s.job.checkpoints.length === 13", 120)
        expect(window.get_by_role("region", name="Job", exact=True).get_by_role("status")).to_have_text(
            "All planned passes are done."
        )
        picture(alice.page, "completed")
        with alice.page.expect_download() as started:
            window.get_by_role("button", name=re.compile("^Download the checkpoint of round 12,")).click()
        saved = tmp_path / started.value.suggested_filename
        started.value.save_as(saved)
        assert re.fullmatch(r".*-round-12\.weei-checkpoint", saved.name) and saved.stat().st_size > 1000
        window.get_by_role("button", name="Leave the job").click()
        window.get_by_text("Saved jobs", exact=True).click()
        window.get_by_role("button", name="Show saved jobs").click()
        window.get_by_role("button", name=re.compile("^Open ")).first.click()
        expect(window.get_by_role("region", name="Checkpoints", exact=True)).to_contain_text("Round 12")


def test_a_widget_that_does_not_exist_is_refused(bob):
    refused = bob.own.call("async () => (await weeiReady).widgetsApi.enable('toaster').catch((error) => error.message)")
    assert refused == 'There is no widget "toaster"; there is "distributed-training".'
    assert bob.own.call("async () => (await weeiReady).widgetsApi.get('toaster') === undefined")
