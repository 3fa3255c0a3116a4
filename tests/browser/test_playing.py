"""Looking at what was learned: a policy balances a pole, a game is played, a model is asked in the browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import Coordinator, wait_until
from tests.browser.playing import SEED, train
from tests.browser.test_pages import check_page, tab_to
from tests.stack.model_jobs import CartPoleJob, DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
ROUNDS = 30


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def pole(stack, tmp_path_factory):
    """CartPole after thirty rounds of two participants."""
    job = CartPoleJob(stack, seed=str(SEED))
    train(job, "cartpole", tmp_path_factory.mktemp("cartpole"), rounds=range(1, ROUNDS + 1), units=32)
    return job.id


def watch(person, stack, job, query=""):
    """Open the page and wait for the checkpoint. Pictures of a page before this one were taken without motion."""
    person.page.emulate_media(reduced_motion="no-preference")
    person.page.goto(f"{stack.url}/jobs/{job}/play/{query}")
    expect(person.page.locator("#play-state")).to_contain_text("is loaded")
    return person.page


def lean(page):
    """The angle at which the pole is drawn."""
    return page.locator("#pole-pole").get_attribute("transform")


def step(page):
    return int(page.locator("#pole-count").inner_text())


def test_the_policy_is_shown_balancing(stack, alice, pole):
    alice.open_job(stack, pole)
    alice.page.get_by_role("link", name="Watch it").click()
    page = alice.page
    expect(page.locator("#play-status")).to_have_text(f"Round {ROUNDS} balances…")
    wait_until(lambda: step(page) > 50, "the fiftieth step", 30, page)
    seen = lean(page)
    wait_until(lambda: lean(page) != seen, "the pole to move", 30, page)
    page.locator("#pole-speed").select_option("4")
    expect(page.locator("#play-status")).to_have_text(
        f"Round {ROUNDS}, seed 1: it balanced for all 500 steps. Return 500."
    )
    assert step(page) == 500
    # What the picture shows is told to those who do not see it.
    expect(page.get_by_role("img", name=re.compile("it balanced for all 500 steps"))).to_be_visible()
    check_page(page, "play-cartpole")


def test_an_untrained_policy_soon_falls_from_the_same_start(stack, alice, pole):
    page = watch(alice, stack, pole, "?round=0")
    expect(page.locator("#play-status")).to_contain_text(re.compile(r"Round 0, seed 1: it balanced for \d+ steps"))
    fallen = step(page)
    assert fallen < 100
    page.locator("#play-later").click()
    expect(page.locator("#play-status")).to_contain_text("Round 1, seed 1:")
    page.locator("#play-round").fill("30")
    page.locator("#play-round").press("Enter")
    expect(page.locator("#play-status")).to_contain_text("Round 30 balances")
    expect(page.locator("#play-later")).to_be_disabled()


def test_stepping_pausing_and_another_seed(stack, alice, pole):
    page = watch(alice, stack, pole)
    run, slider = page.locator("#pole-run"), page.locator("#pole-step")
    wait_until(lambda: step(page) > 1, "the pole to move", 30, page)
    run.click()
    expect(run).to_have_text("Play")
    slider.fill("99")
    assert step(page) == 100
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert step(page) == 99
    tab_to(page, "pole-again")
    page.keyboard.press("Enter")
    expect(run).to_have_text("Pause")
    assert page.locator("#pole-seed").input_value() != "1"
    page.locator("#pole-seed").fill("-1")
    page.locator("#pole-seed").press("Enter")
    expect(page.locator("#play-problem")).to_contain_text("Seed must be a whole number from 0 to 18446744073709551615")
    page.locator("#pole-seed").fill("7")
    page.locator("#pole-seed").press("Enter")
    expect(page.locator("#play-problem")).to_be_hidden()
    expect(page.locator("#play-status")).to_have_text(f"Round {ROUNDS} balances…")


def test_nothing_moves_by_itself_where_motion_is_reduced(stack, chromium, pole):
    with Coordinator(chromium, "alice", reduced_motion="reduce") as calm:
        page = calm.sign_in(stack).page
        page.goto(f"{stack.url}/jobs/{pole}/play/")
        expect(page.locator("#play-status")).to_contain_text("Return 500")
        assert step(page) == 1
        expect(page.locator("#pole-run")).to_have_text("Play")


def test_a_newer_checkpoint_is_shown_when_the_episode_ends(stack, alice, tmp_path):
    job = CartPoleJob(stack, seed=str(SEED))
    train(job, "cartpole", tmp_path, rounds=range(1, 3), units=4)
    page = watch(alice, stack, job.id)
    expect(page.locator("#play-status")).to_contain_text("Round 2, seed 1: it balanced")
    train(job, "cartpole", tmp_path, rounds=range(3, 4), units=4)
    expect(page.locator("#play-status")).to_contain_text("Round 3, seed 1: it balanced")
    assert page.locator("#play-round").input_value() == "3"


def test_a_round_that_is_not_there_is_refused_in_words(stack, alice, pole):
    page = watch(alice, stack, pole)
    page.locator("#play-round").fill("31")
    page.locator("#play-round").press("Enter")
    expect(page.locator("#play-problem")).to_have_text("Round must be a whole number from 0 to 30.")
    page.goto(f"{stack.url}/jobs/{pole}/play/?round=99")
    expect(page.locator("#play-problem")).to_have_text("There is no checkpoint of round 99 any more, or not yet.")
    alice.forgive(404, "/play/99")


def test_weights_that_cannot_be_fetched_are_said(stack, alice, pole):
    alice.page.route("**/bytes/jobs/**", lambda route: route.fulfill(status=404, body="gone"))
    alice.page.goto(f"{stack.url}/jobs/{pole}/play/")
    expect(alice.page.locator("#play-problem")).to_contain_text("404")
    alice.page.unroute("**/bytes/jobs/**")
    alice.forgive(404, "/bytes/jobs/")


def test_nothing_but_files_of_the_job_is_asked_for(stack, alice, pole):
    """What a person does while watching stays in the browser."""
    page = watch(alice, stack, pole)
    before = len(alice.requests)
    page.locator("#pole-again").click()
    expect(page.locator("#pole-seed")).not_to_have_value("1")
    wait_until(lambda: step(page) > 1, "another episode", 30, page)
    asked = [request for request in alice.requests[before:] if not request.endswith("/play/newest")]
    assert [request for request in asked if "/static/" not in request] == []


def test_somebody_elses_job_is_not_played(stack, chromium, pole):
    with Coordinator(chromium, "mallory") as mallory:
        mallory.sign_in(stack).page.goto(f"{stack.url}/jobs/{pole}/play/")
        expect(mallory.page.get_by_text("There is no such job of yours.")).to_be_visible()
        mallory.forgive(404, "/play/")


# --- A model that only has inputs and outputs ---


@pytest.fixture(scope="module")
def digits(stack):
    return DigitsJob(stack).id


def test_a_digit_is_drawn_and_read(stack, alice, digits):
    page = watch(alice, stack, digits)
    box = page.locator(".paper").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 20, steps=8)
    page.mouse.up()
    pixels = [int(text) for text in page.get_by_label("8 × 8 image, row by row").input_value().split()]
    assert len(pixels) == 64 and max(pixels) == 16 and sum(pixels) > 60
    page.get_by_role("button", name="Ask the model").click()
    expect(page.locator("#play-status")).to_have_text(re.compile(r"Round 0 answers\. Digit: \d\."))
    expect(page.locator("#ask-answer .bars li")).to_have_count(10)
    check_page(page, "play-form")


def test_an_input_that_does_not_fit_is_said_by_the_page_or_by_the_model(stack, alice, digits):
    page = watch(alice, stack, digits)
    field = page.get_by_label("8 × 8 image, row by row")
    field.fill("1 2 3")
    page.get_by_role("button", name="Ask the model").click()
    expect(page.locator("#ask-wrong")).to_have_text("8 × 8 image, row by row must be 64 numbers; found 3.")
    field.fill(" ".join(["99"] * 64))
    page.get_by_role("button", name="Ask the model").click()
    expect(page.locator("#play-problem")).to_contain_text("pixels")
