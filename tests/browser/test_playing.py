"""Looking at what was learned: a policy balances a pole, a game is played, a model is asked in the browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import check_accessible
from tests.browser.people import Coordinator, Participant, wait_until
from tests.browser.playing import SEED, train
from tests.browser.test_pages import check_page, tab_to
from tests.stack.model_jobs import CartPoleJob, DigitsJob, ModelJob, preset_of
from tests.stack.stack import ROOT

pytestmark = pytest.mark.usefixtures("nobody_complains")
ROUNDS = 30
AUXILIARY = ROOT / "tests/models/auxiliary"
CONTINUED = """
import json
from jobs.models import Job
job = Job.objects.get(pk=job_id)
answer = {name: getattr(job, name) for name in ("first_round", "round_no", "next_unit", "job_seed")}
answer["epochs"] = json.loads(job.settings_text)["epochs"]
"""
WEIGHTS = """
from checkpoints.models import Checkpoint
answer = dict(Checkpoint.objects.filter(job=job_id).values_list("round", "weights_id"))
"""


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
    check_accessible(page)
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
    # A step that the person looks at stays until they go on.
    page.locator("#pole-step").fill("2")
    train(job, "cartpole", tmp_path, rounds=range(4, 5), units=4)
    page.evaluate("document.dispatchEvent(new CustomEvent('weei:checkpoints'))")
    page.locator("#play-state").click()
    assert step(page) == 3 and page.locator("#play-round").input_value() == "3"
    page.locator("#pole-step").press("End")
    expect(page.locator("#play-status")).to_contain_text("Round 4, seed 1: it balanced")


def test_a_round_that_is_not_there_is_refused_in_words(stack, alice, pole):
    page = watch(alice, stack, pole)
    page.locator("#play-round").fill("31")
    page.locator("#play-round").press("Enter")
    expect(page.locator("#play-problem")).to_contain_text("Round must be a whole number from 0 to 30.")
    page.goto(f"{stack.url}/jobs/{pole}/play/?round=99")
    expect(page.locator("#play-problem")).to_contain_text("There is no checkpoint of round 99 any more, or not yet.")
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
    looks = ("/play/newest", f"/api/v1/jobs/{pole}")  # for a newer checkpoint, every few seconds
    asked = [request for request in alice.requests[before:] if not request.endswith(looks)]
    assert [request for request in asked if "/static/" not in request] == []


def test_somebody_elses_job_is_not_played(stack, chromium, pole):
    with Coordinator(chromium, "mallory") as mallory:
        mallory.sign_in(stack).page.goto(f"{stack.url}/jobs/{pole}/play/")
        expect(mallory.page.get_by_text("There is no such job of yours.")).to_be_visible()
        mallory.forgive(404, "/play/")


# --- A game ---

OVER = re.compile("you win!|it wins.|a draw.")


@pytest.fixture(scope="module")
def game(stack, tmp_path_factory):
    """Connect Four after five short rounds."""
    job = ModelJob(stack, *preset_of("connect4"), seed=str(SEED))
    train(job, "connect4", tmp_path_factory.mktemp("connect4"), rounds=range(1, 6), units=4)
    return job.id


def status(page):
    return page.locator("#play-status").inner_text()


def moves(page):
    """The columns played so far, from 1."""
    text = page.locator("#four-moves").inner_text()
    return [] if text == "none yet" else [int(column) for column in text.split(", ")]


def sit_down(person, stack, job):
    """Open the page and wait for the first turn."""
    page = watch(person, stack, job)
    expect(page.locator("#play-status")).to_have_text("Your turn.")
    return page


def wait_for_turn(page):
    expect(page.locator("#play-status")).to_have_text(re.compile(f"Your turn|{OVER.pattern}"))


def open_columns(page):
    return page.locator(".four-column[aria-disabled=false]")


def check_end(page):
    """Nothing can be played any more, and four discs are marked unless it is a draw."""
    assert OVER.search(status(page)), status(page)
    expect(open_columns(page)).to_have_count(0)
    expect(page.locator(".disc.won")).to_have_count(0 if "draw" in status(page) else 4)
    played = len(moves(page))
    assert page.locator("#four-board .disc.yours, #four-board .disc.models").count() == played <= 42
    page.keyboard.press("4")
    assert len(moves(page)) == played


def test_a_game_is_played_by_clicking_to_its_end(stack, alice, game):
    page = sit_down(alice, stack, game)
    while True:
        before = len(moves(page))
        open_columns(page).nth(before % open_columns(page).count()).click()
        wait_for_turn(page)
        if OVER.search(status(page)):
            break
        assert re.fullmatch(r"You: column \d\. The model: column \d\. Your turn\.", status(page))
        assert len(moves(page)) == before + 2
    check_end(page)
    check_accessible(page)
    check_page(page, "play-connect-four")


def test_a_game_is_played_by_keyboard_alone_to_its_end(stack, alice, game):
    page = sit_down(alice, stack, game)
    tab_to(page, "four-starts")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#four-starts")).to_have_value("model")
    page.keyboard.press("Shift+Tab")
    while page.evaluate("document.activeElement.id") != "four-new":
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#play-status")).to_have_text(re.compile(r"The model: column \d\. Your turn\."))
    # With the arrows and Enter, and by number: both drop a disc.
    page.locator("#four-column-1").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "four-column-2"
    page.keyboard.press("Enter")
    wait_for_turn(page)
    assert moves(page)[1] == 2
    while not OVER.search(status(page)):
        page.keyboard.press(open_columns(page).first.get_attribute("id")[-1])
        wait_for_turn(page)
    check_end(page)


def test_a_column_says_what_lies_in_it_and_when_it_is_full(stack, alice, game):
    page = sit_down(alice, stack, game)
    expect(page.get_by_role("button", name="Column 1, empty")).to_be_visible()
    while page.locator("#four-column-1 .disc.free").count() and not OVER.search(status(page)):
        page.keyboard.press("1")
        wait_for_turn(page)
    if not OVER.search(status(page)):
        expect(page.get_by_role("button", name="Column 1, full")).to_be_visible()
        before = moves(page)
        page.keyboard.press("1")
        expect(page.locator("#play-status")).to_have_text("Column 1 is full. Your turn.")
        assert moves(page) == before


def test_a_move_is_taken_back(stack, alice, game):
    page = sit_down(alice, stack, game)
    expect(page.locator("#four-undo")).to_be_disabled()
    for column in "34":
        page.keyboard.press(column)
        wait_for_turn(page)
    first = moves(page)[:2]
    page.locator("#four-undo").click()
    expect(page.locator("#play-status")).to_have_text("Your last move is taken back. Your turn.")
    assert moves(page) == first
    page.locator("#four-undo").click()
    expect(page.locator("#four-moves")).to_have_text("none yet")


def test_what_the_model_thinks_is_shown_on_request(stack, alice, game):
    page = sit_down(alice, stack, game)
    expect(page.locator("#four-thought")).to_be_hidden()
    assert "".join(page.locator(".four-share").all_inner_texts()) == ""
    page.locator("#four-hint").click()
    expect(page.locator("#four-thought")).to_have_text(
        re.compile(
            r"The model thinks (you are|it is) (ahead|even): -?[01]\.\d\d, .* It would play column \d \(\d+ %\)\."
        )
    )
    shares = [int(text.split()[0]) for text in page.locator(".four-share").all_inner_texts()]
    assert len(shares) == 7 and 97 <= sum(shares) <= 103
    check_accessible(page)
    check_page(page, "play-connect-four-hints")


def test_another_checkpoint_takes_over_the_game_with_its_own_slots(stack, alice, game):
    """Round 5 plays with the weights of round 2 in its slot, round 1 with those of round 0."""
    page = sit_down(alice, stack, game)
    page.keyboard.press("4")
    wait_for_turn(page)
    before = moves(page)
    asked = len(alice.fetched("/bytes/"))
    page.locator("#play-round").fill("1")
    page.locator("#play-round").press("Enter")
    expect(page.locator("#play-state")).to_have_text("Round 1 is loaded.")
    wait_for_turn(page)
    assert moves(page) == before and not page.locator("#play-follow").is_checked()
    hashes = stack.shell(WEIGHTS, job_id=game)
    assert [request.rsplit("/", 1)[-1] for request in alice.fetched("/bytes/")[asked:]] == [hashes["1"], hashes["0"]]
    assert {hashes["5"], hashes["2"]} <= {request.rsplit("/", 1)[-1] for request in alice.fetched("/bytes/")[:asked]}


def test_a_game_is_played_by_touch(stack, chromium, game):
    with Coordinator(chromium, "alice", viewport={"width": 390, "height": 844}, has_touch=True) as phone:
        page = sit_down(phone.sign_in(stack), stack, game)
        box = page.locator("#four-column-4").bounding_box()
        assert box["width"] >= 44
        page.locator("#four-column-4").tap()
        wait_for_turn(page)
        assert moves(page)[0] == 4


def test_a_model_that_could_not_be_asked_is_asked_again(stack, alice, game):
    page = sit_down(alice, stack, game)
    page.route("**/static/weei/train-worker.js", lambda route: route.abort())
    page.locator("#play-earlier").click()
    expect(page.locator("#play-problem")).to_contain_text("Worker")
    page.unroute("**/static/weei/train-worker.js")
    page.locator("#four-retry").click()
    expect(page.locator("#play-status")).to_have_text("Your turn.")
    expect(page.locator("#play-problem")).to_be_hidden()
    alice.complaints = [line for line in alice.complaints if "train-worker" not in line]


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
    check_accessible(page)
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


# --- The pages around it ---


def test_the_pages_of_an_experience_job_can_be_read_by_everybody(stack, alice, pole):
    page = alice.page
    for path in (
        f"{pole}/",
        f"{pole}/checkpoints/",
        f"{pole}/checkpoints/30/",
        f"{pole}/checkpoints/30/continue",
        "new/",
    ):
        page.goto(f"{stack.url}/jobs/{path}")
        expect(page.locator("h1")).to_be_visible()
        if path == "new/":
            page.get_by_role("button", name="CartPole").click()
            expect(page.get_by_label("Episodes per round")).to_have_value("32")
        check_accessible(page)
        check_page(page, f"experience-{path.removeprefix(pole).strip('/').replace('/', '-') or 'job'}")


def test_a_job_is_continued_without_choosing_any_file(stack, alice, pole):
    page = alice.page
    page.goto(f"{stack.url}/jobs/{pole}/checkpoints/30/continue")
    expect(page.locator("#own-data")).to_contain_text("makes its own data (episodes)")
    expect(page.locator("#mode-resume")).to_be_checked()
    page.get_by_label("Rounds", exact=True).fill("30")
    expect(page.locator("[data-rounds-left]")).to_have_text("It must be above 30.")
    page.locator("#create").click()
    expect(page.locator("[data-problem=epochs]")).to_contain_text("The checkpoint is of round 30")
    alice.forgive(422, "/jobs/new/settings")
    page.get_by_label("Rounds", exact=True).fill("45")
    expect(page.locator("[data-rounds-left]")).to_have_text("From round 30 on, 45 trains 15 more.")
    page.locator("#job-name").fill("CartPole, continued")
    made = alice.create()
    found = stack.shell(CONTINUED, job_id=made)
    assert found == {"first_round": 30, "round_no": 30, "next_unit": ROUNDS * 64, "job_seed": str(SEED), "epochs": 45}


def test_auxiliary_weights_are_asked_for_by_name(stack, alice):
    page = alice.page
    page.goto(f"{stack.url}/jobs/new/")
    page.locator("#file-validation").set_input_files(AUXILIARY / "echo.c")
    page.locator("#file-manifest").set_input_files(AUXILIARY / "package.json")
    expect(page.get_by_label("Auxiliary weights files")).to_be_visible()
    expect(page.get_by_label("Steps per round")).to_have_value("6")
    wanted = page.locator("#files-wanted li")
    expect(wanted).to_have_text(re.compile(r"reward\.\w+\s*8 B · missing"))
    # A validation file that was chosen before is not asked for, and not sent.
    expect(page.locator("#file-validation")).to_be_hidden()
    expect(page.locator("#chosen-files li")).to_have_count(1)
    name = wanted.inner_text().split()[0]
    page.locator("#file-files").set_input_files([{"name": name, "mimeType": "", "buffer": b"12345678"}])
    expect(wanted).to_contain_text("chosen")
    check_accessible(page)


def test_an_invitation_says_what_is_played_and_what_stays(stack, chromium):
    job = CartPoleJob(stack, workers=2, experience={"unitsPerAssignment": 48})
    with Participant(chromium, "bob") as bob:
        bob.open(job.link)
        said = bob.text("join-card")
        assert "this device plays 48 episodes, and they stay here" in said and "up to 2 of this device's cores" in said
        assert "of data for each round" not in said and "and besides" not in said
        check_accessible(bob.page)
        check_page(bob.page, "experience-invitation")
