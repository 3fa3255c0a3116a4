"""axe-core finds nothing serious in what pages become while they are used, in the light and in the dark, at both
widths. Every page as it is loaded is looked at by test_design.py, which weighs it too."""

import pytest
from playwright.sync_api import expect

from tests.browser import card_state
from tests.browser.accessibility import check_accessible
from tests.browser.people import Coordinator, Participant
from tests.browser.playing import SEED, train
from tests.browser.test_pages import LONG, WIDTHS
from tests.stack.model_jobs import CartPoleJob, DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
STAFF = """
from django.contrib.auth.models import User
person, _ = User.objects.get_or_create(username=name)
person.is_staff = person.is_superuser = True
person.save()
"""


def check(page):
    """At every width."""
    size = page.viewport_size
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        check_accessible(page)
    page.set_viewport_size(size)


def visit(person, stack, path, ready="h1"):
    person.page.goto(stack.url + path)
    expect(person.page.locator(ready).locator("visible=true").first).to_be_visible()
    check(person.page)


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def watched(stack, tmp_path_factory):
    """CartPole after three rounds: its policy can be watched at every checkpoint."""
    job = CartPoleJob(stack, seed=str(SEED))
    train(job, "cartpole", tmp_path_factory.mktemp("cartpole"), rounds=range(1, 4), units=4)
    return job.id


def test_axe_finds_what_is_wrong(stack, chromium):
    """The check itself: a picture and a field without a name."""
    with Participant(chromium, "visitor") as visitor:
        visitor.page.goto(stack.url + "/help/")
        visitor.page.evaluate("document.querySelector('main').innerHTML += '<img src=\"/static/css/icon.svg\"><input>'")
        with pytest.raises(AssertionError, match="image-alt"):
            check(visitor.page)


def test_pages_for_everybody(stack, chromium):
    with Participant(chromium, "visitor") as visitor:
        visitor.page.goto(f"{stack.url}/train/")
        visitor.page.locator("#device-settings summary").click()
        check(visitor.page)
        visitor.page.goto(stack.sign_in_link("carol"))
        check(visitor.page)
        visit(visitor, stack, f"/join/{'x' * 43}/", "#join-invalid h1")
        visitor.forgive(404, "/api/v1/invitations/open")


def test_pages_of_a_coordinator(stack, alice, watched):
    base = f"/jobs/{watched}"
    alice.page.goto(f"{stack.url}/jobs/new/")
    alice.page.locator("[data-preset*=digits]").click()
    expect(alice.page.locator("#chosen-files li").first).to_be_visible()
    alice.page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    check(alice.page)
    alice.page.goto(f"{stack.url}{base}/")
    alice.page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    alice.page.locator("#id_epochs").fill("0")
    alice.page.get_by_role("button", name="Save settings").click()
    expect(alice.page.locator("#settings-form .problem:visible").first).to_be_visible()
    check(alice.page)
    visit(alice, stack, f"{base}/play/", "#play h2")
    alice.complaints.clear()


def test_pages_of_a_job_at_work(stack, chromium, alice):
    job = DigitsJob(stack, **LONG)
    with Participant(chromium, "bob") as bob:
        bob.open(job.link)
        check(bob.page)
        bob.accept()
        job.start(wanted=1)
        bob.wait_for_stage("Training")
        bob.page.locator("#device-settings summary").click()
        check(bob.page)
        alice.open_job(stack, job.id)
        alice.invite(uses=5)
        expect(alice.page.locator("#panel-diagnostics [data-slot=fresh]").first).to_have_text("Live")
        check(alice.page)


def test_the_card_with_participants_of_every_state(stack, chromium, watched):
    with Coordinator(chromium, "alice") as alice:
        alice.sign_in(stack)
        people = card_state.participants(13)
        next(iter(people.values()))["entry"] |= {"stage": "error", "error": "train trapped: unreachable"}
        card_state.fake(alice.page, card_state.state_of(watched, people, points=5))
        alice.open_job(stack, watched)
        expect(alice.page.locator("#live")).to_be_visible()
        alice.page.locator("#panel-diagnostics details").first.evaluate("(details) => { details.open = true; }")
        check(alice.page)


def test_the_index_of_the_admin(stack, chromium):
    """Django's own pages, with what this project shows there."""
    stack.shell(STAFF, name="root")
    with Coordinator(chromium, "root") as root:
        root.sign_in(stack)
        visit(root, stack, "/admin/")
